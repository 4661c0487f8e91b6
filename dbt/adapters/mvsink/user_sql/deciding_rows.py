"""Which of a relation's rows decide a query of bad rows, if the relation had none before.

`deciding_rows` reads the text of a test. If the relation had no bad row, and some rows are added or
removed, then the bad rows are those that the query gives

- over the added rows alone, if it judges each row by itself: a filter over the relation, dbt's
  `not_null`, `accepted_values` and `relationships`;
- over the rows whose key an added row has, if it judges rows by key: dbt's `unique`.

Both return the same rows, equally often. In case of doubt, the answer is the reason why all rows
are needed: an aggregate, a window, a subquery, a join, or a function that is not one of Spark's own
functions of a single row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dbt.adapters.mvsink.user_sql.checks import uncertain
from dbt.adapters.mvsink.user_sql.functions import ROW_BY_ROW
from dbt.adapters.mvsink.user_sql.splice import relations
from dbt.adapters.mvsink.user_sql.words import Word, closing, keywords, words

SIGN = "\x1f"  # between tokens; no token has it
RELATION = "<relation>"
OF_MANY_ROWS = keywords(
    "GROUP HAVING DISTINCT OVER LIMIT OFFSET ORDER SORT CLUSTER DISTRIBUTE UNION INTERSECT EXCEPT MINUS SETMINUS JOIN LATERAL PIVOT "
    "UNPIVOT TABLESAMPLE QUALIFY WITH WINDOW |> VALUES TABLE USING"
)
# words before a parenthesis that are no function's name
BEFORE_PARENTHESES = keywords(
    "AND OR NOT IN CASE WHEN THEN ELSE BETWEEN LIKE ILIKE RLIKE REGEXP IS WHERE SELECT FROM AS ESCAPE DISTINCT"
)


@dataclass(frozen=True)
class DecidingRows:
    """The added rows; with a ``key`` (an expression over the relation's columns), all rows that
    share it with one of them. ``parent`` is another relation that must be as it was.
    """

    key: str = ""
    parent: str = ""


def _template(text: str) -> re.Pattern[str]:
    """A pattern of tokens, which ``text`` has with blanks between them: ``<c>`` is an expression,
    the same wherever it stands, ``<values>`` are literals, ``<name>`` is a relation's name.
    """
    holes = {
        "<values>": rf"(?P<values>(?:(?:l\d+|[0-9.]+[A-Z]*|-|,|NULL|TRUE|FALSE){SIGN})+)",
        "<name>": rf"(?P<name>(?:[\w.`]+{SIGN})+)",
        "<field>": rf"(?P<field>(?:[\w`]+){SIGN})",
        "<relation>": re.escape(RELATION) + SIGN,
    }
    parts, again = [], False
    for token in text.split():
        if token == "<c>":
            parts.append("(?P=c)" if again else f"(?P<c>(?:[^{SIGN}]+{SIGN})+?)")
            again = True
        else:
            parts.append(holes.get(token) or re.escape(token) + SIGN)
    return re.compile("".join(parts))


UNIQUE = _template(
    "SELECT <c> AS UNIQUE_FIELD , COUNT ( * ) AS N_RECORDS FROM <relation> WHERE <c> IS NOT NULL GROUP BY <c> HAVING COUNT ( * ) > 1"
)
ACCEPTED_VALUES = _template(
    "WITH ALL_VALUES AS ( SELECT <c> AS VALUE_FIELD , COUNT ( * ) AS N_RECORDS FROM <relation> GROUP BY <c> ) "
    "SELECT * FROM ALL_VALUES WHERE VALUE_FIELD NOT IN ( <values> )"
)
RELATIONSHIPS = _template(
    "WITH CHILD AS ( SELECT <c> AS FROM_FIELD FROM <relation> WHERE <c> IS NOT NULL ) , "
    "PARENT AS ( SELECT <field> AS TO_FIELD FROM <name> ) "
    "SELECT FROM_FIELD FROM CHILD LEFT JOIN PARENT ON CHILD . FROM_FIELD = PARENT . TO_FIELD WHERE PARENT . TO_FIELD IS NULL"
)


def deciding_rows(query: str, relation: str) -> DecidingRows | str:
    """The rows of ``relation`` that decide ``query``, or why all do, as a clause."""
    if reason := uncertain(query):
        return reason
    spans = relations(query, relation)
    if len(spans) != 1 or spans[0].as_query:
        return f"it reads {relation} {len(spans)} times" if len(spans) != 1 else "it reads it as a whole"
    stream = words(query)
    inner = _collapsed(stream, spans[0].start, spans[0].end)
    if inner is None:
        return "the relation is in a subquery"
    first, behind = inner
    if _judges_rows(stream, first, behind):
        return DecidingRows()
    return _by_template(query, stream, first, behind)


def _by_template(query: str, stream: Sequence[Word], first: int, behind: int) -> DecidingRows | str:
    if not _is_plain(stream[first:behind]):
        return "its `where` looks at more than one row"
    tokens = _tokens(query, stream)
    tokens[first:behind] = [RELATION]
    text = "".join(token + SIGN for token in tokens)
    for pattern in (UNIQUE, ACCEPTED_VALUES, RELATIONSHIPS):
        match = pattern.fullmatch(text)
        if match is None:
            continue
        start = text[: match.start("c")].count(SIGN)
        expression = stream[start : start + match["c"].count(SIGN)]
        if not (_is_plain(expression) and _balanced(expression)):
            return "its column is an expression that looks at more than one row"
        if pattern is UNIQUE:
            return DecidingRows(key=query[expression[0].start : expression[-1].end])
        if pattern is RELATIONSHIPS:
            names = text[: match.start("name")].count(SIGN) + (behind - first - 1)
            named = stream[names : names + match["name"].count(SIGN)]
            return DecidingRows(parent=query[named[0].start : named[-1].end])
        return DecidingRows()
    return "it looks at more than one row at a time"


def _collapsed(stream: Sequence[Word], start: int, end: int) -> tuple[int, int] | None:
    """The tokens of the relation, with its alias or in dbt's own subquery of a `where`: the index
    of the first one and the one behind the last. None if it is elsewhere.
    """
    first = next(index for index, word in enumerate(stream) if word.start == start)
    behind = next((index for index, word in enumerate(stream) if word.start >= end), len(stream))
    before = [word.upper for word in stream[max(0, first - 4) : first]]
    if before != ["(", "SELECT", "*", "FROM"]:
        return first, behind
    close = closing(stream, first - 4)
    after = stream[close + 1].text.lower() if close + 1 < len(stream) else ""
    filtered = behind < len(stream) and stream[behind].upper == "WHERE"
    return (first - 4, close + 2) if filtered and after == "dbt_subquery" else None


def _judges_rows(stream: Sequence[Word], first: int, behind: int) -> bool:
    """``select ... from <relation> [where ...]`` with nothing that looks at another row."""
    outer = [*stream[:first], *stream[behind:]]
    uppers = [word.upper for word in outer]
    rest = uppers[first:]
    return (
        uppers[:1] == ["SELECT"]
        and uppers.count("SELECT") == uppers.count("FROM") == 1
        and uppers[first - 1] == "FROM"
        and rest[:1] in ([], ["WHERE"])
        and _is_plain(outer)
        and _is_plain(stream[first:behind])
    )


def _is_plain(stream: Sequence[Word]) -> bool:
    """Whether all calls are of functions that judge one row, and no clause is of many."""
    for index, word in enumerate(stream):
        if word.upper in OF_MANY_ROWS:
            return False
        called = index + 1 < len(stream) and stream[index + 1].upper == "(" and word.is_name
        if called and word.upper not in BEFORE_PARENTHESES and word.text.lower() not in ROW_BY_ROW:
            return False
    return sum(word.upper == "SELECT" for word in stream) <= 1


def _balanced(stream: Sequence[Word]) -> bool:
    depth = 0
    for word in stream:
        depth += {"(": 1, ")": -1}.get(word.upper, 0)
        if depth < 0:
            return False
    return depth == 0


def _tokens(query: str, stream: Sequence[Word]) -> list[str]:
    """Tokens as text to match: syntax in capitals, literals as ``l<number>``, the same for equal
    ones; quoted names keep their quotes.
    """
    literals: dict[str, str] = {}
    tokens = []
    for word in stream:
        if word.literal:
            tokens.append(literals.setdefault(query[word.start : word.end], f"l{len(literals)}"))
        else:
            tokens.append(f"`{word.text}`" if word.quoted_name else word.upper or word.text)
    return tokens
