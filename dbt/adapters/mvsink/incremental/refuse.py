"""What is not incremental, and why: `Refused` is raised internally, and `NotIncremental` is the
outcome.

    select k, rand() as r      refused: line 1: rand() differs from run to run
    select k, max(v) over ()   allowed in an item of a block, refused in its WHERE

In doubt a query is refused: the full correction is always right. The text of an expression is read
by its tokens, so that nothing is missed that only Spark's parser knows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from dbt.adapters.mvsink.engine import UnsupportedType, parse_type
from dbt.adapters.mvsink.engine.errors import SubstitutedName
from dbt.adapters.mvsink.engine.sql import check_name
from dbt.adapters.mvsink.engine.types import PADDED, SparkType
from dbt.adapters.mvsink.user_sql.algebra import Refused
from dbt.adapters.mvsink.user_sql.functions import (
    AGGREGATES,
    BARE,
    ELSEWHERE,
    GENERATORS,
    REFUSED,
    ROW_BY_ROW,
    WINDOWS,
    WITHOUT_ARGUMENTS,
)
from dbt.adapters.mvsink.user_sql.words import Word, keywords

# Words that may stand before a parenthesis without being a function's name.
_BEFORE_PARENTHESIS = keywords(
    "ALL AND ANY AS BETWEEN BY CASE DISTINCT ELSE ESCAPE EXCEPT EXISTS FOR FROM ILIKE IN INTERVAL IS LIKE NOT ON OR RLIKE REGEXP SOME THEN "
    "WHEN"
)
_MOVING_LITERALS = frozenset({"now", "today", "tomorrow", "yesterday"})
_TYPED_LITERALS = keywords("DATE TIMESTAMP TIMESTAMP_LTZ TIMESTAMP_NTZ TIME")
_COLLATED = re.compile(r"\bcollate\b", re.IGNORECASE)


@dataclass(frozen=True)
class NotIncremental:
    """The query, or this change, is for the full correction. ``reason`` is a clause for users:
    `line 14: rand() differs from run to run`.
    """

    reason: str


def outcome(refused: Refused, text: str) -> NotIncremental:
    """What ``refused`` says about ``text``, with the line."""
    line = "" if refused.at is None else f"line {text.count(chr(10), 0, refused.at) + 1}: "
    return NotIncremental(line + refused.reason)


def check_text(text: str, stream: Sequence[Word]) -> None:
    """Refuse what is nowhere allowed, whichever clause it is in."""
    try:
        check_name(text)
    except SubstitutedName:
        raise Refused("${...} is replaced by Spark with a value of the session") from None
    for word in stream:
        if word.upper == "|>":
            raise Refused("pipe syntax (|>)", word.start)
        if word.is_name and word.text.lower().startswith("_mv_"):
            raise Refused(f"the name {word.text}: names with _mv_ are reserved", word.start)
        if word.is_name and word.text.lower() == "_metadata":
            raise Refused("a file's _metadata is not part of an input's rows", word.start)
        if word.upper in ("COLLATE", "TABLESAMPLE", "PIVOT", "UNPIVOT", "QUALIFY"):
            raise Refused(word.upper if word.upper != "COLLATE" else "a collation", word.start)


def check_expression(
    stream: Sequence[Word],
    allowed: Collection[str],
    generators: Collection[str] = (),
    grouped: Collection[str] = (),
) -> None:
    """Refuse an expression that is not a function of one row of the source.

    ``allowed``: lower-case names of the user's own functions that are declared deterministic.
    ``generators``: what the outermost call may be besides. ``grouped``: the aggregates and window
    functions that it may call.
    """
    for index, word in enumerate(stream):
        before = stream[index - 1].upper if index else ""
        behind = [each.upper for each in stream[index + 1 : index + 3]]
        if word.upper in ("SELECT", "WITH") and before == "(":
            raise Refused("a subquery", word.start)
        if (
            word.upper == "OVER"
            and not grouped
            and behind[:1]
            and (behind[0] == "(" or stream[index + 1].is_name)
        ):
            raise Refused("a window function", word.start)
        counts = index > 1 and stream[index - 2].upper == "COUNT" and behind[:1] == [")"]
        if word.upper == "*" and before in ("(", ",", ".", "DISTINCT") and not (before == "(" and counts):
            raise Refused("a star inside a function call", word.start)
        if word.literal and before in _TYPED_LITERALS and word.text.strip().lower() in _MOVING_LITERALS:
            raise Refused(f"{before.lower()} '{word.text}' differs from run to run", stream[index - 1].start)
        if word.is_name and not word.text[:1].isdigit():
            called = behind[:1] == ["("]
            name = _dotted(stream, index) if called else word.text.lower()
            if called and not _is_syntax(word, before):
                _check_call(name, word.start, behind, [*allowed, *grouped, *(() if index else generators)])
            elif not called and before != "." and word.upper and name in BARE and before != "AS":
                raise Refused(f"{name} differs from run to run or from session to session", word.start)


def check_names(stream: Sequence[Word], relation: str, columns: Collection[str]) -> None:
    """Refuse names that Spark reads as functions in a subquery, where columns of the query around
    it come last: `` `user` `` there is the user of the session, not the column.
    """
    for word in stream:
        if word.quoted_name and word.text.lower() in BARE:
            raise Refused(f"{word.text} is also the name of a function without parentheses", word.start)
    for column in columns:
        if column in BARE:
            raise Refused(f"column {column} of {relation} has the name of a function without parentheses")


def _is_syntax(word: Word, before: str) -> bool:
    """Whether a word before a parenthesis is no function's name; ANY and SOME may be."""
    if word.upper in ("ANY", "SOME"):
        return before in ("LIKE", "ILIKE")
    if word.upper == "GROUP":
        return before == "WITHIN"
    if word.upper == "OVER":  # of a window function, which was judged before
        return True
    return word.upper in _BEFORE_PARENTHESIS and before != "."


def _dotted(stream: Sequence[Word], index: int) -> str:
    """The name that ends at ``index``, with its qualifiers."""
    parts = [stream[index].text.lower()]
    while index >= 2 and stream[index - 1].upper == "." and stream[index - 2].is_name:
        index -= 2
        parts.insert(0, stream[index].text.lower())
    return ".".join(parts)


def _check_call(name: str, at: int, behind: Sequence[str], allowed: Collection[str]) -> None:
    if name in allowed:
        return
    if name in ELSEWHERE or (name in WITHOUT_ARGUMENTS and list(behind) == ["(", ")"]):
        raise Refused(f"{name}() differs from run to run", at)
    for names, what in (
        (AGGREGATES, "an aggregate: {}()"),
        (WINDOWS, "a window: {}()"),
        (REFUSED, "{}() is not known to be reproducible"),
        (GENERATORS, "the generator {}() in an expression"),
    ):
        if name in names:
            raise Refused(what.format(name), at)
    if name not in ROW_BY_ROW:
        raise Refused(f"{name}() is not a known built-in function; deterministic_functions can allow it", at)


def check_types(relation: str, columns: Iterable[tuple[str, str]]) -> None:
    """Refuse columns whose equal values can differ, or that cannot be compared."""
    for name, kind in columns:
        if _COLLATED.search(kind):
            raise Refused(f"column {name} of {relation} has a collation")
        if PADDED.search(kind):
            raise Refused(f"column {name} of {relation} is of type {kind}, which Spark pads to compare it")
        try:
            comparable = _comparable(parse_type(kind, name))
        except UnsupportedType:
            comparable = False
        if not comparable:
            raise Refused(f"column {name} of {relation} is of type {kind}, which cannot be compared")


def _comparable(kind: SparkType) -> bool:
    inner = [*kind.inner, *(field.type for field in kind.fields)]
    return kind.name != "map" and all(map(_comparable, inner))
