"""What can be told from a query's tokens before it runs.

By tokens, not by parsing: Spark accepts more than any other parser does, and text in quotes and
comments is not syntax.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import Token
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError

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


def tokens(query: str) -> list[Token]:
    """The query's tokens; none if even those cannot be made out (the engine will say what is
    wrong).
    """
    try:
        return list(Spark().tokenize(query))
    except TokenError:
        return []


def nondeterministic_functions(query: str) -> list[str]:
    """Names of functions in ``query`` whose value differs from run to run, in the order they
    appear.
    """
    found: list[str] = []
    stream = tokens(query)
    for position, token in enumerate(stream):
        name = token.text.lower()
        if name not in NONDETERMINISTIC or _quoted(query, token) or name in found:
            continue
        following = [t.text for t in stream[position + 1 : position + 3]]
        before = stream[position - 1].text if position else ""
        called = following[:1] == ["("]
        if name in NOT_A_CALL_WITH_ARGUMENTS and following != ["(", ")"]:
            continue
        if before != "." and (called or (name in NEEDS_NO_CALL and before.lower() != "as")):
            found.append(name)
    return found


def reads(query: str, schema: str, identifier: str) -> bool:
    """Does ``query`` name ``schema.identifier`` as a relation?"""
    wanted = [schema.lower(), ".", identifier.lower()]
    words = [token.text.lower() for token in tokens(query)]
    return any(words[i : i + 3] == wanted for i in range(len(words)))


def without_end(query: str) -> str:
    """The query without a closing semicolon, so that it can stand in parentheses."""
    stream = tokens(query)
    end = len(query)
    for token in reversed(stream):
        if token.text != ";" or _quoted(query, token):
            break
        end = token.start
    return query[:end] if end < len(query) else query


def _quoted(query: str, token: Token) -> bool:
    return query[token.start : token.start + 1] in "'\"`"


def listed(names: Iterable[str]) -> str:
    """Names for a message."""
    return ", ".join(f"{name}()" for name in names)
