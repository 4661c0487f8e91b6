"""Analyzed plans as texts that are equal for queries that are read alike.

Spark prints a plan as a tree of lines, in which every column has a number that differs from one
analysis to the next. Here columns are numbered by their first appearance, and what only names
things is left out: aliases of relations and of columns.

The text shows less than the plan: a literal's type only where it decides a cast. Where plans
themselves can be compared, that is better.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.engine.protocol import Engine

SHOWN = "spark.sql.debug.maxToStringFields"  # else the text of a plan leaves columns out
EVERY = "1000000"
_STAND_IN = re.compile(r"\b_mv_w(\d+)\b")

_ANALYZED = re.compile(r"== Analyzed Logical Plan ==\n(.*?)(?:\n== Optimized Logical Plan ==|\Z)", re.DOTALL)
_INDENTATION = re.compile(r"(?:[ :]  )*(?:[:+]- )?")
_STEP = 3  # characters by which a child is indented
_ALIAS = re.compile(r" AS [^#\n]*#")
_GENERATED = re.compile(r"(Generate .*, (?:true|false)), [^\[\]]+, \[")  # the alias of a lateral view
_NUMBERED = re.compile(r"(?<=#)\d+|(?<=CTERelationDef )\d+|(?<=CTERelationRef )\d+")


def analyzed_section(explained: str) -> str | None:
    """The analyzed plan in what EXPLAIN EXTENDED prints, behind a line of its columns and types."""
    match = _ANALYZED.search(explained)
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
    """`Engine.same_plan` where plans can be compared: ``compared`` does, and gives their texts.

    For Spark, plans with generators never are the same: their columns keep their numbers. Then the
    texts are compared.
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
        with engine.settings({SHOWN: EVERY}):
            plans = [_explained(engine, named(text)) for text in (one, other)]
    finally:
        for name in views:
            engine.execute(f"drop view if exists {name}", "witness")
    return None not in plans and plans[0] == plans[1]


def _explained(engine: Engine, query: str) -> str | None:
    rows = engine.query(f"explain extended\n{query}", "witness")
    plan = analyzed_section("\n".join(str(row[0]) for row in rows))
    return None if plan is None else comparable(plan)
