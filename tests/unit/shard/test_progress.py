"""Progress: recorded with contents, kept by compaction, lost by every other change of files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbt.adapters.mvsink.shard import Progress, compact_with_pyarrow, files_number, untouched
from dbt.adapters.mvsink.shard.state import Change, CompactionPlan
from tests.support.shards import SCHEMA, at, client, updates

POSITIONS = {"s/0": 7, "s/0/files": 3}


@pytest.fixture(params=["delta", "memory"])
def handle(request, tmp_path):
    return client(request.param, tmp_path).open_writer("shard", SCHEMA)


def write(handle, lower, *rows, progress=None):
    """Contents computed from something."""
    upper = at(lower + 1)
    batch = handle.batch(updates(*rows), at(lower), upper)
    handle.compare_and_append_batch([batch], at(lower), upper, progress=progress)


def known(handle, plan=5, verified=None):
    return Progress(plan, POSITIONS, files_number(handle.state().files), verified)


def test_it_is_read_back_by_another_handle(handle):
    write(handle, 0, ("a", 0, 1), progress=known(handle, verified=4))
    state = handle.state()
    assert (state.plan, state.verified, untouched(state)) == (5, 4, True)
    assert {key: handle.progress(key) for key in (*POSITIONS, "other")} == {**POSITIONS, "other": None}


def test_moving_the_upper_keeps_it_and_may_renew_it(handle):
    write(handle, 0, ("a", 0, 1), progress=known(handle))
    handle.compare_and_append_batch([], at(1), at(2))
    assert untouched(handle.state())
    handle.compare_and_append_batch([], at(2), at(3), progress=known(handle, plan=6, verified=9))
    assert (handle.state().plan, handle.state().verified, untouched(handle.state())) == (6, 9, True)


def test_runs_are_counted_from_the_last_verification(handle):
    counted = [handle.state().unverified]
    for number, verified in enumerate([None, 7, None, None, 8, None]):
        progress = known(handle, verified=verified)
        handle.compare_and_append_batch([], at(number), at(number + 1), progress=progress)
        counted.append(handle.state().unverified)
    assert counted == [0, 1, 0, 1, 2, 0, 1]


def test_the_time_of_runs_is_added_up_from_the_last_verification_that_was_due(handle):
    observed = []
    for number, (verifying, spent, verified) in enumerate(
        [(900, None, 1), (None, 40, None), (None, 50, 7), (1_000, None, 8), (None, 5, None)]
    ):
        progress = replace(known(handle, verified=verified), verifying=verifying, spent=spent)
        handle.compare_and_append_batch([], at(number), at(number + 1), progress=progress)
        observed.append((handle.state().verifying, handle.state().spent))
    assert observed == [(900, 0), (900, 40), (900, 90), (1_000, 0), (1_000, 5)]


def test_an_append_without_progress_makes_the_origin_unknown(handle):
    write(handle, 0, ("a", 0, 1), progress=known(handle))
    write(handle, 1, ("b", 1, 1))
    assert (handle.state().plan, untouched(handle.state())) == (0, False)


def test_progress_on_other_files_than_the_live_ones_is_unknown(handle):
    before = known(handle)
    write(handle, 0, ("a", 0, 1))
    write(handle, 1, ("b", 1, 1), progress=before)
    assert (handle.state().plan, untouched(handle.state())) == (0, False)


@pytest.mark.parametrize("foreign", [False, True])
def test_compaction_keeps_it_unless_another_tool_wrote(handle, foreign):
    write(handle, 0, ("a", 0, 1), progress=known(handle))
    write(handle, 1, ("b", 1, 1), progress=known(handle))
    handle.downgrade_since(at(1))
    if foreign:
        state = handle.state()
        handle.storage.commit(state.version + 1, Change(kind="foreign", removes=state.files[:1]))
    state = handle.state()
    assert untouched(state) is not foreign
    compact_with_pyarrow(handle, CompactionPlan(state.files, at(1)))
    assert untouched(handle.state()) is not foreign


def test_a_new_generation_has_its_own(handle):
    write(handle, 0, ("a", 0, 1), progress=known(handle))
    batch = handle.batch(updates(("z", 0, 1)), at(0), at(1))
    handle.replace([batch], SCHEMA, at(1), at(0), progress=known(handle, plan=8))
    assert (handle.state().plan, untouched(handle.state())) == (8, True)
    batch = handle.batch(updates(("z", 0, 1)), at(0), at(1))
    handle.replace([batch], SCHEMA, at(1), at(0))
    assert (handle.state().plan, untouched(handle.state())) == (0, False)


def test_a_hold_and_properties_keep_it(handle):
    write(handle, 0, ("a", 0, 1), progress=known(handle))
    handle.hold("reader", 0)
    handle.set_properties({"k": "v"})
    assert untouched(handle.state())
