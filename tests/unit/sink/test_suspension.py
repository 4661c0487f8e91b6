"""What drift makes of the next runs."""

from __future__ import annotations

from uuid import UUID

import pyarrow as pa
import pytest

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.shard import Progress, ShardState
from dbt.adapters.mvsink.shard_sql import Counts
from dbt.adapters.mvsink.sink.trust import Drift, Suspended, recorded, suspended

NOT, VERIFIED, REDEFINED = Suspended
NONE, SOME, NOISE = Drift(), Drift(Counts(inserted=1)), Drift(Counts(inserted=1), noise=True)
T = 2 * limits.DRIFTS_AGAIN


@pytest.mark.parametrize(
    ("before", "last", "drift", "plan", "after", "drifted"),
    [
        (NOT, None, None, 1, NOT, None),
        (NOT, None, NONE, 1, NOT, None),
        (NOT, None, SOME, 1, VERIFIED, T),
        (NOT, None, NOISE, 1, NOT, None),
        (VERIFIED, T - 5, NOISE, 1, NOT, T - 5),
        (VERIFIED, T - 5, None, 1, VERIFIED, T - 5),
        (VERIFIED, T - 5, NONE, 1, NOT, T - 5),
        (NOT, T - limits.DRIFTS_AGAIN, SOME, 1, REDEFINED, T),
        (NOT, T - limits.DRIFTS_AGAIN - 1, SOME, 1, VERIFIED, T),
        (VERIFIED, T - 5, SOME, 1, REDEFINED, T),
        (REDEFINED, T - 5, NONE, 1, REDEFINED, T - 5),
        (REDEFINED, T - limits.DRIFTS_AGAIN - 1, SOME, 1, REDEFINED, T),
        (REDEFINED, T - 5, None, 2, NOT, 0),
        (REDEFINED, T - 5, SOME, 2, VERIFIED, T),
        (REDEFINED, T - 5, None, 0, REDEFINED, T - 5),  # what it was computed from is not known
    ],
)
def test_what_a_commit_records_of_drift(before, last, drift, plan, after, drifted):
    state = ShardState(1, UUID(int=0), pa.schema([]), 0, plan=1, drifted=last, suspended=before)
    progress = recorded(Progress(plan=plan), state, drift, T)
    assert (before if progress.suspended is None else progress.suspended) == after
    assert (last if progress.drifted is None else progress.drifted) == drifted


@pytest.mark.parametrize(("level", "shown"), [(NOT, False), (VERIFIED, True), (REDEFINED, True)])
def test_a_suspended_model_says_why(level, shown):
    state = ShardState(1, UUID(int=0), pa.schema([]), 0, suspended=level)
    assert bool(suspended(state)) is shown
