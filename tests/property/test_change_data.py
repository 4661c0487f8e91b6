"""The change data shape of updates against a plain replay, on DuckDB."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbt.adapters.mvsink.shard_sql.as_of import change_data
from tests.support.duck_engine import DuckEngine

ENGINE = DuckEngine()
ROWS = st.tuples(
    st.sampled_from([None, 1, 2]), st.sampled_from(["a", "b", None]), st.sampled_from([1_000, 2_500])
)
UPDATES = st.dictionaries(ROWS, st.sampled_from([-2, -1, 1, 2]), max_size=8)
COLUMNS = ("my key", "x`y")


def literal(value):
    return "null" if value is None else repr(value) if isinstance(value, str) else f"{value}L"


def as_sql(updates):
    rows = [
        f"select cast({literal(key)} as bigint) `my key`, cast({literal(x)} as string) `x``y`, {time}L _mv_time, {diff}L _mv_diff"
        for (key, x, time), diff in updates.items()
    ]
    empty = "select cast(null as bigint) `my key`, cast(null as string) `x``y`, 0L _mv_time, 0L _mv_diff where false"
    return "\nunion all\n".join([empty, *rows])


def replayed(updates, keyed):
    """``(key, x, change type, time) -> copies``."""
    groups = defaultdict(list)
    for (key, x, time), diff in updates.items():
        groups[(key, time) if keyed else (key, x, time)].append(((key, x, time), diff))
    expected = Counter()
    for members in groups.values():
        came, left = (sum(max(0, sign * diff) for _, diff in members) for sign in (1, -1))
        paired = keyed and came == left == 1
        for (key, x, time), diff in members:
            if paired:
                kind = "update_postimage" if diff > 0 else "update_preimage"
            else:
                kind = "insert" if diff > 0 else "delete"
            expected[key, x, kind, time] += abs(diff)
    return expected


@pytest.mark.parametrize("keyed", [True, False], ids=["by key", "without a key"])
@settings(max_examples=60, deadline=None)
@given(updates=UPDATES)
def test_changes_are_those_of_a_replay(keyed, updates):
    query = change_data(COLUMNS, COLUMNS[:1] if keyed else (), as_sql(updates))
    shown = Counter()
    for key, x, kind, time, committed in ENGINE.query(query, "changes"):
        shown[key, x, kind, time] += 1
        assert committed.astimezone(timezone.utc) == datetime.fromtimestamp(time / 1000, timezone.utc)
    assert shown == replayed(updates, keyed)
