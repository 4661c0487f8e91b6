"""The facts that one run of one model knows before its first step. No step changes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dbt.adapters.mvsink.engine import Engine
from dbt.adapters.mvsink.materialization.options.table import ModelOptions
from dbt.adapters.mvsink.materialization.shard_place import place_of
from dbt.adapters.mvsink.profile_keys import REFUSE
from dbt.adapters.mvsink.published.formats import ICEBERG, TableFormat, recorded
from dbt.adapters.mvsink.references.inlined import Inlined
from dbt.adapters.mvsink.shard import ShardClient
from dbt.adapters.mvsink.shard_sql.properties import FILE_FORMAT
from dbt.adapters.mvsink.shard_sql.published_view import PublishedView
from dbt.adapters.mvsink.user_sql.words import parts

if TYPE_CHECKING:
    from dbt.adapters.mvsink.relation import MvsinkRelation


@dataclass(frozen=True)
class Invocation:
    """The dbt invocation. ``time`` is `T` in ms; ``target`` is the name of the profile's target."""

    id: str
    time: int
    target: str
    project: str
    read_only: bool = False
    full_refresh: bool = False
    empty: bool = False
    sampled: bool = False
    # what this model reads: unique ids by the relations' text in the query
    references: Mapping[str, str] = field(default_factory=dict)
    accept: Any = ()  # models that may change by any number of rows
    sample: int = 0  # rows that a read-only run shows
    verify: bool = False
    rehearsal: bool = False  # write no shard but the model's own, in a place of its own
    future: bool = False  # the time may be far ahead of the clock
    explain: bool = False  # evaluate nothing, say whether a run would
    imports: Any = ()  # models whose first contents are those of the table that has their name

    @property
    def sources(self) -> frozenset[str]:
        """The relations that the model reads and that no model makes."""
        return frozenset(
            name for name, unique_id in self.references.items() if unique_id.startswith("source.")
        )


@dataclass(frozen=True)
class ImportSource:
    """The table ``name``, as SQL names it, whose rows become a view's first contents. ``kept`` is
    the identifier that it gets, empty if it keeps its name (in a rehearsal).
    """

    name: str
    kept: str


@dataclass(frozen=True)
class RunContext:
    """The model, its options and the location of its shard.

    ``model`` is ``schema.identifier``. ``query`` is the compiled text, in which dbt's views are
    later replaced by their texts; `compiled` explains ``own_text``. ``published`` is what its view
    shows, None if there is no view that shows a shard. ``session`` identifies what runs the
    engine's statements. ``longest_view`` is how many characters of a view's text the metastore
    keeps, None if unlimited. ``embedded`` means that the engine's driver is this process.
    ``unsupported_grants`` is the profile's key. ``importing`` is what the run imports, if anything.
    """

    model: str
    relation: MvsinkRelation
    node: Mapping[str, Any]
    query: str
    options: ModelOptions
    invocation: Invocation
    published: PublishedView | None
    engine: Engine
    session: object
    manifest: Any
    shard_root: str
    client: ShardClient = field(repr=False)  # the run's, for its own thread
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)  # may hold secrets
    iceberg_catalog: Mapping[str, str] | None = field(default=None, repr=False)  # may hold secrets
    longest_view: int | None = None
    embedded: bool = False
    unsupported_grants: str = REFUSE
    importing: ImportSource | None = None
    views: Inlined | None = None  # what became of dbt's views in the query, if it reads some
    own_text: str = ""

    @property
    def table_format(self) -> TableFormat | None:
        """In which format the model is published beside its view; None if in none."""
        wanted = recorded({FILE_FORMAT: self.options.file_format})
        if wanted is not None and wanted.name == ICEBERG and self.iceberg_catalog:
            return replace(wanted, entry=self.model)
        return wanted

    @property
    def compiled(self) -> str:
        """The query as its author wrote it."""
        return self.own_text or self.query

    @property
    def relations(self) -> tuple[str, ...]:
        """The relations that the query may read, as it names them."""
        own = self.invocation.references
        known = {parts(name) for name in own}
        below = () if self.views is None else self.views.names
        return (*own, *(name for name in below if parts(name) not in known))

    @property
    def unique_id(self) -> str:
        return str(self.node["unique_id"])

    @property
    def read_only(self) -> bool:
        """Whether the run is read-only: by the model's config, the profile, or the invocation."""
        return self.options.read_only or self.invocation.read_only

    @cached_property
    def default_uri(self) -> str:
        """Where the shard is, or is created, if the model has no view that shows one."""
        relation = self.relation
        return place_of(self.client, self.shard_root, str(relation.schema), str(relation.identifier))

    @property
    def uri(self) -> str:
        """The shard that the view shows, or else where it would be created."""
        return self.published.uri if self.published else self.default_uri

    @property
    def purpose(self) -> str:
        """The purpose that commits record."""
        return f"mv_sink({self.model})"
