"""Whether two tables hold the same rows: doubles rounded to 6 digits, all else as it is."""

from __future__ import annotations

from typing import Any

ROUNDED = ("double", "float")


def difference(session: Any, left: str, right: str) -> str:
    """What differs between two relations, in words; empty if they are the same multiset.

    One statement decides both directions of EXCEPT ALL, as Spark does itself: each row counts 1 on
    one side and -1 on the other, and what does not add up to 0 differs.
    """
    columns, others = session.table(left).dtypes, session.table(right).dtypes
    if columns != others:
        return f"the columns are {columns} and {others}"
    names = ", ".join(f"`{name}`" for name, _ in columns)
    shown = ", ".join(
        f"round(`{name}`, 6) as `{name}`" if kind in ROUNDED else f"`{name}`" for name, kind in columns
    )
    query = (
        f"select sum(_copies) as _copies, {names} from (select 1 as _copies, {shown} from {left} "
        f"union all select -1, {shown} from {right}) group by {names} having sum(_copies) <> 0"
    )
    differing = session.sql(query)
    if not differing.take(1):
        return ""
    missing, surplus = (
        differing.where(f"_copies {sign} 0").selectExpr("coalesce(sum(abs(_copies)), 0)").first()[0]
        for sign in (">", "<")
    )
    rows = "\n".join(str(row) for row in differing.orderBy(*(name for name, _ in columns)).take(6))
    return f"{missing} rows are only in {left}, {surplus} only in {right}:\n{rows}"
