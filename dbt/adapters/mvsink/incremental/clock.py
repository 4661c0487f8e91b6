"""Whether the passing of time makes a difference: a query that reads no relation."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dbt.adapters.mvsink.incremental.change_plan import Analysed
from dbt.adapters.mvsink.user_sql.splice import spliced
from dbt.adapters.mvsink.user_sql.tokens import Tokens
from dbt.adapters.mvsink.user_sql.words import parsed


def clock_probe(analysed: Analysed, clock: tuple[int, int]) -> str | None:
    """A query of one BOOLEAN: whether every expression of `mv_now()` has the same value at both
    times. Then the change is that without a clock, with `mv_now()` at either time.

    None without a need to ask: `mv_now()` is by itself and differs, or is not in the text at all.
    """
    tokens = Tokens(analysed.text)
    same = []
    for mark in analysed.marks:
        start, end = _widest(tokens, mark)
        if (start, end) == mark:
            return None
        values = (_at(tokens, start, end, time, analysed.marks) for time in clock)
        same.append(" <=> ".join(f"({value})" for value in values))
    return f"select {' and '.join(dict.fromkeys(same))} as same" if same else None


def _at(tokens: Tokens, start: int, end: int, time: int, marks: tuple[tuple[int, int], ...]) -> str:
    """The expression with every `mv_now()` in it at ``time``."""
    edits = [
        (low - start, high - start, f"timestamp_millis({time}L)") for low, high in marks if start <= low < end
    ]
    return spliced(tokens.text[start:end], edits)


def _widest(tokens: Tokens, mark: tuple[int, int]) -> tuple[int, int]:
    """The span of the largest call around the mark that names no column."""
    widest, low = mark, next(index for index, word in enumerate(tokens.words) if word.start == mark[0])
    while (opening := tokens.around(low)) is not None:
        low = opening - (opening > 0 and tokens.words[opening - 1].is_name)
        span = tokens.at(low), tokens.words[tokens.closing(opening)].end
        if not _constant(tokens.text[span[0] : span[1]]):
            break
        widest = span
    return widest


def _constant(call: str) -> bool:
    try:
        tree = parsed(f"select {call}")
    except SqlglotError:
        return False
    return len(tree.expressions) == 1 and tree.expressions[0].find(exp.Column, exp.Query) is None
