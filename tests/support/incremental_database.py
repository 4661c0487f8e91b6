"""A database before and after on DuckDB, and whether the query of a change leads from one to the
other.

In the schema `run`, where the query of a change runs, a relation that changed does not exist: it is
read through its `Sides` or not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from weakref import finalize

from duckdb import DuckDBPyConnection

from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.incremental import (
    Analysed,
    NotIncremental,
    Plan,
    Scoped,
    Sides,
    analyse,
    basis,
    delta,
    filters,
)
from dbt.adapters.mvsink.user_sql.marks import query_at
from tests.support.duck_engine import DuckEngine, translated

Row = tuple[object, ...]
_NUMBERS = count()
_TYPES = {
    "timestamp": "timestamp",
    "array<int>": "int[]",
    "int": "int",
    "string": "varchar",
    "bigint": "bigint",
    "map<string,int>": "map(varchar, int)",
}


@dataclass(frozen=True)
class Table:
    """``change`` holds rows with their diffs, in any order, consolidated or not."""

    columns: Mapping[str, str]  # names and Spark's types
    old: Sequence[Row]
    change: Sequence[tuple[Row, int]] = ()

    @property
    def new(self) -> list[Row]:
        rows = Counter(map(_key, self.old))
        originals = {_key(row): row for row in [*self.old, *(row for row, _ in self.change)]}
        for row, diff in self.change:
            rows[_key(row)] += diff
        assert all(count >= 0 for count in rows.values()), "a change retracts what is not there"
        return [originals[key] for key in rows.elements()]


def _key(row: Row) -> Row:
    return tuple(_comparable(value) for value in row)


def _comparable(value: object) -> object:
    """A map has no order, as in the sink."""
    if isinstance(value, dict):
        return frozenset(value.items())
    return tuple(value) if isinstance(value, list) else value


def consolidated(rows: Sequence[Row]) -> Counter[Row]:
    """Rows with their summed diff, which is their last value, without zeros."""
    sums: Counter[Row] = Counter()
    for row in rows:
        sums[_key(row[:-1])] += row[-1]
    return Counter({row: diff for row, diff in sums.items() if diff})


@dataclass
class Database:
    """``tables`` in DuckDB, away from those of any other. Statements are Spark's."""

    tables: Mapping[str, Table]
    engine: DuckEngine = field(default_factory=DuckEngine)
    name: str = field(default_factory=lambda: f"incremental_{next(_NUMBERS)}")

    def __post_init__(self) -> None:
        connection = self.engine.connection
        connection.execute(f"attach ':memory:' as {self.name}; use {self.name}")
        finalize(self, _detach, connection, self.name)
        statements = ["begin transaction"]
        for schema in ("run", "before", "after", "changes"):
            statements.append(f"create schema {schema}")
        for name, table in self.tables.items():
            statements += _created("before", name, table, table.old)
            statements += _created("after", name, table, table.new)
            if table.change:
                rows = [(*row, diff) for row, diff in table.change]
                statements += _created("changes", name, table, rows, ", _mv_diff bigint")
            else:
                statements += _created("run", name, table, table.old)
        connection.execute("; ".join([*statements, "commit"]))

    def columns_of(self, name: str) -> list[tuple[str, str]] | None:
        table = self.tables.get(name.strip("`").lower())
        return None if table is None else list(table.columns.items())

    def sides(self) -> dict[str, Sides]:
        return {
            name: Sides(
                f"select * from after.{name}", f"select * from before.{name}", f"select * from changes.{name}"
            )
            for name, table in self.tables.items()
            if table.change
        }

    def rows(self, query: str, schema: str) -> list[Row]:
        """The rows of a query over one of the schemas."""
        self.engine.connection.execute(f"use {self.name}.{schema}")
        return self.engine.connection.execute(translated(query)).fetchall()

    def plan(self, query: str, clock: tuple[int, int] | None = None) -> Plan | NotIncremental:
        analysed, sides = self._read(query)
        return analysed if isinstance(analysed, NotIncremental) else delta(analysed, sides, clock)

    def _read(self, query: str) -> tuple[Analysed | NotIncremental, dict[str, Sides]]:
        """The query, and the sides of those relations that it reads and that changed."""
        analysed = analyse(query, self.columns_of)
        names = () if isinstance(analysed, NotIncremental) else analysed.relations
        read = {name.strip("`").lower() for name in names}
        return analysed, {name: each for name, each in self.sides().items() if name in read}

    def change(self, query: str, clock: tuple[int, int] | None = None) -> Counter[Row]:
        """The rows of the query's change by `delta`, consolidated."""
        return self.changes(query, clock)[0]

    def replaced(self, query: str, scoped: Scoped, clock: tuple[int, int] | None = None) -> Counter[Row]:
        """The rows of the change if the shard's rows in scope are replaced, consolidated."""
        old = self.rows(query if clock is None else query_at(query, clock[0]), "before")
        names = [column[0].lower() for column in self.engine.connection.description]
        places = [names.index(column) for column in scoped.columns]
        keys = {_key(row) for row in self.rows(scoped.keys, "run")} if scoped.keys is not None else {()}
        gone = [(*row, -1) for row in old if _key(tuple(row[at] for at in places)) in keys]
        return consolidated([*gone, *((*row, 1) for row in self.rows(scoped.new, "run"))])

    def changes(self, query: str, clock: tuple[int, int] | None = None) -> list[Counter[Row]]:
        """The change in every way that the plan has."""
        plan = self.plan(query, clock)
        assert isinstance(plan, Plan), plan
        ways = [] if plan.query is None else [consolidated(self.rows(plan.query, "run"))]
        analysed, sides = self._read(query)
        assert isinstance(analysed, Analysed)
        known = basis(analysed, sides, clock).known_scope(sides)
        scopes = [scoped for scoped in (plan.scoped, known and known.scoped) if scoped is not None]
        ways += [self.replaced(query, scoped, clock) for scoped in scopes]
        return ways + [each for whole in (False, True) for each in self._filtered(query, whole, clock)]

    def _filtered(self, query: str, whole: bool, clock: tuple[int, int] | None) -> list[Counter[Row]]:
        """The change without the rows that no filter keeps; ``whole``: not only in changes."""
        analysed, sides = self._read(query)
        assert isinstance(analysed, Analysed)
        kept = self.with_filters(analysed, sides, whole=whole)
        if kept == sides:
            return []
        plan = delta(analysed, kept, clock)
        assert isinstance(plan, Plan), plan
        if plan.query is not None:
            return [consolidated(self.rows(plan.query, "run"))]
        assert plan.scoped is not None
        return [self.replaced(query, plan.scoped, clock)]

    def with_filters(
        self, analysed: Analysed, sides: Mapping[str, Sides], *, whole: bool
    ) -> dict[str, Sides]:
        """The sides without rows that the query's filters do not keep; ``whole``: not only
        changes.
        """
        kept = {}
        for name, each in filters(analysed).items():
            table = name.strip("`").lower()
            columns = [Column(n, parse_type(kind, n)) for n, kind in self.tables[table].columns.items()]
            kept[table] = each.sql(columns)
        outcome = {}
        for name, side in sides.items():
            rows = f"select * from (\n%s\n) kept where {kept[name]}" if name in kept else "%s"
            new, old = (rows % query if whole else query for query in (side.new, side.old))
            outcome[name] = Sides(new, old, None if side.change is None else rows % side.change)
        return outcome

    def difference(self, query: str, clock: tuple[int, int] | None = None) -> Counter[Row]:
        """The same by evaluating the query before and after."""
        before, after = (query, query) if clock is None else (query_at(query, at) for at in clock)
        old = [(*row, -1) for row in self.rows(before, "before")]
        new = [(*row, 1) for row in self.rows(after, "after")]
        return consolidated([*old, *new])


def _detach(connection: DuckDBPyConnection, name: str) -> None:
    connection.execute(f"use memory; detach {name}")


def _created(schema: str, name: str, table: Table, rows: Sequence[Row], more: str = "") -> list[str]:
    columns = ", ".join(f"{column} {_TYPES[kind]}" for column, kind in table.columns.items())
    created = [f"create table {schema}.{name} ({columns}{more})"]
    values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
    return [*created, f"insert into {schema}.{name} values {values}"] if rows else created


def _literal(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, dict):
        return f"map {{{', '.join(f'{key!r}: {_literal(each)}' for key, each in value.items())}}}"
    return f"epoch_ms({int(value)})" if isinstance(value, Millis) else repr(value)


class Millis(int):
    """A TIMESTAMP."""
