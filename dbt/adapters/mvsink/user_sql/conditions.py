"""What is known of a condition before Spark has seen it."""

from __future__ import annotations

from collections.abc import Collection

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from dbt.adapters.mvsink.user_sql.words import words

WITHOUT_PARENTHESES = {  # functions that may be called like columns
    *("current_catalog", "current_database", "current_date", "current_schema", "current_time"),
    *("current_timestamp", "current_user", "localtimestamp", "session_user", "user"),
}
UNITS = {  # as arguments of functions like `timestampadd`
    *("year", "quarter", "month", "week", "day", "dayofyear", "hour", "minute", "second", "millisecond"),
    "microsecond",
}
ENDS = {
    "and",
    "or",
    "not",
    "=",
    "<",
    ">",
    "<=",
    ">=",
    "<>",
    "!=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "||",
    "like",
    "in",
}


def problem_of(condition: str, columns: Collection[str]) -> str:
    """Why ``condition`` cannot be one on rows with these columns, as a clause; empty if it may be:
    the engine knows more. Raises `UnreadableText` for a quote or a comment that is not closed.

    >>> problem_of("amuont > 1 and id = 2", ["id", "amount"])
    'there is no column `amuont`; the columns are id, amount'
    >>> problem_of("(id = 1", ["id"]), problem_of("id = ", ["id"]), problem_of("id = 1", ["id"])
    ('a parenthesis is not closed', 'it ends with `=`', '')
    """
    tokens = [word.text for word in words(condition)]
    if not tokens:
        return "it is empty"
    if tokens[-1].lower() in ENDS:
        return f"it ends with `{tokens[-1]}`"
    depth = 0
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token, 0)
        if depth < 0:
            return "a parenthesis is closed that was not opened"
    if depth:
        return "a parenthesis is not closed"
    names = _columns_in(condition)
    known = {column.lower() for column in columns} | WITHOUT_PARENTHESES | UNITS
    unknown = next((name for name in names if name.lower() not in known), None)
    return f"there is no column `{unknown}`; the columns are {', '.join(columns)}" if unknown else ""


def _columns_in(condition: str) -> list[str]:
    """The names of plain columns; empty if that is not certain."""
    try:
        tree = sqlglot.parse_one(f"select 1 from t where {condition}", dialect=Spark).args["where"]
    except (SqlglotError, KeyError):
        return []
    if tree.find(exp.Query, exp.Lambda, exp.Dot):
        return []
    return [column.name for column in tree.find_all(exp.Column) if not column.table]
