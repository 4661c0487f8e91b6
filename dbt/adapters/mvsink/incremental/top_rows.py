"""ORDER BY with LIMIT as a window: an equivalent query whose changes can be derived.

    select k, v from t where p order by v desc, k limit 3 offset 1

has the rows of

    select * except (u_0) from (select *, row_number() over (order by v desc, k) as u_0
    from (select k, v from t where p) as u_0q) as u_0w where u_0 <= 4 and u_0 > 1

because Spark sorts by ORDER BY as a window does. It takes the first rows below the window (its plan
has TakeOrderedAndProject), so it does not bring all rows into one partition. The order may name
columns of the result: by their names, by their numbers, or as the qualified columns that they show.
A LIMIT without an order, or with another order, stays: which rows it takes is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.incremental.compose import Rewriting, new_alias
from dbt.adapters.mvsink.incremental.keys import canonical, merges, outputs
from dbt.adapters.mvsink.incremental.name_resolution import Names
from dbt.adapters.mvsink.user_sql.algebra import Block, Call, Query, every_query
from dbt.adapters.mvsink.user_sql.comments import blanked
from dbt.adapters.mvsink.user_sql.tokens import Tokens
from dbt.adapters.mvsink.user_sql.words import parsed

_BEHIND = re.compile(
    r"order\s+by\s+(?P<order>.*?)\s+limit\s+(?P<limit>\d+)(?:\s+offset\s+(?P<offset>\d+))?\s*",
    re.IGNORECASE | re.DOTALL,
)
_NUMBERED = re.compile(r"row_number\(\) over \(order by .*? as (u_+\d+) from \(")


def top_rows(text: str, tree: Query, names: Names) -> list[Rewriting]:
    """The rewritings of queries with a LIMIT that can become windows; one, some or all may be
    applied.
    """
    stem = new_alias(Tokens(text), names)
    limited = [query for query in every_query(tree) if query.limited is not None]
    every = (_rewriting(text, query, names, f"{stem}{at}") for at, query in enumerate(limited))
    return [each for each in every if each is not None]


def _rewriting(text: str, query: Query, names: Names, alias: str) -> Rewriting | None:
    rest = blanked(text)[query.body.end : query.end].lstrip(") \t\r\n")
    start, end = query.body_start, query.end - len(rest)
    behind, columns = _BEHIND.fullmatch(rest), names.of_query(query)
    if behind is None or merges(query) or None in columns or len({*columns}) < len(columns):
        return None
    order = list(_order(query, names, behind["order"]))
    if None in order:
        return None
    kept = _kept(alias, int(behind["limit"]), int(behind["offset"] or 0))
    by = ", ".join(each for each in order if each is not None)
    before = f"select * except ({alias}) from (select *, row_number() over (order by {by}) as {alias} from ("
    after = f") as {alias}q) as {alias}w where {kept}" + "\n" * text.count("\n", end, query.end)
    return Rewriting(query.start, query.end, ((start, start, before), (end, query.end, after)))


def limit_of(text: str, call: Call) -> int | None:
    """Where the ORDER BY with the LIMIT stood that the window of ``call`` stands for; None if the
    user wrote the call.
    """
    made = _NUMBERED.match(text, call.start)
    end = text.find(f") as {made[1]}q) as {made[1]}w where", call.start) if made else -1
    return None if end < 0 else end


def _kept(alias: str, limit: int, offset: int) -> str:
    return f"{alias} <= {offset + limit}" + (f" and {alias} > {offset}" if offset else "")


def _order(query: Query, names: Names, order: str) -> Iterator[str | None]:
    """The entries of ORDER BY over the columns of the result; None if one names other columns."""
    columns = names.of_query(query)
    body = query.body
    shown = {tree: name for name, tree in outputs(body, names)} if isinstance(body, Block) else {}
    for entry in parsed(f"select 1 order by {order}").args["order"].expressions:
        node = entry.this.unnest() if isinstance(entry, exp.Ordered) else entry
        name: str | None = None
        if isinstance(node, exp.Literal) and node.name.isdigit() and 0 < int(node.name) <= len(columns):
            name = columns[int(node.name) - 1]
        elif isinstance(node, exp.Column) and not node.table:
            name = node.name.lower() if node.name.lower() in columns else None
        elif isinstance(node, exp.Column) and isinstance(body, Block):
            name = shown.get(canonical(body, names, node))
        if name is None or not isinstance(entry, exp.Ordered):
            yield None
            continue
        direction = " desc" if entry.args.get("desc") else ""
        first = " nulls first" if entry.args.get("nulls_first") else " nulls last"
        yield f"{sql.identifier(name)}{direction}{first}"
