"""VALUES as a query of its own: written as a SELECT, so that there is one kind of block.

>>> print(as_selects("select v.a from (values (1), (2)) as v(a)"))
select v.a from (select /* values */ * from values (1), (2)) as v(a)

The comment is the mark by which `as_written` leaves the SELECT out again, for comparisons with what
Spark makes of the text of the user.
"""

from __future__ import annotations

from dbt.adapters.mvsink.user_sql.splice import Edit, spliced
from dbt.adapters.mvsink.user_sql.tokens import Tokens

SELECT = "select /* values */ * from "
_SET_OPERATORS = frozenset({"UNION", "EXCEPT", "MINUS", "SETMINUS", "INTERSECT"})
_BEHIND = _SET_OPERATORS | {"", ")", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET"}


def as_selects(text: str) -> str:
    """``text`` with a SELECT before each VALUES that is a query. Raises `Refused`, `Unreadable`."""
    tokens = Tokens(text)
    return spliced(text, [*_edits(tokens)])


def as_written(text: str) -> str:
    """The inverse of `as_selects`."""
    return text.replace(SELECT, "")


def _edits(tokens: Tokens) -> list[Edit]:
    return [
        (word.start, word.start, SELECT)
        for index, word in enumerate(tokens.words)
        if word.upper == "VALUES" and _begins(tokens, index) and _is_whole(tokens, index)
    ]


def _begins(tokens: Tokens, index: int) -> bool:
    """Whether a query may begin there, rather than a relation behind FROM."""
    before = tokens.upper(index - 1)
    if before in ("ALL", "DISTINCT"):
        before = tokens.upper(index - 2)
    return index == 0 or before == "(" or before in _SET_OPERATORS


def _is_whole(tokens: Tokens, index: int) -> bool:
    """Whether the VALUES there is more than the first relation of a join in parentheses."""
    if tokens.upper(index + 1) != "(":
        return False
    behind = tokens.closing(index + 1) + 1
    while tokens.upper(behind) == "," and tokens.upper(behind + 1) == "(":
        behind = tokens.closing(behind + 1) + 1
    if tokens.upper(behind) not in _BEHIND:  # an alias
        behind += 1 + (tokens.upper(behind) == "AS")
        behind, _ = tokens.name_list(behind)
    return behind >= len(tokens.words) or tokens.upper(behind) in _BEHIND - {""}
