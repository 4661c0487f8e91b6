"""The adapter's methods that macros call for every maintained model.

They parse, delegate to `materialization`, and translate errors.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from dbt.adapters.base.meta import AdapterMeta, available
from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.spark.impl import SparkAdapter

from dbt.adapters.mvsink.adapter.dbt_engine import AdapterEngine
from dbt.adapters.mvsink.adapter.named_models import check_named
from dbt.adapters.mvsink.adapter.variables import variable
from dbt.adapters.mvsink.durations import iso, parse_time
from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.exceptions import InvalidRunTime, ReadOnlyRefused
from dbt.adapters.mvsink.materialization import grants
from dbt.adapters.mvsink.materialization import run as phases
from dbt.adapters.mvsink.materialization.audits import CompiledTest, chosen, compiled, narrowed
from dbt.adapters.mvsink.materialization.context import Invocation, RunContext
from dbt.adapters.mvsink.materialization.errors import LOWER_ERRORS, translate, translated
from dbt.adapters.mvsink.materialization.importing import Existing, source_of
from dbt.adapters.mvsink.materialization.mv import SelfCorrectingView
from dbt.adapters.mvsink.materialization.options.folder_configs import configs_of
from dbt.adapters.mvsink.materialization.options.table import ModelOptions, ignored_configs
from dbt.adapters.mvsink.materialization.orphans import (
    Orphan,
    known_orphans,
    may_show_shard,
    orphans,
    shard_in_listing,
    unclaimed,
)
from dbt.adapters.mvsink.materialization.publish import Docs
from dbt.adapters.mvsink.materialization.response import MvsinkResponse
from dbt.adapters.mvsink.materialization.run import Executed, Prepared, Published, check_names
from dbt.adapters.mvsink.materialization.warn import warn, warn_of_all
from dbt.adapters.mvsink.profile_keys import SESSION
from dbt.adapters.mvsink.published import retire
from dbt.adapters.mvsink.shard import Antichain, OpenShards, ShardClient, ShardState, WriteHandle
from dbt.adapters.mvsink.shard_sql import Layout, row_count
from dbt.adapters.mvsink.shard_sql.errors import UnreadableView
from dbt.adapters.mvsink.shard_sql.properties import held_shards, imported_from, release_holds, release_pause
from dbt.adapters.mvsink.shard_sql.published_view import PublishedView, listed_view, read_if_there
from dbt.adapters.mvsink.user_sql.checks import without_end

if TYPE_CHECKING:
    from dbt.adapters.mvsink.relation import MvsinkRelation


RUN_TIME_VARIABLE = "MVSINK_RUN_TIME"
COUNTING_TIMEOUT = 2.0  # seconds for a shard that cannot be read, when orphans are only counted
REBUILT = ("table", "incremental", "snapshot", "seed", "clone")
log = logging.getLogger("mvsink.shard")
DESCRIPTIONS = {
    "rows": "Rows at the newest time",
    "bytes": "Size of the live files",
    "since": "Earliest time that can be read",
    "upper": "Contents are final before this time",
}
_lock = threading.Lock()
_newest_invocation: dict[str, str] = {}  # by what is done once per invocation


class MaintainedAdapter(SparkAdapter, metaclass=AdapterMeta):
    """Part of the adapter. Errors of lower layers leave as dbt's own, with the model's name."""

    open_shards: OpenShards
    listings: dict[str, object]

    @available.parse(lambda *_, **__: 0)
    def mv_time(self, variable: Any, started: datetime) -> int:
        """The run's logical time in ms: a var, `MVSINK_RUN_TIME`, or the invocation's start."""
        environment = os.environ.get(RUN_TIME_VARIABLE)
        for source, value in (("mvsink_run_time", variable), (RUN_TIME_VARIABLE, environment)):
            if value is not None and value != "":
                parsed = parse_time(value)
                if parsed is None:
                    raise InvalidRunTime(source, value)
                return parsed
        return int(started.timestamp() * 1000)

    @available.parse_none
    def mv_prepare(
        self,
        node: Mapping[str, Any],
        relation: MvsinkRelation,
        existing: MvsinkRelation | None,
        query: str,
        invocation: Mapping[str, Any],
    ) -> Prepared:
        """Check a model's name, configs and schedule. Nothing is written."""
        model = checked_name(relation)
        with translated(model):
            options = ModelOptions.parse(model, configs_of(model, node, self.get_macro_resolver()))
            context = self._context(node, relation, existing, query, options, self._invocation(invocation))
            return phases.prepare(context, SelfCorrectingView())

    def _invocation(self, values: Mapping[str, Any]) -> Invocation:
        check_named(self.config, self.get_macro_resolver())
        # dbt's `flags` do not show `--sample`
        return Invocation(**values, sampled=getattr(self.config.args, "sample", None) is not None)

    def _context(
        self,
        node: Mapping[str, Any],
        relation: MvsinkRelation,
        existing: MvsinkRelation | None,
        query: str,
        options: ModelOptions,
        invocation: Invocation,
    ) -> RunContext:
        model, credentials = f"{relation.schema}.{relation.identifier}", self._credentials()
        engine = AdapterEngine(self, model)
        published = self._in_listing(existing) or self.published(existing)
        importing = None
        if invocation.imports:
            find = partial(self._find, str(relation.schema))
            importing = source_of(invocation.imports, node, model, str(relation.identifier), find)
        return RunContext(
            model=model,
            relation=relation,
            node=node,
            query=without_end(query),
            options=options,
            invocation=invocation,
            published=published,
            engine=engine,
            session=engine.session,
            manifest=self.get_macro_resolver(),
            shard_root=str(credentials.shards).rstrip("/"),
            client=ShardClient(credentials.storage_options, opened=self.open_shards),
            storage_options=credentials.storage_options,
            iceberg_catalog=credentials.iceberg_catalog,
            longest_view=credentials.longest_view,
            embedded=credentials.method == SESSION,
            unsupported_grants=credentials.unsupported_grants,
            importing=importing,
        )

    def _find(self, schema: str, identifier: str) -> Existing | None:
        """What has this name, for an import."""
        schemas = tuple(self.cache.schemas)  # models run in threads
        listed = (relation for name in schemas for relation in self.cache.get_relations(*name))
        names = (schema.lower(), identifier.lower())
        for each in listed:
            if (str(each.schema).lower(), str(each.identifier).lower()) == names:
                shown = self._in_listing(each) or self.published(each)
                return Existing(each.render(), str(each.type), shown is not None)
        return None

    @available.parse_none
    def mv_name_of_imported(self, executed: Executed, existing: MvsinkRelation) -> MvsinkRelation | None:
        """The relation that the table ``existing`` becomes, if the model's first contents were its
        rows and it still has the model's name; else None.
        """
        imported = imported_from(executed.opened.handle.state())
        if imported is None or not imported.kept or existing.is_view:
            return None
        if self._find(str(existing.schema), imported.kept) is not None:  # of an import that is complete
            return None
        kept: MvsinkRelation = existing.incorporate(path={"identifier": imported.kept})  # type: ignore[no-untyped-call]
        return kept

    @available.parse_none
    def mv_warn_of_ignored(
        self, invocation_id: str, nodes: Mapping[str, Any], selected: Sequence[str]
    ) -> None:
        """Warn, once per invocation, of selected models with Spark table configs that shards do not
        use.
        """
        if not _first_call("ignored", invocation_id):
            return
        ignored = ignored_configs(nodes[name] for name in selected if name in nodes)
        if ignored:
            listed = "; ".join(f"{model} ({', '.join(keys)})" for model, keys in ignored.items())
            warn(f"configs that a shard does not use are ignored: {listed}")

    @available.parse(lambda *_: {})
    def mv_applicable_grants(
        self, relation: MvsinkRelation, wanted: Mapping[str, Any] | None, invocation_id: str
    ) -> Mapping[str, Any]:
        """See `grants.applicable`. Warns, once per invocation, of grants that are skipped."""
        name, unsupported = str(relation), self._credentials().unsupported_grants
        left = grants.applicable(AdapterEngine(self, name), name, name, wanted, unsupported)
        if wanted and not left and _first_call("grants", invocation_id):
            warn(grants.SKIPPED)
        return left

    @available.parse_list
    def mv_audits(self, prepared: Prepared) -> list[CompiledTest]:
        """The tests of the model's `audit`, compiled."""
        context = prepared.context
        config = context.options.audit
        if not config.tests or context.invocation.empty:
            return []
        nodes = chosen(context.manifest, context.model, context.unique_id, config.tests)
        tests = [compiled(self, context.manifest, node) for node in nodes]
        return narrowed(context, tests) if config.changes else tests

    @available.parse_none
    def mv_run(self, prepared: Prepared, audits: Sequence[tuple[CompiledTest, str]] = ()) -> Executed:
        """Bring the shard up to date; `--empty` only checks and creates.

        ``audits`` are tests that its contents must pass, each with the query that dbt's macro makes
        of it.
        """
        relation = str(prepared.context.relation)
        return phases.execute(prepared, tuple(test.audit(relation, verdict) for test, verdict in audits))

    @available.parse_none
    def mv_leave_alone(self, prepared: Prepared) -> MvsinkResponse:
        """dbt's response for a model that is paused, after a warning."""
        return phases.leave_alone(prepared)

    @available.parse_none
    def mv_publish(self, executed: Executed, docs: Mapping[str, Any]) -> Published:
        """Make the view show the shard; in read-only mode do nothing."""
        return phases.publish(executed, Docs(**docs))

    @available.parse_none
    def mv_finish(self, published: Published) -> MvsinkResponse:
        """Close the handles; returns dbt's response. Where warnings are errors they are raised
        here.
        """
        return phases.finish(published)

    @available.parse_none
    def mv_mark_dropped(self, relation: MvsinkRelation) -> None:
        """Mark the shard that ``relation`` shows dropped; its files stay for the grace period."""
        # before the view is dropped: where it is an error, the view stays
        warn_of_all(self._mark_dropped(relation))

    def _mark_dropped(self, relation: MvsinkRelation) -> list[str]:
        """Why the shard could not be marked; empty if it was, or if there is none."""
        if not relation.schema or not may_show_shard(relation):  # a temporary view has no schema
            return []
        try:
            published = self._read_published(relation)
        except UnreadableView as error:
            return [f"{relation}: its shard could not be marked dropped: {error}"]
        except EngineError as error:
            raise translate(str(relation), error) from error
        return [] if published is None else self.mv_mark_shard_dropped(str(relation), published.uri)

    @available.parse_list
    def mv_mark_shard_dropped(self, relation: str, uri: str) -> list[str]:
        """Mark the shard dropped and release its holds. Returns warnings for `mv_warn`."""
        try:
            client = ShardClient(self._credentials().storage_options)
            with WriteHandle.from_read(client.open_reader(uri), "drop") as handle:
                handle.mark_dropped()
                _, left = retire(handle, self._credentials().iceberg_catalog)
                release_pause(handle, "a drop")
                release_holds(client, str(handle.shard_id), held_shards(handle.state()))
        except LOWER_ERRORS as error:
            return [f"{relation}: its shard {uri} could not be marked dropped: {error}"]
        return [f"{relation}: {each}" for each in left]

    @available.parse_none
    def mv_mark_schema_dropped(self, relation: MvsinkRelation) -> list[str]:
        """`mv_mark_dropped` for a schema's views. Returns warnings, to raise when it is dropped."""
        if not self.check_schema_exists(relation.database or "", str(relation.schema)):
            return []
        views = self.list_relations(relation.database, str(relation.schema))
        return [warning for view in views for warning in self._mark_dropped(cast("MvsinkRelation", view))]

    @available.parse_none
    def mv_warn(self, warnings: Sequence[str]) -> None:
        """See `warn_of_all`."""
        warn_of_all(warnings)

    @available.parse_none
    def mv_is_shard(self, relation: MvsinkRelation) -> bool:
        """Whether this relation is a published shard."""
        return self.published(relation) is not None

    @available.parse_none
    def mv_shown(self, relation: MvsinkRelation | None) -> PublishedView | None:
        """The shard that this relation shows. No statement if the listing already rules it out."""
        return self.published(relation) if relation is not None and may_show_shard(relation) else None

    @available.parse_list
    def mv_orphans(
        self, schemas: Sequence[str], nodes: Mapping[str, Any], project: str, target: str
    ) -> list[Orphan]:
        """Published shards of this project and target whose model is not among ``nodes``."""
        listed = [
            relation for schema in dict.fromkeys(schemas) for relation in self.list_relations(None, schema)
        ]
        return self._orphans(listed, nodes, project, target)

    @available.parse_none
    def mv_count_orphans(
        self, invocation_id: str, nodes: Mapping[str, Any], project: str, target: str
    ) -> int | None:
        """How many orphans dbt's listings of this run show; None after an invocation's first."""
        first = known_orphans.of(invocation_id)
        with first.lock:
            if first.orphans is not None:
                return None
            schemas = tuple(self.cache.schemas)  # models run in threads
            listed = [relation for name in schemas for relation in self.cache.get_relations(*name)]
            first.orphans = self._orphans(listed, nodes, project, target, timeout=COUNTING_TIMEOUT)
            return len(first.orphans)

    def _orphans(
        self,
        listed: Iterable[Any],
        nodes: Mapping[str, Any],
        project: str,
        target: str,
        timeout: float | None = None,
    ) -> list[Orphan]:
        """A shard that cannot be read within ``timeout`` seconds is skipped; with None it is an
        error.
        """
        shown = {}
        try:
            for relation in unclaimed(listed, nodes):
                uri = shard_in_listing(relation.information or "")
                if uri is None and (published := self._read_published(relation)) is not None:
                    uri = published.uri
                if uri is not None:
                    shown[relation] = uri
            return orphans(shown, self._credentials().storage_options, nodes, (project, target), timeout)
        except LOWER_ERRORS as error:
            if timeout is None:
                raise translate("mvsink_orphans", error) from error
            log.debug("orphans were not counted: %s", error)
            return []

    @available.parse_none
    def mv_refuse_in_read_only(self, relation: MvsinkRelation, materialized: str) -> None:
        """Raises `ReadOnlyRefused` in a read-only invocation."""
        if self._read_only():
            raise ReadOnlyRefused(f"{relation.schema}.{relation.identifier}", materialized)

    def pre_model_hook(self, config: Any) -> None:
        """Before any node runs: a read-only invocation refuses what would be rebuilt."""
        materialized = str(config.get("materialized"))
        if materialized in REBUILT and self._read_only():
            raise ReadOnlyRefused(f"{config.model.schema}.{config.model.alias}", materialized)

    def _read_only(self) -> bool:
        """By the profile, or by `mvsink_read_only` (`--vars`, or the project's `vars`)."""
        return bool(variable(self.config, "mvsink_read_only")) or bool(self._credentials().read_only)

    def published(self, relation: MvsinkRelation | None) -> PublishedView | None:
        """The shard that ``relation`` shows; None if it does not exist or shows none. dbt's cache
        does not notice when a hook drops it.
        """
        with translated(str(relation)):
            return self._read_published(relation)

    def _in_listing(self, relation: MvsinkRelation | None) -> PublishedView | None:
        """The view that ``relation`` is, from dbt's listing at the run's start; None if that does
        not show it, or if a statement may have changed the catalog since.
        """
        if relation is None or not relation.is_view or not relation.information:
            return None
        connections: Any = self.connections
        known = self.listings.get(str(relation.schema).lower()) is connections.user_changes
        return listed_view(relation.information) if known else None

    def _read_published(self, relation: MvsinkRelation | None) -> PublishedView | None:
        """See `published`. Raises the errors of the lower layers."""
        if relation is None or not (relation.is_view or may_show_shard(relation)):
            return None
        engine = AdapterEngine(self, f"{relation.schema}.{relation.identifier}")
        return read_if_there(engine, str(relation))

    def _credentials(self) -> Any:
        return self.config.credentials

    def _get_columns_for_catalog(self, relation: BaseRelation) -> Iterable[dict[str, Any]]:
        statistics = self._shard_statistics(relation)
        for column in super()._get_columns_for_catalog(relation):
            column.update(statistics)
            yield column

    def _shard_statistics(self, relation: BaseRelation) -> dict[str, Any]:
        """The statistics for dbt's catalog; empty if it is not a shard. Docs never fail because of
        a shard.
        """
        published = self.published(cast("MvsinkRelation", relation))
        if published is None:
            return {}
        engine = AdapterEngine(self, f"{relation.schema}.{relation.identifier}")
        try:
            with ShardClient(self.config.credentials.storage_options).open_reader(published.uri) as reader:
                state = reader.state()
                parts = Layout.of(reader, state)
            [[rows]] = engine.query(row_count(parts), "count")
        except LOWER_ERRORS as error:
            warn(f"{relation}: no statistics of its shard {published.uri}: {error}")
            return {}
        return statistics(state, int(str(rows)))


def checked_name(relation: MvsinkRelation) -> str:
    """The model as ``schema.identifier``. Raises `InvalidName`."""
    model = f"{relation.schema}.{relation.identifier}"
    check_names(model, str(relation.schema), str(relation.identifier))
    return model


def _first_call(what: str, invocation_id: str) -> bool:
    """Whether this is the invocation's first call for ``what``. Models run in threads."""
    with _lock:
        first = _newest_invocation.get(what) != invocation_id
        _newest_invocation[what] = invocation_id
    return first


def statistics(state: ShardState, rows: int) -> dict[str, Any]:
    """The statistics of one version, by dbt's flat names."""
    values = {
        "rows": rows,
        "bytes": sum(file.size for file in state.files),
        "since": _shown_time(state.since),
        "upper": _shown_time(state.upper),
    }
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat[f"stats:{name}:label"] = name
        flat[f"stats:{name}:value"] = value
        flat[f"stats:{name}:description"] = DESCRIPTIONS[name]
        flat[f"stats:{name}:include"] = True
    return flat


def _shown_time(frontier: Antichain) -> str:
    time = frontier.as_option()
    return "final" if time is None else iso(time)
