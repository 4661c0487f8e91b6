"""Resolves a task's input: from a relation's name, as dbt rendered it, to a source of changes.

A published shard is read by its log; any other table by its provider (`inputs.FORMATS`), as the
catalog describes it. A view or an ephemeral model that only filters and projects one of these is
read as that one, with its changes mapped by the query. Anything else is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import Any

from dbt.adapters.mvsink.continual_task.carry_time import NotRowByRow, RowByRow, row_by_row
from dbt.adapters.mvsink.engine import Column, Engine, EngineError, parse_type, sql
from dbt.adapters.mvsink.exceptions import InputRefused
from dbt.adapters.mvsink.inputs import (
    FORMATS,
    CatalogTable,
    Input,
    ShardInput,
    Table,
    TableOptions,
    companion_uri,
)
from dbt.adapters.mvsink.inputs.errors import NoInput
from dbt.adapters.mvsink.inputs.mapped import Carry, MappedInput, RowMapping
from dbt.adapters.mvsink.inputs.reads import reads_of, relist
from dbt.adapters.mvsink.physical import TIME
from dbt.adapters.mvsink.shard import NotAShard, ShardClient, WriteHandle
from dbt.adapters.mvsink.shard_sql.as_of import nulls
from dbt.adapters.mvsink.shard_sql.published_view import PublishedView, read_published, shown_shard
from dbt.adapters.mvsink.user_sql.checks import listed, nondeterministic_functions
from dbt.adapters.mvsink.user_sql.splice import relations, replace_relations, with_ctes
from dbt.adapters.mvsink.user_sql.words import parts

# the input with its changes up to a time (ms), for a task's place and generation
Bind = Callable[[int, ShardClient, str, int], Input]
A_VIEW = "a continual task cannot use a view as its input"


@dataclass(frozen=True)
class _View:
    """A view or an ephemeral model.

    Names of one part in its ``query`` are resolved in ``scope``, a quoted schema; empty for an
    ephemeral model.
    """

    name: str
    query: str
    scope: str = ""


@dataclass(frozen=True)
class MappedView:
    """How the outermost view of an input was read, as two texts over a query with the ``columns``
    of the underlying table: ``plain`` is the view's text, and ``carried`` is the text that carries
    `_mv_time` through it.
    """

    name: str
    columns: tuple[Column, ...]
    plain: Carry
    carried: Carry


@dataclass(frozen=True)
class Source:
    """An input, not yet bound to times.

    ``columns`` are those that the task sees. ``shard`` is the shard that is the input or underlies
    it, None for another table. ``mapping`` is the query in between, if there is one, and ``view``
    says how it was read.
    """

    columns: tuple[Column, ...]
    bind: Bind
    shard: ShardInput | None = None
    mapping: RowMapping | None = None
    view: MappedView | None = None

    @classmethod
    def of_shard(cls, shard: ShardInput) -> Source:
        return cls(shard.columns, lambda *_: shard, shard)

    @classmethod
    def of_table(cls, table: Table) -> Source:
        def bind(time: int, client: ShardClient, task_uri: str, generation: int) -> Input:
            name = table.id if generation == 0 else f"{table.id}@{generation}"
            return table.bind(time, client, companion_uri(task_uri, name))

        return cls(table.columns(), bind)

    def bound(self, time: int, client: ShardClient, task_uri: str, generation: int, engine: Engine) -> Input:
        """The input with its changes up to ``time`` (ms) at exact times. A reset task, of another
        generation, has another companion.
        """
        return self._mapped(self.bind(time, client, task_uri, generation), engine)

    def known(self, engine: Engine) -> Input | None:
        """The input, if its times are known without binding; else None."""
        return None if self.shard is None else self._mapped(self.shard, engine)

    def _mapped(self, base: Input, engine: Engine) -> Input:
        return base if self.mapping is None else MappedInput(base, self.mapping, engine)

    def close(self) -> None:
        """Expire the handle."""
        if self.shard is not None:
            self.shard.handle.expire()


class Sources:
    """Resolves names to inputs on one connection, for one model.

    ``ephemeral`` has the queries of ephemeral models by their names in the task's text.
    """

    def __init__(
        self,
        manifest: Any,
        engine: Engine,
        storage_options: Mapping[str, str] | None,
        ephemeral: Mapping[str, str] | None = None,
        *,
        append_only: bool = False,
        invocation_id: str = "",
    ):
        self.manifest, self.engine = manifest, engine
        self.ephemeral = dict(ephemeral or {})
        self.client = ShardClient(storage_options)
        self.invocation_id = invocation_id
        self.options = TableOptions(
            engine, storage_options, append_only, relist=self._relist if invocation_id else None
        )

    def find(self, model: str, name: str) -> Source:
        """The relation that the task names as its input. Raises `InputRefused`."""
        key = parts(name)
        if len(key) == 1 and key[0] in self.ephemeral:
            return self._behind(model, _View(name, self.ephemeral[key[0]]))
        if len(key) == 2 and key[0] in FORMATS and "/" in key[1]:
            return self._table(model, key[0], CatalogTable(name, key[1], by_path=True))
        described_rows = self._described(model, name)
        properties = {str(row[0]): str(row[1]) for row in described_rows}
        if properties.get("Type") == "VIEW":
            published = read_published(self.engine, name)
            if published is None:
                scope = properties.get("View Catalog and Namespace", "")
                return self._behind(model, _View(name, properties.get("View Text", ""), scope))
            return Source.of_shard(self.shard(published.uri, model))
        marker = shown_shard({key.lower(): value for key, value in properties.items()})
        if marker is not None:
            return Source.of_shard(self.shard(marker.uri, model))
        provider, location = (properties.get(key, "") for key in ("Provider", "Location"))
        table = CatalogTable(
            name,
            location.removeprefix("file:"),
            partitions=partition_columns(described_rows),
            description={key.lower(): value for key, value in properties.items()},
        )
        return self._table(model, provider.lower(), table)

    def _table(self, model: str, provider: str, table: CatalogTable) -> Source:
        if not provider:  # of a temporary view the catalog has only the columns
            reason = f"{A_VIEW} unless its query is known, and this is a temporary one: make it a model, or use a table behind it"
            raise InputRefused(model, table.name, reason)
        if provider not in FORMATS:
            reason = f"tables of {provider} cannot be the input of a task; use a shard, or a table of {', '.join(FORMATS)}"
            raise InputRefused(model, table.name, reason)
        try:
            return Source.of_table(FORMATS[provider].open(table, self.options))
        except NoInput as refused:
            raise InputRefused(model, table.name, refused.reason) from refused

    def _relist(self, name: str) -> None:
        """Make Spark list the table's files again, unless this invocation has done so."""
        relist(self.engine, reads_of(self.engine, f"select * from {name}").every_table, self.invocation_id)

    def _behind(self, model: str, view: _View) -> Source:
        """The relation that the view or the ephemeral model reads, mapped by its query."""
        rows = self._row_by_row(model, view)
        scoped = bool(view.scope) and len(parts(rows.table)) == 1
        inner = self.find(model, f"{view.scope}.{rows.table}" if scoped else rows.table)
        carry = self._carry(view, rows)
        nothing = f"select {nulls(inner.columns)}, 0L {TIME} where false"
        columns = tuple(
            Column(name, parse_type(kind, name)) for name, kind in self.engine.columns(carry(nothing))[:-1]
        )
        below = inner.view
        plain: Carry = partial(self._plain, view, rows)
        if below is not None:
            carry, plain = _after(below.carried, carry), _after(below.plain, plain)
        behind = inner.columns if below is None else below.columns
        mapped = MappedView(view.name, behind, plain, carry)
        return replace(inner, columns=columns, mapping=RowMapping(columns, carry), view=mapped)

    def _plain(self, view: _View, rows: RowByRow, changes: str) -> str:
        """The view's own text over ``changes``, a query of the table that it reads."""
        query = view.query
        if not relations(query, rows.table):  # it is behind other ephemeral models
            named = ", ".join(f"{name} as ({text})" for name, text in self.ephemeral.items())
            query = with_ctes(f"with {named}", query)
        return replace_relations(query, {rows.table: changes})

    def _carry(self, view: _View, rows: RowByRow) -> Carry:
        """The mapping, under the view's own column names, which may differ from its query's."""
        if not view.scope:
            return rows.carry
        columns = self.engine.columns(f"select * from {view.name}")
        names = sql.columns([*(name for name, _ in columns), TIME])
        return lambda changes: f"select * from {sql.subquery(rows.carry(changes), '_mv_view')}({names})"

    def _row_by_row(self, model: str, view: _View) -> RowByRow:
        try:
            functions = nondeterministic_functions(view.query)
            if functions:
                raise NotRowByRow(listed(functions))
            return row_by_row(view.query, self.ephemeral)
        except NotRowByRow as refused:
            raise InputRefused(model, view.name, self._remedy(refused.reason, refused.tables)) from refused

    def _remedy(self, reason: str, tables: Sequence[str]) -> str:
        inputs = [
            f"`on input {self._in_dbt(table)} ...`"
            for table in tables
            if parts(table)[0] not in self.ephemeral
        ]
        behind = " or ".join(inputs[:2]) or "a table behind it"
        return (
            f"{A_VIEW} unless it is only filter and projection over one table, and this one has {reason}: make it "
            f"self_correcting_mv, or use {behind}"
        )

    def _in_dbt(self, table: str) -> str:
        """The expression by which a model names the relation."""
        for node in (
            *getattr(self.manifest, "nodes", {}).values(),
            *getattr(self.manifest, "sources", {}).values(),
        ):
            if getattr(node, "relation_name", None) and parts(node.relation_name) == parts(table):
                source = getattr(node, "source_name", None)
                return (
                    f"{{{{ source('{source}', '{node.name}') }}}}"
                    if source
                    else f"{{{{ ref('{node.name}') }}}}"
                )
        return ".".join(parts(table))

    def shard(self, uri: str, model: str) -> ShardInput:
        """The shard behind a published view or table."""
        try:
            reader = self.client.open_reader(uri)
        except NotAShard as error:
            raise InputRefused(model, uri, f"its shard is gone: {error}") from error
        return ShardInput(WriteHandle.from_read(reader, f"task({model})"), self.engine)

    def published(self, name: str) -> PublishedView | None:
        """The published shard of that name; None if it does not exist or is something else."""
        try:
            return read_published(self.engine, name)
        except EngineError:
            return None

    def _described(self, model: str, name: str) -> list[tuple[object, ...]]:
        """The catalog's description of the relation."""
        try:
            return self.engine.query(f"describe extended {name}", "catalog")
        except EngineError as error:
            raise InputRefused(model, name, f"it does not exist: {error.message}") from error


def partition_columns(described: Sequence[Sequence[object]]) -> tuple[tuple[str, str], ...]:
    """The names and types of a table's partition columns, from the rows of DESCRIBE EXTENDED.

    >>> head = [("# Partition Information", ""), ("# col_name", "data_type")]
    >>> partition_columns([("id", "int"), ("p", "date"), *head, ("p", "date"), ("", ""), ("x", "")])
    (('p', 'date'),)
    """
    texts = [(str(row[0]), str(row[1])) for row in described]
    if ("# Partition Information", "") not in texts:
        return ()
    listed = texts[texts.index(("# Partition Information", "")) + 2 :]
    return tuple(takewhile(lambda row: row != ("", ""), listed))


def _after(first: Carry, then: Carry) -> Carry:
    return lambda rows: then(first(rows))


def ephemeral_queries(ctes: Sequence[str]) -> dict[str, str]:
    """dbt's texts ``name as (query)`` for ephemeral models, as queries by name in lower case."""
    queries = {}
    for cte in ctes:
        name, _, rest = cte.strip().partition(" as (")
        queries[name.strip("`").lower()] = rest[: rest.rindex(")")]
    return queries


def needed_ctes(text: str, ctes: tuple[str, ...], input_name: str) -> tuple[str, ...]:
    """Those of dbt's CTEs that ``text`` or another needed one reads, without the input's."""
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
