"""What a query's tokens show before it runs: whether its result follows from its text and its
inputs alone, and where it ends.

Tokens are used instead of a parser, because Spark accepts more than any other parser does. Text in
quotes and comments is not syntax. Only the names of a query's columns, which are a mere guess, come
from a parser.

>>> uncertain("select upper(a), rand() from t")
'rand() differs from run to run, or from session to session'
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from sqlglot.errors import SqlglotError

from dbt.adapters.mvsink.user_sql.comments import goes_on
from dbt.adapters.mvsink.user_sql.functions import (
    AGGREGATES,
    BARE,
    ELSEWHERE,
    NONDETERMINISTIC,
    ROW_BY_ROW,
    TABLE_FUNCTIONS,
    WINDOWS,
    WITHOUT_ARGUMENTS,
)
from dbt.adapters.mvsink.user_sql.words import UnreadableText, Word, closing, keywords, parsed, words

KNOWN = AGGREGATES | WINDOWS | TABLE_FUNCTIONS | ROW_BY_ROW
# Words before a parenthesis that are no function's name.
SYNTAX = keywords(
    "ALL AND ANY AS BETWEEN BY CASE CLUSTER CUBE DISTINCT DISTRIBUTE ELSE ESCAPE EXCEPT EXCLUDE EXISTS FILTER FOR FROM GROUP GROUPING "
    "HAVING ILIKE IN INTERSECT INTERVAL IS JOIN LATERAL LIKE LIMIT MINUS NOT OFFSET ON OR OVER PARTITION PIVOT REGEXP REPEATABLE RLIKE ROLLUP "
    "SELECT SETS SOME THEN UNION UNPIVOT USING VALUES WHEN WHERE WITH"
)
_MOVING = frozenset({"now", "today", "tomorrow", "yesterday"})
_TYPED = keywords("DATE TIME TIMESTAMP TIMESTAMP_LTZ TIMESTAMP_NTZ")
_LINE_BREAK = re.compile(r"[\n\r]|\\(?:[nr0-7]|u\w|U\w)")


def uncertain(query: str, allowed: Collection[str] = ()) -> str:
    """Why the result may differ though the inputs are the same, as a clause; empty if it cannot.

    ``allowed`` are functions that depend on their arguments only, though they are not Spark's own.
    In case of doubt the result may differ: a function that is not known to be Spark's own may read
    the clock, a file or a service. Ties, and the order in which floats are added, do not count: any
    result that the query can have is right.
    """
    if "${" in query:
        return "Spark replaces ${...} with a value of the session"
    try:
        stream = words(query)
    except UnreadableText as error:
        return str(error)
    known = KNOWN | {name.lower() for name in allowed}
    return next((reason for index in range(len(stream)) if (reason := _of_word(stream, index, known))), "")


def moving_literal(word: Word, before: str) -> str:
    """Why the literal after the word ``before`` differs from run to run; empty if it does not."""
    moves = word.literal and before in _TYPED and word.text.strip().lower() in _MOVING
    return f"{before.lower()} '{word.text}' differs from run to run" if moves else ""


def breaks_lines(query: str) -> bool:
    """Whether a name or a literal has a line break, which a printed plan would show as one."""
    return any(
        (word.literal or word.quoted_name) and _LINE_BREAK.search(query[word.start : word.end])
        for word in words(query)
    )


def _of_word(stream: Sequence[Word], index: int, known: Collection[str]) -> str:
    word, before = stream[index], stream[index - 1].upper if index else ""
    if reason := moving_literal(word, before):
        return reason
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
        full = dotted(stream, index)
        return (
            ""
            if full in known
            else f"{full}() is not a function of Spark's own; deterministic_functions can allow it"
        )
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


def dotted(stream: Sequence[Word], index: int) -> str:
    """The name that ends at ``index``, with its qualifiers, in lower case."""
    parts = [stream[index].text.lower()]
    while index >= 2 and stream[index - 1].upper == "." and stream[index - 2].is_name:
        index -= 2
        parts.insert(0, stream[index].text.lower())
    return ".".join(parts)


def tokens(query: str) -> tuple[Word, ...]:
    """The query's tokens; none if it has an open quote (the engine will report it)."""
    try:
        return words(query)
    except UnreadableText:
        return ()


def nondeterministic_functions(query: str) -> list[str]:
    """Functions in ``query`` whose value differs from run to run, in the order of appearance."""
    names: list[str] = []
    stream = tokens(query)
    for position, token in enumerate(stream):
        name = token.text.lower()
        if name not in NONDETERMINISTIC or not token.upper or name in names:
            continue
        following = [t.text for t in stream[position + 1 : position + 3]]
        before = stream[position - 1].text if position else ""
        called = following[:1] == ["("]
        if name in WITHOUT_ARGUMENTS and following != ["(", ")"]:
            continue
        if before != "." and (called or (name in BARE and before.lower() != "as")):
            names.append(name)
    return names


def reads(query: str, schema: str, identifier: str) -> bool:
    """Whether ``query`` names ``schema.identifier`` as a relation."""
    wanted = [schema.lower(), ".", identifier.lower()]
    words = [token.text.lower() for token in tokens(query)]
    return any(words[i : i + 3] == wanted for i in range(len(words)))


def without_end(query: str) -> str:
    """The query without a closing semicolon, and without a last comment that would swallow what
    follows, so that it can be put in parentheses.
    """
    stream = [*tokens(query)]
    end = len(query)
    while stream and stream[-1].upper == ";":
        end = stream.pop().start
    if stream and goes_on(query[:end]):
        end = stream[-1].end
    return query[:end]


def selected_names(query: str) -> tuple[str, ...]:
    """The names of the query's columns in its text, ``*`` for a star; none if sqlglot fails."""
    try:
        return tuple(getattr(parsed(query), "named_selects", ()))
    except SqlglotError:
        return ()


def listed(names: Iterable[str]) -> str:
    """Names for a message."""
    return ", ".join(f"{name}()" for name in names)
