"""The comments that mark what our macros render into the user's SQL, and finding them again."""

from __future__ import annotations

import re

NOW = re.compile(r"timestamp_millis\(\d+L?\) /\* mv_now \*/")  # what the macro `mv_now()` renders
END = "/* mv_end */"
_PAST = re.compile(rf"/\* (mv_(?:as_of|updates|history) .*?) \*/.*?{re.escape(END)}", re.DOTALL)


def query_at(query: str, time: int) -> str:
    """``query`` with the write time (ms) as its `mv_now()`; dbt did not know it when rendering."""
    return NOW.sub(f"timestamp_millis({time}L) /* mv_now */", query)


def of_the_past(macro: str, query: str) -> str:
    """``query`` as the subquery to which ``macro``, `mv_as_of` and its like, renders."""
    return f"(/* {macro} */\n{query}\n{END})"


def without_time(query: str) -> str:
    """The query without the run's time and the files that `mv_as_of` and its like read."""
    return _PAST.sub(r"\1", NOW.sub("mv_now()", query))
