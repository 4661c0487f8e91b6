"""dbt's line of a view's run: how the contents were computed."""

from __future__ import annotations

from uuid import UUID

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.materialization.drift import drift_values
from dbt.adapters.mvsink.materialization.response import response
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.shard import Antichain, ShardState
from dbt.adapters.mvsink.shard_sql import Counts, Kind
from dbt.adapters.mvsink.sink import Drift, Outcome

T = 1_800_000_000_000
LINES = [
    ({}, ""),
    ({"incremental": True}, " (incremental)"),
    ({"evaluated": False}, " (inputs unchanged)"),
    ({"verified": True}, " (verified)"),  # whether it had drifted is not known
    ({"verified": True, "drifted": Drift()}, " (verified, no drift)"),
    ({"verified": True, "drifted": Drift(Counts(1, 2))}, " (verified)"),  # a warning says it
    (
        {"verified": True, "full": EvaluateFully(Why.OTHER_TOOL)},
        " (verified; another tool wrote to its shard)",
    ),
    ({"verified": True, "full": EvaluateFully(Why.SMALL)}, " (verified)"),
    ({"full": EvaluateFully(Why.SMALL)}, ""),
    ({"full": EvaluateFully(Why.MUCH_CHANGED, "cat.shop.orders", "14%")}, " (full: orders changed by 14%)"),
    (
        {"full": EvaluateFully(Why.MUCH_CHANGED, "`a`.`my shop`.`my orders`", "14%")},
        " (full: my orders changed by 14%)",
    ),
    (
        {"full": EvaluateFully(Why.ROW_AMBIGUOUS)},
        " (full: a row that changes cannot be looked up: two have one hash)",
    ),
    (
        {
            "full": EvaluateFully(
                Why.UNREADABLE, "the history of db.orders before 2026-11-20T15:00:00Z is no longer readable"
            )
        },
        " (full: the history of orders before 2026-11-20T15:00:00Z is no l...)",
    ),
]


@pytest.mark.parametrize(("how", "shown"), LINES)
def test_the_line_shows_why_a_run_was_not_incremental_unless_it_is_usual(how, shown):
    upper = Antichain.of(T + 1)
    state = ShardState(1, UUID(int=0), pa.schema([]), 0, Antichain.of(T), upper)
    outcome = Outcome(Kind.APPEND, Counts(inserted=412, deleted=400), Antichain.of(T), upper, T, state, **how)
    answer = response(outcome)
    assert str(answer) == f"+412 -400 at 2027-01-15T08:00:00Z{shown}"
    assert answer.not_incremental == how.get("full", EvaluateFully()).text


@pytest.mark.parametrize(
    ("drift", "kept"),
    [
        (None, None),
        (Drift(), {"inserted": 0, "deleted": 0, "noise": False}),
        (Drift(Counts(1, 2), noise=True), {"inserted": 1, "deleted": 2, "noise": True}),
    ],
)
def test_what_run_results_keep_of_drift(drift, kept):
    assert drift_values(drift) == kept
