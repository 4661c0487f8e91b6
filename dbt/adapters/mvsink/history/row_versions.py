"""A shard's readable history as versions of rows, each with the times from and to which it was
valid.

With a key this is a slowly changing dimension of type 2: each key has one version after the other.
If a key occurs twice at any time, the query itself fails, naming key and time. Without a key each
whole row has versions of its own, one for every number of its copies.

History begins at `since`: a row that existed then has `valid_from` = `since`, and
`valid_from_known` false, unless the shard itself began then. Versions that were replaced before are
not shown. Errors are not rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbt.adapters.mvsink.engine import Column, DataflowError, sql
from dbt.adapters.mvsink.engine.whole_rows import comparable, net
from dbt.adapters.mvsink.history.points import newest_time
from dbt.adapters.mvsink.physical import DIFF, ERROR, TIME
from dbt.adapters.mvsink.shard import ShardState
from dbt.adapters.mvsink.shard_sql import Layout, NotRefreshed, as_of

VALIDITY = ("valid_from", "valid_to", "is_current", "valid_from_known")
COPIES = "copies"
STOOD, UNTIL, REPEATED = "_mv_stood", "_mv_until", "_mv_repeated"


class ColumnTaken(DataflowError):
    """The shard has a column of a name that the history adds."""

    error_code = "MVS-806"

    def __init__(self, column: str, added: Sequence[str]):
        super().__init__(
            f"its column `{column}` has the name of one that a history adds ({', '.join(added)}): rename it in the model"
        )


class UnknownKey(DataflowError):
    """A column of the key is not the shard's, or cannot be compared."""

    error_code = "MVS-807"

    def __init__(self, value: object, allowed: Sequence[str]):
        super().__init__(
            f"invalid `key`\n  Got: {value!r}\n  Expected: a list of columns without maps, of {', '.join(allowed)}; or none"
        )


@dataclass(frozen=True)
class RowVersions:
    """The versions of a shard's rows at the times from ``since`` to ``until`` (ms).

    ``began`` says whether the shard's contents began at ``since``, so that nothing older is
    missing. ``where`` is the user's condition over the columns; empty for all rows.
    """

    layout: Layout
    since: int
    until: int
    began: bool = False
    where: str = ""

    @classmethod
    def of(cls, layout: Layout, state: ShardState) -> RowVersions:
        """The versions in all of the readable history. Raises `NotRefreshed`."""
        if not state.readable:
            raise NotRefreshed()
        since = state.since.stored()
        began = state.creation is not None and since <= state.creation
        return cls(layout, since, newest_time(state), began)

    def changes(self) -> str:
        """Net changes of rows: columns, `_mv_time` (``since`` for older ones), `_mv_diff`."""
        stored = as_of.updates_up_to(self.layout, self.until, self.layout.columns, self.since)
        items = f"{sql.columns(self.layout.names)}, greatest({TIME}, {sql.bigint(self.since)}) {TIME}, {DIFF}"
        rows = f"select {items} from (\n{stored}\n) where {ERROR} is null"
        if self.where:  # on lines of its own, in case it ends with a comment
            rows = f"select * from (\n{rows}\n) where (\n{self.where}\n)"
        return net(self.layout.columns, [TIME], rows, "<> 0")

    def intervals(self, partition: Sequence[str]) -> str:
        """`changes`, each with how many rows its ``partition`` had after it (`_mv_stood`), and when
        that changed next (`_mv_until`, NULL if it has not). Removals come first.
        """
        over = f"partition by {', '.join(partition)} order by {TIME}, {DIFF}"
        return (
            f"select *, lead({TIME}) over ({over}) {UNTIL},\n"
            f"sum({DIFF}) over ({over} rows between unbounded preceding and current row) {STOOD}\n"
            f"from (\n{self.changes()}\n)"
        )

    def whole_rows(self) -> list[str]:
        """Expressions by which whole rows differ, to partition by."""
        return [comparable(sql.identifier(column.name), column.type) for column in self.layout.columns]


def history_query(
    versions: RowVersions, columns: Sequence[str], key: Sequence[str], name: str, *, keyless: bool = False
) -> str:
    """The versions, newest and old: ``columns``, the columns of `VALIDITY`, and without a key
    `copies`. ``name``: of the macro and the model, for errors. Raises `ColumnTaken`, `UnknownKey`.
    """
    added = (*VALIDITY, *((COPIES,) if keyless else ()))
    _check_names(columns, added)
    if keyless:
        rows, condition = versions.intervals(versions.whole_rows()), f"{STOOD} > 0"
    else:
        names = _key(versions.layout.columns, key)
        partition = [sql.identifier(name) for name in names]
        repeated = f"min(if({STOOD} > 1, {TIME}, null)) over (partition by {', '.join(partition)}) {REPEATED}"
        rows = f"select *, {repeated} from (\n{versions.intervals(partition)}\n)"
        condition = (
            f"{DIFF} > 0 and case when {REPEATED} is null then true else {_refusal(names, name)} is null end"
        )
    known = "true" if versions.began else f"{TIME} > {sql.bigint(versions.since)}"
    values = [
        f"timestamp_millis({TIME}) valid_from",
        f"timestamp_millis({UNTIL}) valid_to",
        f"{UNTIL} is null is_current",
        f"{known} valid_from_known",
        *((f"{STOOD} {COPIES}",) if keyless else ()),
    ]
    return f"select {sql.columns(columns)}, {', '.join(values)} from (\n{rows}\n) where {condition}"


def _key(columns: Sequence[Column], key: Sequence[str]) -> list[str]:
    usable = {column.name.lower(): column.name for column in columns if "map<" not in column.type.text}
    if isinstance(key, str) or not key or not all(str(name).lower() in usable for name in key):
        raise UnknownKey(key, list(usable.values()))
    return list(dict.fromkeys(usable[name.lower()] for name in key))


def _check_names(columns: Sequence[str], added: Sequence[str]) -> None:
    for column in columns:
        if column.lower() in added:
            raise ColumnTaken(column, added)


def _refusal(key: Sequence[str], name: str) -> str:
    """An expression that fails with the key and the time; never TRUE."""
    values = ", ', ', ".join(
        f"{sql.text(f'{column} = ')}, coalesce(cast({sql.identifier(column)} as string), 'NULL')"
        for column in key
    )
    start = sql.text(f"{name}: the key is not unique: ")
    at = f"' occurs more than once at ', cast(timestamp_millis({REPEATED}) as string), ' (', cast({REPEATED} as string), ')'"
    return f"raise_error(concat({start}, {values}, {at}))"
