"""Checks of a query before it runs, by its tokens.

Not by parsing: Spark accepts more than any other parser does. Text in quotes and comments is not
syntax. Only the names of a query's columns, a mere guess, come from a parser.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot.errors import SqlglotError

from dbt.adapters.mvsink.user_sql.comments import goes_on
from dbt.adapters.mvsink.user_sql.words import UnreadableText, Word, parsed, words

NONDETERMINISTIC = frozenset(
    [
        "current_timestamp",
        "now",
        "localtimestamp",
        "current_date",
        "curdate",
        "current_time",
        "rand",
        "randn",
        "random",
        "randstr",
        "uuid",
        "shuffle",
        "monotonically_increasing_id",
        "spark_partition_id",
        "input_file_name",
        "unix_timestamp",
        "uniform",
    ]
)
NEEDS_NO_CALL = frozenset({"current_timestamp", "current_date", "localtimestamp", "current_time"})
NOT_A_CALL_WITH_ARGUMENTS = frozenset({"unix_timestamp"})  # with an argument it is a plain function


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
        if name in NOT_A_CALL_WITH_ARGUMENTS and following != ["(", ")"]:
            continue
        if before != "." and (called or (name in NEEDS_NO_CALL and before.lower() != "as")):
            names.append(name)
    return names


def reads(query: str, schema: str, identifier: str) -> bool:
    """Whether ``query`` names ``schema.identifier`` as a relation."""
    wanted = [schema.lower(), ".", identifier.lower()]
    words = [token.text.lower() for token in tokens(query)]
    return any(words[i : i + 3] == wanted for i in range(len(words)))


def without_end(query: str) -> str:
    """The query without a closing semicolon or a comment that goes on behind it, so that it can be
    put in parentheses.
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
