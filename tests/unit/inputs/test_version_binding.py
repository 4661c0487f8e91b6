"""Versions of a Delta table bound to times in a companion shard: which times, who decides, what is
refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from deltalake import DeltaTable

from dbt.adapters.mvsink.inputs import (
    DeletionVectors,
    DeltaInput,
    HistoryGone,
    PendingTime,
    TableReplaced,
    companion_uri,
)
from dbt.adapters.mvsink.inputs.protocol import TableVersion
from dbt.adapters.mvsink.inputs.version_binding import assign_times, bind_versions, read_bindings
from tests.support.delta_tables import append
from tests.support.engines import NoEngine, ScriptedEngine
from tests.support.shards import at, client

TIMES = {  # unseen versions, upper, the run's time: what is bound
    "none": ([], 5, 9, {}),
    "one": ([7], 5, 9, {9: 7}),
    "as many as there are free times": ([5, 6, 7, 8, 9], 5, 9, {5: 5, 6: 6, 7: 7, 8: 8, 9: 9}),
    "the oldest share one": ([1, 2, 3, 4], 8, 9, {8: 3, 9: 4}),
    "one free time": ([1, 2, 3], 9, 9, {9: 3}),
    "the beginning of time": ([1, 2, 3], 0, 1, {0: 2, 1: 3}),
}


@pytest.mark.parametrize(("unseen", "upper", "time", "wanted"), TIMES.values(), ids=TIMES)
def test_times_of_unseen_versions(unseen, upper, time, wanted):
    assert assign_times(unseen, upper, time) == wanted


@dataclass
class Table:
    """What binding asks of a `VersionedTable`."""

    version: int = 0
    table_id: str = "one"
    refused: set[int] = field(default_factory=set)
    with_times: set[int] = field(default_factory=set)
    asked: int = 0
    location: str = "/t"
    id: str = "t"
    meanwhile: object = None
    earlier_id: str = ""  # of all versions but the newest

    def continues(self, bound):
        return bound.table_id == self.earlier_id

    def newest(self):
        self.asked += 1
        newest = TableVersion(self.version, self.table_id)
        if self.meanwhile:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return newest

    def zoned(self, version):
        return version in self.with_times

    def between(self, before, after):
        if after < before:
            raise TableReplaced("/t", before, after)
        return range(before + 1, after + 1)

    def check(self, version):
        if version in self.refused:
            raise DeletionVectors("/t", "part-0", version)


@pytest.fixture(params=["memory", "delta"])
def opened(request, tmp_path):
    return client(request.param, tmp_path)


def bindings(bound):
    return [(b.time, b.version.version) for b in read_bindings(bound.handle, bound.handle.state()).bound]


def run(opened, table, time):
    return bind_versions(table, time, opened, "c", NoEngine())


def test_the_first_binding_is_the_newest_version_at_the_runs_time(opened):
    bound = run(opened, Table(7), 100)
    assert bindings(bound) == [(100, 7)]
    assert (bound.frontier(), bound.handle.state().since) == (at(101), at(100))


def test_unseen_versions_are_bound_before_the_runs_time_and_an_idle_run_moves_the_frontier(opened):
    run(opened, Table(7), 100)
    run(opened, Table(9), 200)
    bound = run(opened, Table(9), 300)
    assert bindings(bound) == [(100, 7), (199, 8), (200, 9)]
    assert bound.frontier() == at(301)


def test_a_run_of_an_earlier_time_binds_nothing(opened):
    run(opened, Table(7), 100)
    table = Table(9)
    assert bindings(run(opened, table, 50)) == [(100, 7)]
    assert table.asked == 0


def test_the_loser_of_a_race_takes_the_winners_binding(opened):
    run(opened, Table(7), 100)
    winner, loser = Table(8), Table(7)
    loser.meanwhile = lambda: run(opened, winner, 200)
    bound = run(opened, loser, 190)  # it saw version 7; by now 8 is bound at 200
    assert bindings(bound) == [(100, 7), (200, 8)] and bound.frontier() == at(201)
    assert loser.asked == 1


def test_the_loser_of_a_race_at_an_earlier_time_binds_the_versions_after_the_winners(opened):
    run(opened, Table(7), 100)
    winner, loser = Table(8), Table(9)
    loser.meanwhile = lambda: run(opened, winner, 150)
    assert bindings(run(opened, loser, 200)) == [(100, 7), (150, 8), (200, 9)]
    assert loser.asked == 2


def test_history_is_released_only_behind_a_hold_and_bindings_survive_compaction(opened):
    run(opened, Table(0), 100)
    bound = run(opened, Table(1), 200)
    assert bound.handle.state().since == at(100)
    bound.hold("task", 150)
    for version, time in enumerate(range(300, 3000, 100), 2):
        bound = run(opened, Table(version), time)
    state = bound.handle.state()
    # it was compacted
    assert state.since == at(150) and len({file.batch_id for file in state.files}) < 20
    # in the base, which is rewritten only by its share: a time before since reads as since
    assert bindings(bound)[0] == (100, 0)
    assert bindings(bound)[1:3] == [(200, 1), (300, 2)]
    assert len(bindings(bound)) == 29
    with pytest.raises(
        HistoryGone,
        match=r"input t: cannot read the changes of \[150, 300\): the readable times are \[150, 2901\)",
    ):
        bound.changes(150, 300)
    with pytest.raises(HistoryGone, match=r"as of 120: the readable times are \[150, 2901\)"):
        bound.contents(120)
    with pytest.raises(HistoryGone, match=r"input t: history from 140 on is needed.*2901"):
        bound.hold("other", 140)


def test_an_unreadable_version_is_skipped_for_a_later_one(opened):
    run(opened, Table(0), 100)
    assert bindings(run(opened, Table(3, refused={1, 2}), 200)) == [(100, 0), (200, 3)]


def test_an_unreadable_newest_version_is_refused_and_nothing_is_bound(opened):
    bound = run(opened, Table(0), 100)
    with pytest.raises(DeletionVectors, match="part-0 of version 2"):
        run(opened, Table(2, refused={2}), 200)
    assert bound.frontier() == at(101)


@pytest.mark.parametrize("replacement", [Table(9, "two"), Table(3)], ids=["another id", "an older version"])
def test_a_table_that_was_created_again_is_refused(opened, replacement):
    run(opened, Table(7), 100)
    with pytest.raises(TableReplaced, match="/t was dropped and created again.*at version 7"):
        run(opened, replacement, 200)


def test_row_s_a_table_that_was_replaced_in_its_place_goes_on(opened):
    run(opened, Table(7), 100)
    bound = run(opened, Table(9, "two", earlier_id="one"), 200)
    assert bindings(bound) == [(100, 7), (199, 8), (200, 9)]
    assert bindings(run(opened, Table(10, "two"), 300))[-1] == (300, 10)


def test_pending_times_of_appends_need_no_engine(tmp_path):
    root = tmp_path / "t"
    append(root, 1)
    table = DeltaInput(str(root), "raw.t")
    opened, uri = client("delta", tmp_path), companion_uri("task", "raw.t/x")
    assert uri == "task/_inputs/raw.t~2Fx"
    bound = bind_versions(table, 100, opened, uri, NoEngine())
    append(root, 2)
    append(root, 3)
    bound = bind_versions(table, 200, opened, uri, NoEngine())
    assert bound.pending(101, 201) == [
        PendingTime(199, inserts=True, deletes=False),
        PendingTime(200, inserts=True, deletes=False),
    ]
    assert [column.name for column in bound.columns] == ["id"]
    assert "199L _mv_time" in bound.changes(101, 200) and "200L _mv_time" not in bound.changes(101, 200)
    assert bound.changes(101, 150).endswith("where false")


def test_the_engine_is_asked_once_whether_rewritten_files_gained_or_lost_rows(tmp_path):
    root = tmp_path / "t"
    append(root, 1, 2)
    table, opened = DeltaInput(str(root)), client("delta", tmp_path)
    bind_versions(table, 100, opened, "c", NoEngine())
    DeltaTable(root).delete("id = 1")
    append(root, 5)
    engine = ScriptedEngine(pending=lambda query: [(199, False, True, False)])
    bound = bind_versions(table, 200, opened, "c", engine)
    assert bound.pending(101, 201) == [PendingTime(199, False, True), PendingTime(200, True, False)]
    [(_, query)] = engine.asked
    assert "199L _mv_time" in query and "200L _mv_time" not in query
