"""What changed in a shard since it was read, and where its history does not show that."""

from __future__ import annotations

import datetime
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dbt.adapters.mvsink.inputs import shard_changes
from dbt.adapters.mvsink.inputs.position import InputSides
from dbt.adapters.mvsink.inputs.protocol import sides_of_table
from dbt.adapters.mvsink.inputs.reference import Reference
from dbt.adapters.mvsink.inputs.shard_changes import sides_of_shard, unchanged_shard
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.shard import (
    Antichain,
    CompactionPlan,
    MemoryStorage,
    ShardClient,
    compact_with_pyarrow,
)
from dbt.adapters.mvsink.shard.state import Change
from dbt.adapters.mvsink.shard_sql import Layout
from tests.support.shards import SCHEMA, updates


class Shard:
    """With one row at time 0, read at version ``version``."""

    def __init__(self):
        self.storage = MemoryStorage("in")
        self.client = ShardClient(locate=lambda uri: self.storage)
        self.handle = self.client.open_writer("in", SCHEMA)
        self.append(0, ("a", 0, 1))
        self.version = self.handle.state().version

    def append(self, time: int, *rows, **options) -> None:
        upper = self.handle.state().upper
        self.handle.compare_and_append(updates(*rows), upper, Antichain.of(time + 1), **options)

    def compact(self) -> None:
        """All that is settled, in one batch."""
        state = self.handle.state()
        assert compact_with_pyarrow(self.handle, CompactionPlan(state.files, state.since))

    def foreign(self) -> None:
        """Another tool commits something."""
        self.storage.commit(self.handle.state().version + 1, Change("append"))

    def sides(
        self, before: int = 0, now: int | None = None, version: int | None = -1
    ) -> InputSides | EvaluateFully:
        state = self.handle.state()
        layout = Layout.of(self.handle, state)
        reference = Reference(
            "db.t",
            "in",
            state,
            layout,
            read=self.handle.columns_of,
            history=self.handle.history,
            find=self.handle.find,
            state_at=self.handle.state_at,
        )
        now = state.upper.stored() - 1 if now is None else now
        return sides_of_shard("db.t", reference, before, now, self.version if version == -1 else version)


def test_the_net_change_is_read_here():
    shard = Shard()
    shard.append(5, ("b", 5, 2), ("a", 5, -1))
    shard.append(7, ("b", 7, -1))
    sides = shard.sides()
    assert sides.read_change(SCHEMA).to_pylist() == [{"x": "b", "_mv_diff": 1}, {"x": "a", "_mv_diff": -1}]
    assert sides.read_change(pa.schema([])).to_pylist() == []
    assert shard.sides(now=5).read_change(pa.schema([])).to_pylist() == [{"_mv_diff": 1}]


def test_of_many_updates_those_that_a_condition_keeps_are_read_here(monkeypatch):
    shard = Shard()
    shard.append(5, ("b", 5, 2), ("a", 5, -1), ("c", 5, 1))
    only = pc.field("x") == "b"
    assert shard.sides().read_change(SCHEMA, only).to_pylist() == [{"x": "b", "_mv_diff": 2}]
    monkeypatch.setattr(shard_changes, "READ_UPDATES", 2)
    assert shard.sides().read_change(SCHEMA) is None, "three updates"
    assert shard.sides().read_change(SCHEMA, only).to_pylist() == [{"x": "b", "_mv_diff": 2}]
    assert shard.sides().read_change(SCHEMA, pc.field("x").is_valid()) is None, "three that it keeps"
    monkeypatch.setattr(shard_changes, "FILTERED_UPDATES", 2)
    assert shard.sides().read_change is None


def values_in(sides: InputSides, *values: str) -> list[list[str]]:
    """The rows with one of the values, now and before."""
    tables = sides.read_rows(SCHEMA, pc.field("x").isin(pa.array(values)))
    return [sorted(row["x"] for row in table.to_pylist()) for table in tables]


def test_rows_are_found_as_they_are_and_as_they_were():
    shard = Shard()
    shard.append(5, ("b", 5, 3), ("a", 5, -1), ("c", 5, 1))
    shard.append(7, ("b", 7, -1), ("a", 7, 1))
    assert values_in(shard.sides(), "a", "b") == [["a", "b", "b"], ["a"]]
    assert values_in(shard.sides(before=5), "a", "b", "c") == [["a", "b", "b", "c"], ["b", "b", "b", "c"]]
    assert values_in(shard.sides(before=5), "a") == [["a"], []], "it was deleted then"
    assert values_in(shard.sides(), "d") == [[], []]
    state = shard.handle.state()
    reference = Reference("db.t", "in", state, Layout.of(shard.handle, state), find=shard.handle.find)
    assert values_in(unchanged_shard("db.t", reference, 7), "b", "c") == [["b", "b", "c"]] * 2


def test_many_rows_and_old_dates_are_not_found_here(monkeypatch):
    shard = Shard()
    shard.append(5, ("b", 5, 3), ("c", 5, 1))
    monkeypatch.setattr(shard_changes, "READ_UPDATES", 2)
    everything = pc.field("x").is_valid()
    assert shard.sides().read_rows(SCHEMA, everything) is None, "three updates"
    assert shard.sides().read_rows(SCHEMA, pc.field("x") == "b") is None, "one of three rows"
    assert shard.sides().read_rows(SCHEMA, pc.field("x") == "c")[0].num_rows == 1
    monkeypatch.setattr(shard_changes, "SEARCHED_ROWS", 2)
    assert shard.sides().read_rows is None


def test_holds_and_properties_change_nothing():
    shard = Shard()
    shard.handle.set_properties({"a": "b"})
    shard.append(5, ("b", 5, 1))
    assert isinstance(shard.sides(), InputSides)


def test_new_columns_are_no_failure():
    """A model whose `incremental` is always evaluates its query once."""
    shard = Shard()
    schema = pa.schema([*SCHEMA, ("y", pa.int64())])
    shard.handle.evolve([], schema, shard.handle.state().files)
    changed = EvaluateFully(Why.COLUMNS, "db.t")
    assert shard.sides() == changed
    table = SimpleNamespace(columns=lambda version: ("x", "y")[:version])
    assert sides_of_table("db.t", table, 1, 2) == changed


def test_old_dates_are_read_by_spark():
    schema = pa.schema([("d", pa.date32())])
    storage = MemoryStorage("in")
    handle = ShardClient(locate=lambda uri: storage).open_writer("in", schema)
    days = pa.array([-200_000, 0], pa.date32())
    table = pa.table({"d": days, "_mv_time": [1, 2], "_mv_diff": [1, 1]})
    handle.compare_and_append(table, Antichain.of(0), Antichain.of(3))
    state = handle.state()
    reference = Reference(
        "db.t", "in", state, Layout.of(handle, state), read=handle.columns_of, history=handle.history
    )
    assert sides_of_shard("db.t", reference, 0, 2, state.version).read_change(schema) is None
    assert sides_of_shard("db.t", reference, 1, 2, state.version).read_change(schema).num_rows == 1
    reference = replace(reference, find=handle.find)
    sides = sides_of_shard("db.t", reference, 0, 2, state.version)
    assert sides.read_rows(schema, pc.field("d").is_valid()) is None
    assert sides.read_rows(schema, pc.field("d") == datetime.date(1970, 1, 1))[0].num_rows == 1


@pytest.mark.parametrize(
    ("act", "arguments", "reason"),
    [
        (lambda shard: None, {"version": None}, EvaluateFully(Why.NO_VERSION, "db.t")),
        (lambda shard: None, {"before": 3}, EvaluateFully(Why.EARLIER_TIME, "db.t")),
        (Shard.foreign, {}, EvaluateFully(Why.INPUT_REWRITTEN, "db.t")),
        (lambda shard: None, {"version": -50_000}, EvaluateFully(Why.MANY_COMMITS, "db.t", "50001")),
        (
            lambda shard: shard.storage.commits.clear(),
            {"version": 0},
            EvaluateFully(Why.LOG_GONE, "db.t"),
        ),
        (
            lambda shard: shard.handle.compare_and_append(
                pa.table(
                    {
                        "x": pa.array([None], pa.string()),
                        "_mv_time": [4],
                        "_mv_diff": [1],
                        "_mv_error": ["no"],
                    }
                ),
                Antichain.of(1),
                Antichain.of(5),
            ),
            {},
            EvaluateFully(Why.INPUT_ERRORS, "db.t"),
        ),
    ],
)
def test_where_the_history_does_not_show_it(act, arguments, reason):
    shard = Shard()
    act(shard)
    assert shard.sides(**arguments) == reason


GONE = EvaluateFully(Why.HISTORY_GONE, "db.t")


def day_later(*, meanwhile: bool, compacted: bool) -> Shard:
    """Its history begins at 5. ``meanwhile``: a row went at 3."""
    shard = Shard()
    if meanwhile:
        shard.append(3, ("a", 3, -1))
    shard.append(10, ("b", 10, 1), since=Antichain.of(5))
    if compacted:
        shard.compact()
    return shard


@pytest.mark.parametrize("compacted", [False, True])
def test_the_history_may_begin_after_the_last_run_if_nothing_happened_in_between(compacted):
    """Of a day, for example: the next day's run may begin some seconds later."""
    sides = day_later(meanwhile=False, compacted=compacted).sides()
    assert isinstance(sides, InputSides)
    assert sides.read_change(SCHEMA).to_pylist() == [{"x": "b", "_mv_diff": 1}]
    new, old = sides.read_rows(SCHEMA, pc.field("x").is_valid())
    assert (sorted(new["x"].to_pylist()), old["x"].to_pylist()) == (["a", "b"], ["a"])


@pytest.mark.parametrize("compacted", [False, True])
def test_the_history_may_never_begin_after_something_that_happened_since(compacted):
    """Also if a compaction has left nothing of it: a row and its deletion are no rows."""
    shard = day_later(meanwhile=True, compacted=compacted)
    assert len(shard.handle.read_updates(shard.handle.state().files)) == (1 if compacted else 3)
    assert shard.sides() == GONE
    assert isinstance(shard.sides(before=5), InputSides)


def test_many_commits_are_not_replayed(monkeypatch):
    shard = day_later(meanwhile=False, compacted=True)
    monkeypatch.setattr(shard_changes, "REPLAYED_COMMITS", 2)
    assert shard.sides() == GONE


def test_a_state_that_is_gone_says_nothing(monkeypatch):
    shard = day_later(meanwhile=False, compacted=True)
    monkeypatch.setattr(shard.handle.storage, "load_at", lambda version: None)
    assert shard.sides() == GONE
