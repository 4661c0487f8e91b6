"""The correction: ``desired - persist``, consolidated, as SQL that Spark runs in parallel.

A `Correction` holds collections with a sign (desired counts +1 per row, persist -1 per row) and a
frontier, its ``since``: times before it move up to it. Rows are compared as GROUP BY compares them
(NULL equals NULL, NaN equals NaN, -0.0 equals 0.0), maps and structs included. Every term is a
query that gives the model's columns and

- ``_mv_error`` STRING: NULL, or an error update's message (then the model's columns are NULL)
- ``_mv_hash`` BIGINT: the row's hash (`engine.whole_rows`), never NULL here
- ``_mv_diff`` BIGINT: the multiplicity
- ``_mv_base`` BIGINT: 1 for a record of the shard's base, or of the compacted files that replaced
  the base after another engine damaged it, else 0

An error update is therefore one more kind of row, and is corrected like one.

>>> from dbt.adapters.mvsink.engine.types import Column, parse_type
>>> c = Correction((Column("a", parse_type("int", "a")),), since=7)
>>> c.insert("select ... from q").insert_negated("select ... from shard").updates_before(7)
Traceback (most recent call last):
...
ValueError: updates before 7 asked of a correction whose since is 7: there are none
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from dbt.adapters.mvsink.engine import Column, sql
from dbt.adapters.mvsink.engine.whole_rows import net, row_hash
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard_sql import Layout

BASE = "_mv_base"


class Scope(Protocol):
    """The rows to compare. With ``alone``, each has one record on both sides together."""

    @property
    def alone(self) -> bool: ...

    def restrict(self, rows: str) -> str:
        """The rows to compare among ``rows``, a query with `_mv_hash`. Rows that share a hash are
        all included or all left out.
        """
        ...


@dataclass(frozen=True)
class Term:
    """One collection and its sign."""

    query: str
    sign: int


@dataclass(frozen=True)
class Correction:
    """Collections to be summed. Only the rows in ``scope`` are compared; all rows if it is None."""

    columns: tuple[Column, ...]
    since: int
    terms: tuple[Term, ...] = ()
    scope: Scope | None = None

    def insert(self, query: str) -> Correction:
        """Add a collection: the rows that the shard should hold."""
        return replace(self, terms=(*self.terms, Term(query, 1)))

    def insert_negated(self, query: str) -> Correction:
        """Subtract a collection: the rows that the shard holds already."""
        return replace(self, terms=(*self.terms, Term(query, -1)))

    def advance_since(self, time: int) -> Correction:
        """Move the frontier up to ``time`` (ms); it never moves back."""
        return replace(self, since=max(self.since, time))

    def restricted_to(self, scope: Scope) -> Correction:
        """The same correction over the rows of ``scope`` only."""
        return replace(self, scope=scope)

    def consolidate_at_since(self) -> str:
        """The net multiplicity of every row, all times moved up to `since`; zeros dropped.

        A row is staged without its hash (NULL) if another row of the correction has the same hash,
        or if the shard's base has it more than once (`layout`). Rows that share a hash are all
        compared or none of them.
        """
        items = sql.columns(column.name for column in self.columns)
        terms = sql.union_all(self._term(term, items) for term in self.terms)
        if self.scope is not None:
            terms = self.scope.restrict(terms)
            if self.scope.alone:
                return f"select {items}, {sql.bigint(self.since)} {TIME}, {DIFF}, {ERROR}, {HASH} from (\n{terms}\n)"
        # Equal rows have equal hashes, so one exchange by hash serves both the sums and the owners.
        gathered = f"select * from (\n{terms}\n) distribute by {HASH}"
        rows = net(self.columns, [ERROR, HASH], gathered, sums=[BASE])
        owners = f"select *, count(*) over (partition by {HASH}) _mv_owners from (\n{rows}\n)"
        return (
            f"select {items}, {sql.bigint(self.since)} {TIME}, {DIFF}, {ERROR}, "
            f"if(_mv_owners = 1 and {BASE} < 2, {HASH}, cast(null as bigint)) {HASH} from (\n{owners}\n) where {DIFF} <> 0"
        )

    def updates_before(self, upper: int) -> str:
        """The consolidated updates with ``since <= time < upper``, in the columns of a batch."""
        if upper <= self.since:
            raise ValueError(
                f"updates before {upper} asked of a correction whose since is {self.since}: there are none"
            )
        return self.consolidate_at_since()

    @staticmethod
    def _term(term: Term, items: str) -> str:
        diff = DIFF if term.sign > 0 else f"-{DIFF}"
        return f"select {items}, {ERROR}, {HASH}, {diff} {DIFF}, {BASE} from (\n{term.query}\n)"


@dataclass(frozen=True)
class Assertion:
    """A condition on every row; the expression ``violated`` is true for a row that breaks it.

    Such a row fails the query with ``message`` if ``fails``, else it becomes an error update.
    """

    violated: str
    message: str
    fails: bool = False

    def branch(self) -> str:
        """The branch for it in the CASE that gives a row's error message."""
        message = sql.text(self.message)
        return f"when {self.violated} then {f'raise_error({message})' if self.fails else message}"


def not_null(column: str, *, fails: bool = False) -> Assertion:
    """No row may have NULL in ``column``."""
    return Assertion(f"{sql.identifier(column)} is null", f'column "{column}" must not be null', fails)


@dataclass(frozen=True)
class Desired:
    """The result of the model's SQL, as a term of a correction.

    A row that breaks one of ``assertions`` becomes an error update with the message of the first
    one it breaks. ``missing`` are columns that the shard keeps although the query no longer has
    them: they are NULL in every row. With a ``condition`` the term has only the query's rows for
    which it is true. If ``signed``, the query has a last column `_mv_diff`, the sign of each row.
    """

    query: str
    columns: tuple[Column, ...]
    salt: int
    assertions: tuple[Assertion, ...] = ()
    missing: tuple[str, ...] = ()
    condition: str = ""
    signed: bool = False

    @property
    def present(self) -> tuple[Column, ...]:
        """The columns that the query has."""
        return tuple(column for column in self.columns if column.name not in self.missing)

    def where(self, condition: str) -> Desired:
        """The same with a ``condition`` over the query's columns, applied directly to the query."""
        return replace(self, condition=condition)

    def value(self, column: Column) -> str:
        """The column as the shard holds it, as an expression over the query's columns."""
        name = sql.identifier(column.name)
        if column.name in self.missing:
            return f"cast(null as {column.type.spelled})"
        # A nested column has its type already (the shard's columns come from the query); a cast
        # would copy it.
        return name if column.type.nested else f"cast({name} as {column.type.spelled})"

    def rows(self) -> str:
        """The model's columns and `_mv_error`, with the shard's types; also `_mv_diff` if
        `signed`.
        """
        items = ", ".join(f"{self.value(column)} {sql.identifier(column.name)}" for column in self.columns)
        diff = f", {DIFF}" if self.signed else ""
        source = sql.subquery(self.query, "_mv_query") + (
            f" where {self.condition}" if self.condition else ""
        )
        if not self.assertions:
            return f"select {items}, cast(null as string) {ERROR}{diff} from {source}"
        message = " ".join(assertion.branch() for assertion in self.assertions)
        # of `raise_error` alone, which has no type, files of BOOLEAN would be made
        checked = f"select {items}, cast(case {message} end as string) {ERROR}{diff} from {source}"
        kept = ", ".join(
            f"if({ERROR} is null, {sql.identifier(c.name)}, null) {sql.identifier(c.name)}"
            for c in self.columns
        )
        return f"select {kept}, {ERROR}{diff} from (\n{checked}\n)"

    def plain_rows(self) -> str:
        """The model's columns of every row without an error, as readers would get them."""
        items = sql.columns(column.name for column in self.columns)
        return f"select {items} from (\n{self.rows()}\n) where {ERROR} is null"

    def hashed(self) -> str:
        """`rows` with `_mv_hash`, and a `_mv_diff` of 1 per row unless they are `signed`.

        The partition's number, masked to zero, makes the hash an expression that the optimizer
        neither copies nor rewrites. It would otherwise push the semi-join on buckets down into the
        user's query and derive constraints from it, one for every subset of the columns: planning
        twenty columns took minutes.
        """
        items = sql.columns(column.name for column in self.columns)
        opaque = f"({row_hash(self.columns, self.salt, ERROR)} | (spark_partition_id() & 0))"
        diff = DIFF if self.signed else f"1L {DIFF}"
        return f"select {items}, {ERROR}, {opaque} {HASH}, {diff}, 0L {BASE} from (\n{self.rows()}\n)"


def persisted(layout: Layout, *, errors_only: bool = False) -> str | None:
    """The shard's contents as a term; None if it is empty."""
    if layout.empty:
        return None
    items = sql.columns(layout.names)
    where = f"{ERROR} is not null" if errors_only else ""
    tail = f"{items}, {ERROR}, {layout.believed_hash()} {HASH}, {DIFF}"
    like_a_base = tuple(directory for directory in layout.recent if directory.compacted)
    others = tuple(directory for directory in layout.recent if not directory.compacted)
    parts = layout.parts((*others, *layout.unhashed), f"{tail}, 0L {BASE}", where)
    if like_a_base:
        parts.append(layout.select(like_a_base, f"{tail}, 1L {BASE}", where))
    if layout.base is not None:
        parts.append(layout.select([layout.base], f"{items}, {ERROR}, {HASH}, {DIFF}, 1L {BASE}", where))
    return sql.union_all(parts)
