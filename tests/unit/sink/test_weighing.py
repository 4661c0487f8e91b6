"""What `mvsink explain --costs` shows of a decision: each fact with its numbers, down to the one
that decided. No Spark.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dbt.adapters.mvsink.inputs.position import InputSides, QueryRows
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.shard import CommitNote
from dbt.adapters.mvsink.sink.decide import Case, Increment, Incremental, Volume, decide
from dbt.adapters.mvsink.sink.run_history import EVALUATED, INCREMENTAL, LOADED, RunHistory
from dbt.adapters.mvsink.sink.weighing import weighed

ROWS = QueryRows("")
ORDERS = InputSides("shop.orders", (), ROWS, ROWS, "changes", rows=6_000_000, updates=1_200)
KINDS = InputSides("shop.kinds", (), ROWS, ROWS, None, rows=11)
ANALYSED: Any = SimpleNamespace(linear=True, unrepeatable=None)
LARGE = Increment(ANALYSED, (ORDERS, KINDS), volume=Volume(210 * 2**20, 6_000_011))
GROUPED: Any = SimpleNamespace(linear=False, unrepeatable=None)
SMALL = replace(LARGE, analysed=GROUPED, small=True, volume=Volume(2**19, 20_000))
MANY_KEYS = CommitNote(why=Why.MANY_KEYS.code)


def shown(increment, *runs, **more):
    notes = [run if isinstance(run, CommitNote) else CommitNote(mode=run[0], seconds=run[1]) for run in runs]
    case = Case(lambda: increment, lambda: RunHistory(tuple(notes)), **more)
    decision = decide(case)
    lines = weighed(case, decision)
    assert [line.fact for line in lines if line.decides] == [line.fact for line in lines[-1:]]
    return decision.full and decision.full.why, [(line.fact, line.numbers) for line in lines]


def test_all_facts_are_shown_where_the_changes_win():
    why, facts = shown(LARGE, (LOADED, 9.0), (EVALUATED, 6.0), (INCREMENTAL, 0.9), (INCREMENTAL, 0.7))
    assert why is None and facts == [
        ("earlier runs", "incremental 0.9 s, 0.7 s, evaluated 6.0 s: worth it up to 4.8 s"),
        ("keys that may differ", "few, as far as is known: from the changes up to 20% of them"),
        ("data that it reads", "210.0 MB, 6,000,011 rows: small up to 32.0 MB, 1,000,000 rows"),
        ("an evaluation", "6.0 s: quick below 0.4 s"),
        ("changes of shop.orders", "at most 1,200 of 6,000,000 rows: from the changes up to 2,400,000"),
    ]


def test_runs_of_which_far_more_had_changed_are_shown_and_do_not_decide():
    slow = [CommitNote(mode=INCREMENTAL, seconds=9.0, share=0.05)] * 2
    why, facts = shown(LARGE, (EVALUATED, 4.0), *slow)
    assert why is None
    assert dict(facts)["earlier runs"].endswith("worth it up to 3.2 s; far less has changed this time")
    why, facts = shown(LARGE, (EVALUATED, 4.0), *[replace(MANY_KEYS, share=0.05)] * 2)
    assert why is None
    assert dict(facts)["keys that may differ"].endswith("of them; far less has changed this time")


@pytest.mark.parametrize(
    ("increment", "runs", "why", "last"),
    [
        (LARGE, [(EVALUATED, 4.0), (INCREMENTAL, 9.0), (INCREMENTAL, 3.5)], Why.SLOW, "earlier runs"),
        (LARGE, [(LOADED, 4.0), (INCREMENTAL, 9.0), (INCREMENTAL, 9.5)], Why.NEVER_EVALUATED, "earlier runs"),
        (LARGE, [MANY_KEYS, MANY_KEYS], Why.USUALLY_MANY_KEYS, "keys that may differ"),
        (SMALL, [(LOADED, 0.5)], Why.SMALL, "data that it reads"),
        (LARGE, [(EVALUATED, 0.3)], Why.QUICK, "an evaluation"),
    ],
)
def test_the_last_line_is_the_one_that_decided(increment, runs, why, last):
    decided, facts = shown(increment, *runs)
    assert (decided, facts[-1][0]) == (why, last)


def test_what_is_not_known_says_so():
    unknown = replace(LARGE, inputs=(replace(ORDERS, rows=None, updates=None),), volume=None)
    _, facts = shown(unknown, (EVALUATED, 4.0))
    assert dict(facts) == {
        "earlier runs": "none was incremental",
        "keys that may differ": "few, as far as is known: from the changes up to 20% of them",
        "data that it reads": "not known: small up to 32.0 MB, 1,000,000 rows",
        "an evaluation": "4.0 s: quick below 0.4 s",
        "changes of shop.orders": "not known of not known rows: from the changes whatever their number",
    }


@pytest.mark.parametrize(
    "more", [{"policy": Incremental.NEVER}, {"contents": False}, {"suspended": Why.DRIFTED}, {"moved": True}]
)
def test_nothing_is_weighed_where_costs_do_not_matter(more):
    assert shown(LARGE, (EVALUATED, 4.0), **more)[1] == []
    assert shown(EvaluateFully(Why.NOT_INCREMENTAL, "line 1: LIMIT or OFFSET"))[1] == []
