"""dbt's line of a view's run: how the contents were computed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.materialization.response import MvsinkResponse, drift_values, response
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.shard import Antichain, ShardState
from dbt.adapters.mvsink.shard_sql import Counts, Kind
from dbt.adapters.mvsink.sink import Drift, Outcome
from dbt.adapters.mvsink.sink.round import Written

T = 1_800_000_000_000
LINES: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"incremental": True}, " (incremental)"),
    ({"evaluated": False}, " (inputs unchanged)"),
    ({"verified": True}, " (verified)"),  # whether it had drifted is not known
    ({"verified": True, "loaded": True}, ""),  # there was nothing to verify
    ({"verified": True, "drift": Drift()}, " (verified, no drift)"),
    ({"verified": True, "drift": Drift(Counts(1, 2))}, " (verified)"),  # a warning says it
    (
        {"verified": True, "full": EvaluateFully(Why.OTHER_TOOL)},
        " (verified; other tool)",
    ),
    ({"verified": True, "full": EvaluateFully(Why.SMALL)}, " (verified)"),
    ({"full": EvaluateFully(Why.SMALL)}, ""),
    ({"full": EvaluateFully(Why.NEW_FILES, "raw.t", "2 new files: a, b", "")}, " (full: 2 new files)"),
    ({"full": EvaluateFully(Why.MUCH_CHANGED, "cat.shop.orders", "14%")}, " (full: much changed)"),
    (
        {"full": EvaluateFully(Why.ROW_AMBIGUOUS), "rewritten": "a view was replaced"},
        " (full: row ambiguous)",
    ),
    (
        {
            "verified": True,
            "full": EvaluateFully(Why.HISTORY_GONE, "a.b"),
            "rewritten": "a view was replaced",
        },
        " (verified; rewritten; history gone)",
    ),
]


@pytest.mark.parametrize(("how", "shown"), LINES)
def test_the_line_shows_why_a_run_was_not_incremental_unless_it_is_usual(how, shown):
    upper = Antichain.of(T + 1)
    state = ShardState(1, UUID(int=0), pa.schema([]), 0, Antichain.of(T), upper)
    counts, bounds = Counts(inserted=412, deleted=400), (Antichain.of(T), upper)
    verified, facts = "verified" in how, {name: how[name] for name in how if name != "verified"}
    written = Written(None, counts, **facts)
    outcome = Outcome(Kind.APPEND, counts, *bounds, T, state, written=written, verified=verified)
    answer = response(outcome)
    assert str(answer) == f"+412 -400 at 2027-01-15T08:00:00Z{shown}"
    assert answer.not_incremental == written.full.text


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


def test_the_keys_of_run_results_are_these_in_this_order():
    """Programs read them."""
    assert " ".join(MvsinkResponse("").to_dict(omit_none=False)) == (
        "_message code rows_affected query_id rows_inserted rows_deleted lower upper version kind drift rows_staged bytes_staged "
        "candidate_buckets mismatches generation columns_added columns_widened references versions newer overtaken seconds preview explanation evaluated "
        "verified rewritten incremental mode not_incremental drifted next_refresh paused input pending waits_for warnings"
    )
