"""Analyzed plans as texts that are equal for queries that Spark reads in the same way.

Spark prints a plan as a tree of lines, in which every column has a number that differs from one
analysis to the next. Here columns are numbered by first appearance, and everything that only names
something is left out: aliases of relations and of columns.

The text shows less than the plan: for example, a literal's type only where it decides a cast.
Comparing the plans themselves is better, where that is possible.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.engine.errors import EngineError
from dbt.adapters.mvsink.engine.protocol import Engine
from dbt.adapters.mvsink.physical import TIME

SHOWN = "spark.sql.debug.maxToStringFields"  # else the text of a plan leaves columns out
EVERY = "1000000"
_CUT = re.compile(r"\.\.\. \d+ more fields")  # stands for the columns that a plan leaves out
_STAND_IN = re.compile(r"\b_mv_w(\d+)\b")

_ANALYZED = re.compile(r"== Analyzed Logical Plan ==\n(.*?)(?:\n== Optimized Logical Plan ==|\Z)", re.DOTALL)
# of a query that it cannot analyze, EXPLAIN shows the error there, and what it resolved so far
_FAILED = re.compile(r"(?:[a-z]\w*\.){2,}\w*(?:Exception|Error): (.*)")
_INDENTATION = re.compile(r"(?:[ :]  )*(?:[:+]- )?")
_STEP = 3  # characters by which a child is indented
_ALIAS = re.compile(r" AS [^#\n]*#")
_GENERATED = re.compile(r"(Generate .*, (?:true|false)), [^\[\]]+, \[")  # the alias of a lateral view
_NUMBERED = re.compile(r"(?<=#)\d+|(?<=CTERelationDef )\d+|(?<=CTERelationRef )\d+")


def analyzed_section(explained: str) -> str | None:
    """The analyzed plan in the output of EXPLAIN EXTENDED, after a line of its columns and types.

    Raises `EngineError` for a query that Spark cannot analyze.
    """
    match = _ANALYZED.search(explained)
    if match and (failed := _FAILED.match(match[1])):
        raise EngineError(failed[1])
    return None if match is None else match[1]


def comparable(plan: str) -> str:
    """The text of a plan, equal for plans that differ by names and numbers only.

    >>> one = "Project [a#1 AS x#7]\\n+- SubqueryAlias t\\n   +- Relation s.t[a#1,b#2]"
    >>> other = "Project [a#4 AS y#9]\\n+- Relation s.t[a#4,b#5]"
    >>> comparable(one) == comparable(other)
    True
    """
    numbers: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        return str(numbers.setdefault(match[0], len(numbers)))

    return _NUMBERED.sub(number, _ALIAS.sub(" AS #", "\n".join(_without_aliases(plan))))


def _without_aliases(plan: str) -> Iterator[str]:
    """The lines with their depth, without the nodes that only name their child."""
    left_out: list[int] = []  # the depths of such nodes around the line
    for line in plan.splitlines():
        depth, node = indentation(line)
        while left_out and depth <= left_out[-1]:
            left_out.pop()
        if node.startswith("SubqueryAlias "):
            left_out.append(depth)
        else:
            node = _GENERATED.sub(r"\1, [", node)
            yield f"{depth - len(left_out)} {node}"


def indentation(line: str) -> tuple[int, str]:
    """How deep a line of a plan is, and the rest of it."""
    end = _INDENTATION.match(line).end()  # type: ignore[union-attr]
    return end // _STEP, line[end:]


def same_plan(
    compared: Callable[[str, str, Mapping[str, str]], tuple[bool, str, str]],
    one: str,
    other: str,
    stand_ins: Mapping[str, Sequence[tuple[str, str]]],
) -> bool:
    """`Engine.same_plan` where plans can be compared: ``compared`` compares them and gives their
    texts.

    For Spark, plans with generators are never the same, because their columns keep their numbers.
    Then the texts are compared.
    """
    columns = {
        name: ", ".join(f"{sql.identifier(column)} {kind}" for column, kind in described)
        for name, described in stand_ins.items()
    }
    same, *texts = compared(one, other, columns)
    return same or ("Generate " in texts[0] and comparable(texts[0]) == comparable(texts[1]))


def same_text(
    engine: Engine, one: str, other: str, stand_ins: Mapping[str, Sequence[tuple[str, str]]]
) -> bool:
    """`Engine.same_plan` by statements, where plans themselves cannot be compared."""
    own = f"_mv_w_{uuid.uuid4().hex[:12]}_"  # other threads have stand-ins in this session, too

    def named(text: str) -> str:
        return _STAND_IN.sub(rf"{own}\1", text)

    views = {named(name): columns for name, columns in stand_ins.items()}
    try:
        for name, columns in views.items():
            nothing = (f"cast(null as {kind}) as {sql.identifier(column)}" for column, kind in columns)
            engine.execute(f"create temporary view {name} as select {', '.join(nothing)}", "witness")
        plans = [analyzed_section(whole_explanation(engine, named(text))) for text in (one, other)]
    finally:
        for name in views:
            engine.execute(f"drop view if exists {name}", "witness")
    known = [comparable(plan) for plan in plans if plan is not None]
    return len(known) == 2 and known[0] == known[1]


_RELATION = re.compile(r"'UnresolvedRelation \[(?:[^\]]*, )?([^,\]]+)\],")


def parsed_alike(one: str, other: str) -> bool:
    """Whether two parsed plans are the same, but that relations of one may have their own last name
    as an alias. What is qualified by more than that name is for the analysis to say.

    >>> relation = "+- 'UnresolvedRelation [shop, orders], [], false"
    >>> plain = f"'Project [*]\\n{relation}"
    >>> renamed = "'Project [*]\\n+- 'SubqueryAlias {}\\n   {}"
    >>> [parsed_alike(plain, renamed.format(name, relation)) for name in ("orders", "o")]
    [True, False]
    """
    return _without_own_aliases(one) == _without_own_aliases(other)


def _without_own_aliases(parsed: str) -> list[str]:
    lines = _NUMBERED.sub("0", parsed).splitlines()
    kept: list[str] = []
    for line in lines:
        depth, node = indentation(line)
        relation = _RELATION.match(node)
        if kept and relation and kept[-1] == f"{depth - 1} 'SubqueryAlias {relation[1]}":
            kept.pop()
            depth -= 1
        kept.append(f"{depth} {node}")
    return kept


STAND_IN = "_mv_w0"  # the relation, in the queries to compare
_NAMED = re.compile(r"\b_mv_w0\b")
_OPTIMIZED = re.compile(r"== Optimized Logical Plan ==\n(.*?)(?:\n== Physical Plan ==|\Z)", re.DOTALL)
_ROW_BY_ROW = frozenset({"Project", "Filter", "Union", "SubqueryAlias", "View", "Generate", "ResolvedHint"})
# joins by the side that keeps its rows
_LEFT = frozenset({"Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti"})
_RIGHT = frozenset({"Inner", "Cross", "RightOuter"})


def carries(engine: Engine, plain: str, carried: str, columns: Sequence[tuple[str, str]]) -> bool:
    """Whether ``carried`` is ``plain`` with one more column, `_mv_time`, which each row takes from
    the one row of `STAND_IN` that it is made from: the witness of `continual_task.carry_time`.
    ``columns`` are those of the relation, with types; in the queries it also has `_mv_time`.
    Nothing is run. Raises `EngineError`.

    It is true under two conditions. Without the column, the optimizer makes the same plan of both
    queries. And nothing between the relation and the result combines rows, or drops rows depending
    on others (`row_by_row`).
    """
    name = f"_mv_w_{uuid.uuid4().hex[:12]}"  # other threads have stand-ins in this session, too
    plain, carried = (_NAMED.sub(name, query) for query in (plain, carried))
    engine.execute(f"create temporary view {name} as {_nothing(columns)}", "witness")
    try:
        names = [column for column, _ in engine.columns(carried)]
        if names[-1:] != [TIME]:
            return False
        places = [f"_mv_{place}" for place in range(len(names))]
        one, other = (
            whole_explanation(engine, _renamed(query, every, places[:-1]))
            for query, every in ((plain, places[:-1]), (carried, places))
        )
    finally:
        engine.execute(f"drop view if exists {name}", "witness")
    return _optimized(one) == _optimized(other) and row_by_row(analyzed_section(other) or "", name)


def _renamed(query: str, every: Sequence[str], shown: Sequence[str]) -> str:
    """The ``shown`` columns of ``query``, whose columns get the names in ``every``."""
    return f"select {', '.join(shown)} from {sql.subquery(query, '_mv_query')}({', '.join(every)})"


def optimized_plan(engine: Engine, query: str) -> str:
    """What the optimizer makes of a query, after a line of its columns and types, so that equal
    plans are equal texts. It has no views, and no column that is only another one's new name.
    Raises `EngineError`.
    """
    explained = whole_explanation(engine, query)
    columns, _, _ = (analyzed_section(explained) or "").partition("\n")
    return f"{columns}\n{comparable(_without_renames(_optimized_section(explained)))}"


_RENAME = re.compile(r"(?<=[\[ ])([^\s\[(,][^\[\]()\n,]*#\d+L?) AS ([^#\n]*#\d+L?)(?=[,\]])")


def _without_renames(plan: str) -> str:
    r"""The plan with the columns themselves in place of new names for them. A view names its
    columns again, a subquery does not.

    >>> _without_renames("Sort [k#7 ASC]\\n+- Project [a#1 AS k#7, b#2L, (b#2L + 1) AS c#8L]")
    'Sort [a#1 ASC]\\n+- Project [a#1, b#2L, (b#2L + 1) AS c#8L]'
    """
    while match := _RENAME.search(plan):
        column, name = match.groups()
        renamed = plan[: match.start()] + column + plan[match.end() :]
        plan = re.sub(rf"(?<![\w#]){re.escape(name)}(?!\d)", lambda _: column, renamed)  # noqa: B023
    return plan


def _optimized(explained: str) -> str:
    """The optimized plan, so that equal ones are equal texts. Raises `EngineError`."""
    return comparable(_optimized_section(explained))


def _optimized_section(explained: str) -> str:
    match = _OPTIMIZED.search(explained)
    if match is None:
        raise EngineError(f"Spark shows no optimized plan: {explained[:200]}")
    return match[1]


def whole_explanation(engine: Engine, query: str, what: str = "witness") -> str:
    """The output of EXPLAIN EXTENDED with all columns. Raises `EngineError`."""
    explained = engine.explained(query)
    if explained is None:
        explained = _explained(engine, query, what)
        if _CUT.search(explained):
            with engine.settings({SHOWN: EVERY}):
                explained = _explained(engine, query, what)
    if _CUT.search(explained):  # another thread of this session may have pinned other settings
        raise EngineError("Spark shows only some of the columns of its plan")
    return explained


def _explained(engine: Engine, query: str, what: str) -> str:
    return "\n".join(str(row[0]) for row in engine.query(f"explain extended\n{query}", what))


def _nothing(columns: Sequence[tuple[str, str]]) -> str:
    """A query with these columns and `_mv_time`, all different, about which the optimizer knows
    nothing.
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
    """Whether each row of the analyzed ``plan`` is made from one row of the temporary ``view``, in
    each place where that is read.

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
