"""Whether Spark agrees that a query carries a column from each row of a relation to each of its own
rows: the witness of `continual_task.carry_time`. Nothing is run; plans are compared as texts.

Two things make it true. Without the column, the optimizer makes of both queries the same plan. And
between the relation and the result there is nothing that puts rows together or leaves out some of
them by what others there are.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.engine.errors import EngineError
from dbt.adapters.mvsink.engine.plan_text import EVERY, SHOWN, analyzed_section, comparable, indentation
from dbt.adapters.mvsink.engine.protocol import Engine
from dbt.adapters.mvsink.physical import TIME

STAND_IN = "_mv_w0"  # the relation, in the queries to compare
_NAMED = re.compile(r"\b_mv_w0\b")
_OPTIMIZED = re.compile(r"== Optimized Logical Plan ==\n(.*?)(?:\n== Physical Plan ==|\Z)", re.DOTALL)
_ROW_BY_ROW = frozenset({"Project", "Filter", "Union", "SubqueryAlias", "View", "Generate", "ResolvedHint"})
# joins by the side that keeps its rows
_LEFT = frozenset({"Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti"})
_RIGHT = frozenset({"Inner", "Cross", "RightOuter"})


def carries(engine: Engine, plain: str, carried: str, columns: Sequence[tuple[str, str]]) -> bool:
    """Whether ``carried`` is ``plain`` with one more column, `_mv_time`, that each of its rows has
    from the one row of `STAND_IN` that it is made of. ``columns``: those of the relation, with
    types; in the queries it has `_mv_time`, too. Raises `EngineError`.
    """
    name = f"_mv_w_{uuid.uuid4().hex[:12]}"  # other threads have stand-ins in this session, too
    plain, carried = (_NAMED.sub(name, query) for query in (plain, carried))
    engine.execute(f"create temporary view {name} as {_nothing(columns)}", "witness")
    try:
        names = [column for column, _ in engine.columns(carried)]
        if names[-1:] != [TIME]:
            return False
        places = [f"_mv_{place}" for place in range(len(names))]
        with engine.settings({SHOWN: EVERY}):
            one, other = (
                _explained(engine, _renamed(query, every, places[:-1]))
                for query, every in ((plain, places[:-1]), (carried, places))
            )
    finally:
        engine.execute(f"drop view if exists {name}", "witness")
    return _optimized(one) == _optimized(other) and row_by_row(analyzed_section(other) or "", name)


def _renamed(query: str, every: Sequence[str], shown: Sequence[str]) -> str:
    """Those columns that are ``shown`` of a query whose columns are called as in ``every``."""
    return f"select {', '.join(shown)} from {sql.subquery(query, '_mv_query')}({', '.join(every)})"


def _optimized(explained: str) -> str:
    """The optimized plan, so that equal ones are equal texts. Raises `EngineError`."""
    match = _OPTIMIZED.search(explained)
    if match is None:
        raise EngineError(f"Spark shows no optimized plan: {explained[:200]}")
    return comparable(match[1])


def _explained(engine: Engine, query: str) -> str:
    return "\n".join(str(row[0]) for row in engine.query(f"explain extended\n{query}", "witness"))


def _nothing(columns: Sequence[tuple[str, str]]) -> str:
    """A query with these columns and `_mv_time`, all of them different, of which the optimizer
    knows nothing.
    """
    items = [
        f"get(cast(array() as array<{kind}>), cast(id as int) + {place}) {sql.identifier(name)}"
        for place, (name, kind) in enumerate(columns)
    ]
    rows = f"select {', '.join([*items, f'id {TIME}'])} from range({2**32})"
    return f"select * from ({rows}) offset 1"  # below which no condition can be moved


@dataclass(frozen=True)
class _Node:
    depth: int
    text: str
    place: int  # among the children of the node above; -1 in a subquery of an expression


def row_by_row(plan: str, view: str) -> bool:
    """Whether each row of the ``plan``, an analyzed one, is made of one row of the temporary
    ``view``, in each place where it is read.

    >>> plan = "Filter (a#1 > 0)\\n+- SubqueryAlias v\\n   +- View (`v`, [a#1])"
    >>> limited = "GlobalLimit 5\\n+- " + plan.replace("\\n", "\\n   ")
    >>> row_by_row(plan, "v"), row_by_row(limited, "v")
    (True, False)
    """
    paths = list(_paths(plan, view))
    return bool(paths) and all(_keeps(*pair) for path in paths for pair in pairwise(path))


def _keeps(node: _Node, below: _Node) -> bool:
    """Whether the node passes on each row of the child ``below`` by itself."""
    if below.place < 0:
        return False
    kind, _, rest = node.text.partition(" ")
    if kind != "Join":
        return kind in _ROW_BY_ROW
    side = re.split(r"[ ,]", rest, maxsplit=1)[0]
    return side in (_LEFT if below.place == 0 else _RIGHT)


def _paths(plan: str, view: str) -> Iterator[list[_Node]]:
    """From the plan's first node down to each place where it reads the view."""
    above: list[_Node] = []
    children: list[int] = []  # how many each of ``above`` has so far
    for line in plan.splitlines():
        depth, text = indentation(line)
        while above and above[-1].depth >= depth:
            above.pop()
            children.pop()
        place = -1
        if not above:
            place = 0
        elif above[-1].depth + 1 == depth:
            place = children[-1]
            children[-1] += 1
        above.append(_Node(depth, text, place))
        children.append(0)
        if text.startswith(f"View (`{view}`"):
            yield list(above)
