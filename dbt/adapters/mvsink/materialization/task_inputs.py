"""What a task's input is: from a relation's name, as dbt rendered it, to a source of changes.

A published shard is read by its log; a Delta table and a table of files are found by what the
catalog tells of them. A view or an ephemeral model that is only filter and projection over one of
these is that one, its changes carried through the query. Anything else is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dbt.adapters.mvsink.adapter.dbt_engine import AdapterEngine
from dbt.adapters.mvsink.continual_task.row_mapping import NotRowByRow, RowByRow, row_by_row
from dbt.adapters.mvsink.engine import Column, EngineError, parse_type, sql
from dbt.adapters.mvsink.exceptions import InputRefused
from dbt.adapters.mvsink.inputs import DeltaInput, FilesInput, Input, ShardInput, bind, companion_uri
from dbt.adapters.mvsink.inputs.mapped import Carry, Through, ThroughInput
from dbt.adapters.mvsink.physical import TIME
from dbt.adapters.mvsink.references.listings import refresh, tables_of_files
from dbt.adapters.mvsink.shard import NotAShard, ShardClient, WriteHandle
from dbt.adapters.mvsink.shard_sql.as_of import nulls
from dbt.adapters.mvsink.shard_sql.published_view import PublishedView, read_published
from dbt.adapters.mvsink.user_sql.checks import listed, nondeterministic_functions
from dbt.adapters.mvsink.user_sql.splice import relations
from dbt.adapters.mvsink.user_sql.words import parts

if TYPE_CHECKING:
    from dbt.adapters.spark.impl import SparkAdapter

FILE_FORMATS = ("parquet", "orc", "csv", "json")
A_VIEW = "a continual task cannot use a view as its input"


@dataclass(frozen=True)
class Described:
    """What the catalog tells of a relation. ``path``: it is named by its place, as in
    ``delta.`/a/b` ``.

    Of a view: its ``query``, and the ``scope`` (a schema, quoted) in which names of one part in it
    are looked up.
    """

    name: str
    provider: str
    location: str
    view: bool = False
    path: bool = False
    query: str = ""
    scope: str = ""


@dataclass(frozen=True)
class Source:
    """An input that is found, not yet bound to times; ``table`` is None for a shard.

    ``columns`` are those that the task sees. ``through``: the query between it and the shard or
    table, if there is one.
    """

    columns: tuple[Column, ...]
    shard: ShardInput | None = None
    table: DeltaInput | FilesInput | None = None
    through: Through | None = None

    def bound(
        self, time: int, client: ShardClient, task_uri: str, generation: int, engine: AdapterEngine
    ) -> Input:
        """The input with its changes up to ``time`` (ms) at definite times. A reset task, of
        another generation, binds anew.
        """
        known = self.known(engine)
        if known is not None:
            return known
        assert self.table is not None
        name = self.table.id if generation == 0 else f"{self.table.id}@{generation}"
        return self._seen(bind(self.table, time, client, companion_uri(task_uri, name), engine), engine)

    def known(self, engine: AdapterEngine) -> Input | None:
        """The input, if its times are known without binding it."""
        return None if self.shard is None else self._seen(self.shard, engine)

    def _seen(self, base: Input, engine: AdapterEngine) -> Input:
        return base if self.through is None else ThroughInput(base, self.through, engine)

    def close(self) -> None:
        """Give up the handle."""
        if self.shard is not None and isinstance(self.shard.handle, WriteHandle):
            self.shard.handle.expire()


class Sources:
    """Finds them on one connection, for one model. ``ephemeral``: queries of ephemeral models, by
    the names that they are known by.
    """

    def __init__(
        self,
        adapter: SparkAdapter,
        engine: AdapterEngine,
        storage_options: Mapping[str, str] | None,
        ephemeral: Mapping[str, str] | None = None,
        *,
        append_only: bool = False,
        invocation_id: str = "",
    ):
        self.adapter, self.engine, self.options = adapter, engine, storage_options
        self.ephemeral, self.append_only = dict(ephemeral or {}), append_only
        self.client = ShardClient(storage_options)
        self.invocation_id = invocation_id

    def find(self, model: str, name: str) -> Source:
        """The relation that the task names as its input. Raises `InputRefused`."""
        key = parts(name)
        if len(key) == 1 and key[0] in self.ephemeral:
            return self._behind(model, Described(name, "", "", view=True, query=self.ephemeral[key[0]]))
        described = self._described(model, name)
        if described.view:
            published = read_published(self.engine, name)
            if published is None:
                return self._behind(model, described)
            shard = self.shard(published, model)
            return Source(shard.columns, shard=shard)
        if not described.provider:  # of a temporary view the catalog tells the columns alone
            reason = f"{A_VIEW} unless its query is known, and this is a temporary one: make it a model, or use a table behind it"
            raise InputRefused(model, name, reason)
        table: DeltaInput | FilesInput
        if described.provider == "delta":
            table = DeltaInput(described.location, name, self.options)
            return Source(table.columns(table.newest().version), table=table)
        if described.provider not in FILE_FORMATS:
            raise InputRefused(
                model,
                name,
                f"tables of {described.provider} are no input of a task; use a shard, a Delta table, or {', '.join(FILE_FORMATS)}",
            )
        table = FilesInput(
            name,
            name,
            described.location,
            append_only=self.append_only,
            refresh="" if described.path else f"refresh table {name}",
            fresh=bool(self.invocation_id),
            storage_options=self.options,
        )
        # then this run's other models see the same files
        if self.invocation_id and not described.path:
            refresh(self.engine, tables_of_files(self.engine, f"select * from {name}"), self.invocation_id)
        return Source(table.columns(self.engine), table=table)

    def _behind(self, model: str, view: Described) -> Source:
        """What the view or the ephemeral model reads, seen through its query."""
        found = self._row_by_row(model, view)
        inner = self.find(
            model,
            found.table if len(parts(found.table)) > 1 or not view.scope else f"{view.scope}.{found.table}",
        )
        columns = inner.columns if inner.through is None else inner.through.columns
        carry = found.carry
        if view.scope:  # a view may call its query's columns by other names
            names = sql.columns(
                [*(name for name, _ in self.engine.columns(f"select * from {view.name}")), TIME]
            )

            def carry(rows: str) -> str:
                return f"select * from {sql.subquery(found.carry(rows), '_mv_view')}({names})"

        nothing = f"select {nulls(columns)}, 0L {TIME} where false"
        given = self.engine.columns(carry(nothing))[:-1]
        seen = tuple(Column(name, parse_type(kind, name)) for name, kind in given)
        through = Through(seen, carry if inner.through is None else _after(inner.through.carry, carry))
        return replace(inner, columns=seen, through=through)

    def _row_by_row(self, model: str, view: Described) -> RowByRow:
        try:
            unsteady = nondeterministic_functions(view.query)
            if unsteady:
                raise NotRowByRow(listed(unsteady))
            return row_by_row(view.query, self.ephemeral)
        except NotRowByRow as refused:
            raise InputRefused(model, view.name, self._way_out(refused.reason, refused.tables)) from refused

    def _way_out(self, reason: str, tables: Sequence[str]) -> str:
        named = [
            f"`on input {self._in_dbt(table)} ...`"
            for table in tables
            if parts(table)[0] not in self.ephemeral
        ]
        behind = " or ".join(named[:2]) or "a table behind it"
        return (
            f"{A_VIEW} unless it is only filter and projection over one table, and this one has {reason}: make it "
            f"self_correcting_mv, or use {behind}"
        )

    def _in_dbt(self, table: str) -> str:
        """How a model names the relation."""
        manifest = self.adapter.get_macro_resolver()
        for node in (*getattr(manifest, "nodes", {}).values(), *getattr(manifest, "sources", {}).values()):
            if getattr(node, "relation_name", None) and parts(node.relation_name) == parts(table):
                source = getattr(node, "source_name", None)
                return (
                    f"{{{{ source('{source}', '{node.name}') }}}}"
                    if source
                    else f"{{{{ ref('{node.name}') }}}}"
                )
        return ".".join(parts(table))

    def shard(self, published: PublishedView, model: str) -> ShardInput:
        """The shard behind a published view."""
        try:
            reader = self.client.open_reader(published.uri)
        except NotAShard as error:
            raise InputRefused(model, published.uri, f"its shard is gone: {error}") from error
        return ShardInput(WriteHandle.from_read(reader, f"task({model})"), self.engine)

    def published(self, name: str) -> PublishedView | None:
        """The published shard of that name; None if it is something else, or not there."""
        try:
            return read_published(self.engine, name)
        except EngineError:
            return None

    def _described(self, model: str, name: str) -> Described:
        first, *rest = parts(name)
        if len(rest) == 1 and first in ("delta", *FILE_FORMATS) and "/" in rest[0]:
            return Described(name, first, rest[0], path=True)
        try:
            rows = self.engine.query(f"describe extended {name}", "catalog")
        except EngineError as error:
            raise InputRefused(model, name, f"it is not there: {error.message}") from error
        told = {str(row[0]): str(row[1]) for row in rows}
        location = told.get("Location", "").removeprefix("file:")
        return Described(
            name,
            told.get("Provider", "").lower(),
            location,
            view=told.get("Type") == "VIEW",
            query=told.get("View Text", ""),
            scope=told.get("View Catalog and Namespace", ""),
        )


def _after(first: Carry, then: Carry) -> Carry:
    return lambda rows: then(first(rows))


def ephemeral_queries(ctes: Sequence[str]) -> dict[str, str]:
    """dbt's texts ``name as (query)`` for ephemeral models, as queries by name in lower case."""
    found = {}
    for cte in ctes:
        name, _, rest = cte.strip().partition(" as (")
        found[name.strip("`").lower()] = rest[: rest.rindex(")")]
    return found


def needed_ctes(text: str, ctes: tuple[str, ...], input_name: str) -> tuple[str, ...]:
    """Of dbt's CTEs those that ``text`` reads, or another one of them, but for the input's."""
    queries = ephemeral_queries(ctes)
    needed: set[str] = set()
    reading = [text]
    while reading:
        query = reading.pop()
        new = {
            name
            for name in queries
            if name not in needed and parts(name) != parts(input_name) and relations(query, name)
        }
        needed |= new
        reading += [queries[name] for name in new]
    return tuple(cte for cte, name in zip(ctes, queries, strict=True) if name in needed)
