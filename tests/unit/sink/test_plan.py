"""The plan of a run against every kind of shard: when it writes, where the upper goes, whether a
new generation begins.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.inputs.reference import References
from dbt.adapters.mvsink.refresh_schedule import RefreshSpec
from dbt.adapters.mvsink.shard import Antichain, DataFile, ShardState
from dbt.adapters.mvsink.shard_sql import creation_of
from dbt.adapters.mvsink.sink import (
    Gate,
    MaxChange,
    NeverRefreshed,
    OnSchemaChange,
    RunPlan,
    SchemaChanged,
    SinkRequest,
    run_timing,
)
from dbt.adapters.mvsink.sink.errors import HistoryWouldEnd
from dbt.adapters.mvsink.sink.run_plan import column_changes, compacted_after, next_since, planned

HOURLY, ONCE, COMMIT = RefreshSpec(((60, 0),)), RefreshSpec(ats=(660,)), RefreshSpec()
UNALIGNED = RefreshSpec(((60, None),))
FINAL = Antichain.empty()


def of(time):
    return Antichain.of(time)


FRESH = ShardState(0, UUID(int=1), pa.schema([("a", pa.int32())]), 7, created=999_999)
WAITING = replace(FRESH, since=of(660), upper=of(660), creation=620)
WRITTEN = replace(FRESH, since=of(540), upper=of(600), creation=500)
FINISHED = replace(WRITTEN, upper=FINAL)
DROPPED = replace(WRITTEN, dropped=1)

TIMING = {  # spec, T, state, flags: the plan
    "no shard": (HOURLY, 620, None, {}, RunPlan(620, None, of(660), begins=True)),
    "a shard that `--empty` made": (HOURLY, 620, FRESH, {}, RunPlan(620, None, of(660), begins=True)),
    "creation is a refresh": (UNALIGNED, 620, None, {}, RunPlan(620, 620, of(680), begins=True)),
    "waiting": (HOURLY, 630, WAITING, {}, RunPlan(620, None, of(660))),
    "waiting, due": (HOURLY, 670, WAITING, {}, RunPlan(620, 660, of(720))),
    "waiting, overdue": (HOURLY, 800, WAITING, {}, RunPlan(620, 780, of(840))),
    "waiting, the only refresh is late": (ONCE, 800, WAITING, {}, RunPlan(620, 660, FINAL)),
    "written": (UNALIGNED, 630, WRITTEN, {}, RunPlan(500, 620, of(680))),
    "finished": (ONCE, 800, FINISHED, {}, RunPlan(500, None, FINAL)),
    "a dropped shard begins again, and waits": (HOURLY, 620, DROPPED, {}, RunPlan(620, None, of(660), "dropped before", True)),
    "a full refresh writes at T": (HOURLY, 620, WRITTEN, {"full_refresh": True}, RunPlan(620, 620, of(660), "full refresh", True)),
    "also of a finished one": (ONCE, 800, FINISHED, {"full_refresh": True}, RunPlan(800, 800, FINAL, "full refresh", True)),
    "also on commit": (COMMIT, 620, WRITTEN, {"full_refresh": True}, RunPlan(620, 620, of(621), "full refresh", True)),
    "a full refresh without contents waits": (
        HOURLY, 630, WAITING, {"full_refresh": True}, RunPlan(630, None, of(660), "full refresh", True)),
    "a full refresh of nothing is none": (COMMIT, 620, FRESH, {"full_refresh": True}, RunPlan(620, 620, of(621), begins=True)),
    "another definition": (HOURLY, 620, WRITTEN, {"redefined": True}, RunPlan(620, 620, of(660), "definition changed", True)),
    "another definition without contents": (HOURLY, 630, WAITING, {"redefined": True}, RunPlan(620, None, of(660))),
    "an older shard does not tell its creation": (
        HOURLY, 620, replace(WRITTEN, creation=None), {}, RunPlan(999_999, None, of(660))),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "time", "state", "flags", "plan"), TIMING.values(), ids=TIMING)
def test_timing(spec, time, state, flags, plan):
    assert run_timing(spec, time, state, **flags) == plan


NEVER = {
    "no shard": (None, {}),
    "a dropped one": (DROPPED, {}),
    "without contents, past the refresh": (replace(WAITING, upper=of(700), since=of(700)), {}),
}


@pytest.mark.parametrize(("state", "flags"), NEVER.values(), ids=NEVER)
def test_a_shard_that_would_never_have_contents_is_refused(state, flags):
    with pytest.raises(NeverRefreshed, match="the specified refreshes would never happen") as error:
        run_timing(ONCE, 800, state, **flags)
    assert (error.value.last, error.value.now) == (660, 800)


def test_the_creation_is_the_runs_and_is_not_recomputed():
    assert creation_of(WRITTEN) == 500 and creation_of(replace(WRITTEN, creation=None)) == 999_999


def request(time=620, columns=("a",), **more):
    typed = tuple(Column(name, parse_type("int", name)) for name in columns)
    return SinkRequest("m", "select 1 as a", typed, time, time, 1000, References(), refresh=HOURLY, **more)


def test_changed_columns_wait_for_a_refresh_and_keep_the_creation():
    changed = request(columns=("b",))
    assert planned(changed, replace(WRITTEN, upper=of(660))) == RunPlan(500, None, of(660))
    assert planned(changed, WRITTEN) == RunPlan(
        500, 600, of(660), "columns changed (`b` int is new; `a` is gone)"
    )
    assert (
        planned(replace(changed, redefined=True), replace(WRITTEN, upper=of(660))).generation
        == "definition changed"
    )


SYNC, APPEND = OnSchemaChange.SYNC_ALL_COLUMNS, OnSchemaChange.APPEND_NEW_COLUMNS
GATE = Gate(MaxChange(rows=1))
# the query's columns, on_schema_change, state, more of the request: the columns added in place, or
# why a generation
IN_PLACE = {
    "none new": ("a", SYNC, WRITTEN, {}, "", ""),
    "one new": ("ab", SYNC, WRITTEN, {}, "b", ""),
    "in the query's order": ("cab", SYNC, WRITTEN, {}, "cb", ""),
    "one new, one gone": ("b", SYNC, WRITTEN, {}, "", "columns changed (`b` int is new; `a` is gone)"),
    "one gone stays, one new": ("b", APPEND, WRITTEN, {}, "b", ""),
    "one gone stays": ("", APPEND, WRITTEN, {}, "", ""),
    "a wider type": ("ab", SYNC, replace(WRITTEN, schema=pa.schema([("a", pa.int8())])), {}, "ab", ""),
    "another type": ("ab", SYNC, replace(WRITTEN, schema=pa.schema([("a", pa.int64())])), {}, "",
                     "columns changed (`b` int is new; `a` was bigint, is int)"),
    "names that differ by case alone": ("A", APPEND, WRITTEN, {}, "", "columns changed (`A` int is new)"),
    "no history to keep": ("ab", SYNC, WAITING, {"time": 670}, "", "columns changed (`b` int is new)"),
    "a gate": ("ab", SYNC, WRITTEN, {"gate": GATE}, "b", ""),
    "a gate that lets anything pass": ("ab", SYNC, WRITTEN, {"gate": replace(GATE, accepted=True)}, "b", ""),
    "no refresh is due": ("ab", SYNC, replace(WRITTEN, upper=of(660)), {}, "", ""),
    "a finished shard": ("ab", SYNC, FINISHED, {}, "", ""),
    "a full refresh": ("ab", SYNC, WRITTEN, {"full_refresh": True}, "", "full refresh"),
    "another definition": ("ab", SYNC, WRITTEN, {"redefined": True}, "", "definition changed"),
    "dropped before": ("ab", SYNC, DROPPED, {}, "", "dropped before"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "policy", "state", "more", "added", "generation"), IN_PLACE.values(), ids=IN_PLACE
)
def test_which_columns_are_added_in_place(columns, policy, state, more, added, generation):
    plan = planned(request(columns=tuple(columns), on_schema_change=policy, **more), state)
    assert ("".join(column.name for column in plan.evolved), plan.generation) == (added, generation)


DAYS = 86_400_000
ENDS = {  # since, upper, the run's time, retain_history, in days: how much a new generation would end
    "a week": (0, 7, 7, 30, 7.0),
    "what the run would release anyway": (0, 7, 7, 1, None),
    "a day": (6, 7, 7, 30, None),
    "a daily view that keeps a day: final until tomorrow": (5, 7, 6, 1, None),
    "a weekly view that keeps a month": (5, 20, 13, 30, 8.0),
    "a finished one": (5, None, 9, 30, 4.0),
}


@pytest.mark.parametrize(("since", "upper", "time", "retain", "days"), ENDS.values(), ids=ENDS)
def test_how_much_history_a_change_of_columns_may_end(since, upper, time, retain, days):
    until = FINAL if upper is None else of(upper * DAYS)
    state = replace(FRESH, schema=pa.schema([("a", pa.string())]), since=of(since * DAYS), upper=until)
    asked = replace(request(time=time * DAYS), retain_history=retain * DAYS)
    if days is None:
        column_changes(asked, state)
        return
    with pytest.raises(HistoryWouldEnd, match=f"would end {days} days of history"):
        column_changes(asked, state)
    column_changes(replace(asked, on_schema_change=OnSchemaChange.NEW_GENERATION), state)


def test_what_is_rewritten_to_add_columns():
    state = replace(WRITTEN, files=(file(540), file(550, "batches/y/part-0.parquet")))
    wider = request(columns=("a", "b"))
    assert compacted_after(wider, state, planned(wider, state), 0) == state.files
    assert compacted_after(request(), state, planned(request(), state), 0) == ()


@pytest.mark.parametrize("upper", [600, 660])
@pytest.mark.parametrize("redefined", [True, False])
def test_changed_columns_fail_at_once_where_they_are_to_fail(upper, redefined):
    failing = request(columns=("b",), on_schema_change=OnSchemaChange.FAIL, redefined=redefined)
    with pytest.raises(SchemaChanged):
        planned(failing, replace(WRITTEN, upper=of(upper)))


def file(time, path="batches/x/part-0.parquet"):
    return DataFile(path, 1, 1, time, time)


SINCE = {  # write time, since before, newest update, retain_history: since after
    "it trails T": (600, 0, 540, 100, 521),
    "it does not pass the write time": (600, 0, 540, 5, 600),
    "it does not go back": (600, 590, 540, 100, 590),
    "without a write it does not pass the newest update": (None, 0, 540, 5, 540),
    "of a write that is not known": (None, 530, None, 5, 530),
    "rows that no append can have written do not count": (None, 530, 700, 5, 530),
}


@pytest.mark.parametrize(("write", "since", "newest", "retain", "after"), SINCE.values(), ids=SINCE)
def test_since(write, since, newest, retain, after):
    state = replace(
        WRITTEN, since=of(since), files=() if newest is None else (file(newest), file(599, "loose.parquet"))
    )
    wanted = replace(request(), retain_history=retain)
    assert next_since(wanted, state, RunPlan(500, write, of(660))) == of(after)
