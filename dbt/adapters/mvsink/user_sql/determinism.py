"""Whether a query's result follows from its text and its inputs alone, by its words.

In doubt it does not: a function that is not known to be one of Spark's own may read the clock, a
file or a service. Ties, and the order in which floats are added, do not count: any result that the
query can have is right.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from dbt.adapters.mvsink.user_sql.functions import (
    AGGREGATES,
    BARE,
    ELSEWHERE,
    ROW_BY_ROW,
    TABLE_FUNCTIONS,
    WINDOWS,
    WITHOUT_ARGUMENTS,
)
from dbt.adapters.mvsink.user_sql.words import UnreadableText, Word, closing, keywords, words

KNOWN = AGGREGATES | WINDOWS | TABLE_FUNCTIONS | ROW_BY_ROW
# Words before a parenthesis that are no function's name.
SYNTAX = keywords(
    "ALL AND ANY AS BETWEEN BY CASE CLUSTER CUBE DISTINCT DISTRIBUTE ELSE ESCAPE EXCEPT EXCLUDE EXISTS FILTER FOR FROM GROUP GROUPING "
    "HAVING ILIKE IN INTERSECT INTERVAL IS JOIN LATERAL LIKE LIMIT MINUS NOT OFFSET ON OR OVER PARTITION PIVOT REGEXP REPEATABLE RLIKE ROLLUP "
    "SELECT SETS SOME THEN UNION UNPIVOT USING VALUES WHEN WHERE WITH"
)
MOVING = frozenset({"now", "today", "tomorrow", "yesterday"})
TYPED = keywords("DATE TIME TIMESTAMP TIMESTAMP_LTZ TIMESTAMP_NTZ")
_LINE_BREAK = re.compile(r"[\n\r]|\\(?:[nr0-7]|u\w|U\w)")


def uncertain(query: str, allowed: Collection[str] = ()) -> str:
    """Why the result may differ though the inputs are the same, as a clause; empty if it cannot.

    ``allowed``: functions that depend on their arguments only, though they are not Spark's own.
    """
    if "${" in query:
        return "Spark replaces ${...} with a value of the session"
    try:
        stream = words(query)
    except UnreadableText as error:
        return str(error)
    known = KNOWN | {name.lower() for name in allowed}
    return next((reason for index in range(len(stream)) if (reason := _of_word(stream, index, known))), "")


def breaks_lines(query: str) -> bool:
    """Whether a name or a literal has a line break, which a printed plan would show as one."""
    return any(
        (word.literal or word.quoted_name) and _LINE_BREAK.search(query[word.start : word.end])
        for word in words(query)
    )


def _of_word(stream: Sequence[Word], index: int, known: Collection[str]) -> str:
    word, before = stream[index], stream[index - 1].upper if index else ""
    if word.literal and before in TYPED and word.text.strip().lower() in MOVING:
        return f"{before.lower()} '{word.text}' differs from run to run"
    if word.upper == "TABLESAMPLE":
        return "TABLESAMPLE draws different rows in each run"
    if not word.is_name or word.text[:1].isdigit():
        return ""
    if stream[index + 1 : index + 2] and stream[index + 1].upper == "(":
        return _of_call(stream, index, before, known)
    name = word.text.lower()
    if name in BARE and word.upper and before not in (".", "AS"):
        return f"{name} differs from run to run, or from session to session"
    return ""


def _of_call(stream: Sequence[Word], index: int, before: str, known: Collection[str]) -> str:
    word, name = stream[index], stream[index].text.lower()
    if before == ".":
        return f"{name}() is not a function of Spark's own"
    if word.upper in SYNTAX or before in ("AS", ")") or _is_alias(stream, index):
        return ""
    empty = stream[index + 2 : index + 3] and stream[index + 2].upper == ")"
    if name in ELSEWHERE or (name in WITHOUT_ARGUMENTS and empty):
        return f"{name}() differs from run to run, or from session to session"
    return "" if name in known else f"{name}() is not known as one of Spark's own deterministic functions"


def _is_alias(stream: Sequence[Word], index: int) -> bool:
    """Whether ``name (`` begins a CTE with a list of columns: ``with name (a, b) as (``."""
    behind = [word.upper for word in stream[closing(stream, index + 1) + 1 :][:2]]
    return behind == ["AS", "("]
