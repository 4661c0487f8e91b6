"""The columns by which a query groups its rows, to pair rows of two results for people. Nothing
depends on it: whether a key is unique is counted.
"""

from __future__ import annotations

import re

from sqlglot import exp

from dbt.adapters.mvsink.user_sql.words import parsed

_REFERENCE = re.compile(r"\{[\w.]+\}")  # as a shard's definition names what the query reads


def group_key(text: str) -> tuple[str, ...]:
    """The names of the columns that show what the outermost SELECT groups by; empty if it does not
    group, or does not show all of that.

    >>> group_key("select day, region as r, sum(x) as s from {model.shop.orders} group by day, 2")
    ('day', 'r')
    >>> group_key("select sum(x) as s from t group by day")
    ()
    """
    try:
        tree = parsed(_REFERENCE.sub("t", text))
    except Exception:  # sqlglot raises all kinds for what it cannot read
        return ()
    select = tree.unnest() if isinstance(tree, exp.Subquery) else tree
    if not isinstance(select, exp.Select):
        return ()
    group = select.args.get("group")
    if group is None:
        return ()
    items = select.selects
    if group.args.get("all"):
        return tuple(item.alias_or_name for item in items if not list(item.find_all(exp.AggFunc)))
    named = [_shown(key, items) for key in group.expressions]
    return tuple(named) if named and all(named) else ()


def _shown(key: exp.Expr, items: list[exp.Expr]) -> str:
    """The name under which ``items`` show what is grouped by; empty if they do not."""
    if isinstance(key, exp.Literal) and key.is_int:
        place = int(key.name) - 1
        return items[place].alias_or_name if 0 <= place < len(items) else ""
    same = (item.alias_or_name for item in items if item.unalias() == key)
    named = (item.alias_or_name for item in items if isinstance(key, exp.Column) and item.alias == key.name)
    return next(same, "") or next(named, "")
