"""Analyzed plans as texts that are equal for queries that are read alike.

Spark prints a plan as a tree of lines, in which every column has a number that differs from one
analysis to the next. Here columns are numbered by their first appearance, and what only names
things is left out: aliases of relations and of columns.

The text shows less than the plan: a literal's type only where it decides a cast. Where plans
themselves can be compared, that is better.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_ANALYZED = re.compile(r"== Analyzed Logical Plan ==\n(.*?)(?:\n== Optimized Logical Plan ==|\Z)", re.DOTALL)
_INDENTATION = re.compile(r"(?:[ :]  )*(?:[:+]- )?")
_STEP = 3  # characters by which a child is indented
_ALIAS = re.compile(r" AS [^#\n]*#")
_GENERATED = re.compile(r"(Generate .*, (?:true|false)), [^\[\]]+, \[")  # the alias of a lateral view
_NUMBERED = re.compile(r"(?<=#)\d+|(?<=CTERelationDef )\d+|(?<=CTERelationRef )\d+")


def analyzed_section(explained: str) -> str | None:
    """The analyzed plan in what EXPLAIN EXTENDED prints, behind a line of its columns and types."""
    found = _ANALYZED.search(explained)
    return None if found is None else found[1]


def comparable(plan: str) -> str:
    """The text of a plan, equal for plans that differ by names and numbers only.

    >>> one = "Project [a#1 AS x#7]\\n+- SubqueryAlias t\\n   +- Relation s.t[a#1,b#2]"
    >>> other = "Project [a#4 AS y#9]\\n+- Relation s.t[a#4,b#5]"
    >>> comparable(one) == comparable(other)
    True
    """
    numbers: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        return str(numbers.setdefault(found[0], len(numbers)))

    return _NUMBERED.sub(number, _ALIAS.sub(" AS #", "\n".join(_without_aliases(plan))))


def _without_aliases(plan: str) -> Iterator[str]:
    """The lines with their depth, without the nodes that only name their child."""
    left_out: list[int] = []  # the depths of such nodes around the line
    for line in plan.splitlines():
        depth = _INDENTATION.match(line).end()  # type: ignore[union-attr]
        while left_out and depth <= left_out[-1]:
            left_out.pop()
        node = line[depth:]
        if node.startswith("SubqueryAlias "):
            left_out.append(depth)
        else:
            node = _GENERATED.sub(r"\1, [", node)
            yield f"{depth // _STEP - len(left_out)} {node}"
