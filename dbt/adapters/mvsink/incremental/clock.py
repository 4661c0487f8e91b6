"""Whether time that passed makes a difference: a query over no relation."""

from __future__ import annotations

from collections.abc import Iterator

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dbt.adapters.mvsink.engine import NOW, query_at
from dbt.adapters.mvsink.incremental.plan import Analysed
from dbt.adapters.mvsink.incremental.tokens import Tokens


def clock_probe(analysed: Analysed, clock: tuple[int, int]) -> str | None:
    """A query of one BOOLEAN: whether every expression of `mv_now()` has the same value at both
    times. Then the change is that without a clock, with `mv_now()` at either time.

    None without a need to ask: `mv_now()` stands alone and differs, or is not there at all.
    """
    expressions = list(_expressions(analysed.text))
    if not expressions or any(NOW.fullmatch(each) for each in expressions):
        return None
    before, now = clock
    same = (f"({query_at(each, before)}) <=> ({query_at(each, now)})" for each in dict.fromkeys(expressions))
    return f"select {' and '.join(same)} as same"


def _expressions(text: str) -> Iterator[str]:
    """Around each `mv_now()` the largest call that names no column, with the mark inside."""
    tokens = Tokens(text)
    for match in NOW.finditer(text):
        low = next(index for index, word in enumerate(tokens.words) if word.start == match.start())
        widest = match[0]
        while (opening := tokens.around(low)) is not None:
            low = opening - (opening > 0 and tokens.words[opening - 1].is_name)
            call = text[tokens.at(low) : tokens.words[tokens.closing(opening)].end]
            if not _constant(call):
                break
            widest = call
        yield widest


def _constant(call: str) -> bool:
    try:
        tree = sqlglot.parse_one(f"select {call}", read="spark")
    except SqlglotError:
        return False
    return len(tree.expressions) == 1 and tree.expressions[0].find(exp.Column, exp.Query) is None
