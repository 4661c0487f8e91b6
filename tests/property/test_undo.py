"""Undo against a replay without the undone run: random histories, on DuckDB."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from dbt.adapters.mvsink.refresh_schedule import RefreshSpec
from dbt.adapters.mvsink.shard import ShardClient, compact_with_pyarrow, compaction_due
from dbt.adapters.mvsink.shard_sql.properties import Pause, pause_of
from dbt.adapters.mvsink.sink import Gate, GateFailed, MaxChange
from dbt.adapters.mvsink.sink.undoing import TakenAway, UndoRequest, undo
from tests.support.seldom import often
from tests.support.session_engine import T0, Model, open_shard

HISTORIES, RUNS = 16, 6
BY = Pause("alice", T0, "undone")


def query(rows):
    listed = ", ".join(f"({x}, {y!r})" for (x, y), n in sorted(rows.items()) for _ in range(n))
    typed = f"select cast(x as int) x, cast(y as string) y from values {listed or '(0, null)'} t(x, y)"
    return typed + ("" if listed else " where false")


def contents(model):
    with ShardClient().open_reader(model.uri) as reader:
        rows = reader.snapshot(reader.state().upper.stored() - 1).to_pylist()
    return Counter({(row["x"], row["y"]): row["_mv_diff"] for row in rows})


def changed(chance, rows):
    """Some rows come, some go, in copies; few different ones, so that runs undo each other."""
    after = Counter(rows)
    for _ in range(chance.randrange(4)):
        after[chance.randrange(3), chance.choice("ab")] += chance.randrange(1, 3)
    for row in list(after):
        if chance.random() < 0.6:
            after[row] = chance.choice([0, chance.randrange(after[row] + 1)])
    return +after


def difference(after, before):
    """``after - before``, also where that is negative."""
    return Counter({row: after[row] - before[row] for row in {*after, *before} if after[row] != before[row]})


def request(model, intervals, **changes):
    values = {"time": next(model.clock), "reason": "undo", "pause": BY, "invocation_id": "u"}
    return UndoRequest(model.name, tuple(intervals), **{**values, **changes})


def written(root, chance):
    """A model after some runs; by run its interval and its effect."""
    model, rows, runs = Model(None, root), Counter(), []
    for number in range(RUNS):
        before, rows = rows, changed(chance, rows) + (Counter({(9, "z"): 2}) if number == 0 else Counter())
        outcome = model.run(query(rows))
        if number:
            runs.append(((outcome.lower.stored(), outcome.upper.stored()), difference(rows, before)))
        with open_shard(model.uri, None) as handle:
            plan = compaction_due(handle.state())
            if plan and chance.random() < 0.5:
                compact_with_pyarrow(handle, plan)
    return model, rows, runs


@pytest.mark.parametrize("seed", often(range(HISTORIES), *range(HISTORIES // 2)))
def test_an_undo_is_a_replay_without_the_run_or_it_is_refused(tmp_path, seed):
    chance = random.Random(seed)
    model, rows, runs = written(tmp_path, chance)
    chosen = sorted(chance.sample(range(len(runs)), chance.choice([1, 1, 2, len(runs)])))
    effect = Counter()
    for number in chosen:
        effect = Counter({r: effect[r] + runs[number][1][r] for r in {*effect, *runs[number][1]}})
    expected = difference(rows, effect)
    negative = {row: diff for row, diff in expected.items() if diff < 0}
    asked = request(model, [runs[number][0] for number in chosen])
    with open_shard(model.uri, None) as handle:
        before = handle.state()
        if negative:
            with pytest.raises(TakenAway) as refused:
                undo(asked, handle, model.engine())
            assert (refused.value.rows, refused.value.copies) == (len(negative), -sum(negative.values()))
            assert (handle.state(), contents(model)) == (before, rows)
            return
        done = undo(asked, handle, model.engine())
        net = {row: -diff for row, diff in effect.items() if diff}
        assert done.counts.inserted == sum(diff for diff in net.values() if diff > 0)
        assert done.counts.deleted == -sum(diff for diff in net.values() if diff < 0)
        assert contents(model) == expected
        assert done.committed == bool(net) == (pause_of(handle.state()) is not None)
    model.run(query(rows))  # the query says otherwise: the next run brings everything back
    assert contents(model) == rows


@pytest.fixture
def model(tmp_path):
    model = Model(None, tmp_path)
    for rows in ({(1, "a"): 2, (2, "b"): 1}, {(1, "a"): 1, (3, "c"): 3}):
        model.last = model.run(query(Counter(rows)))
    return model


def of_last(model, **changes):
    return request(model, [(model.last.lower.stored(), model.last.upper.stored())], **changes)


def test_a_dry_run_writes_nothing_and_says_what_the_gate_would_say(model):
    with open_shard(model.uri, None) as handle:
        before = handle.state()
        files = handle.files_in()
        shown = undo(of_last(model, dry_run=True, gate=Gate(MaxChange(rows=2))), handle, model.engine())
        assert (shown.counts.inserted, shown.counts.deleted) == (2, 3)
        assert "max_change allows 2" in shown.gate and not shown.committed
        assert (handle.state(), handle.files_in()) == (before, files)


def test_the_gate_refuses_an_undo_and_nothing_is_written(model):
    with open_shard(model.uri, None) as handle:
        before, files = handle.state(), handle.files_in()
        with pytest.raises(GateFailed):
            undo(of_last(model, gate=Gate(MaxChange(rows=2))), handle, model.engine())
        assert (handle.state(), handle.files_in()) == (before, files)
        undo(of_last(model, gate=Gate(MaxChange(rows=2), accepted=True)), handle, model.engine())
        assert pause_of(handle.state()) == BY
    newest = [commit for commit in open_shard(model.uri, None).history() if commit.kind == "append"][-1]
    assert (newest.note.purpose, newest.note.invocation_id) == ("undo; by alice", "u")
    assert (newest.note.rows_inserted, newest.note.rows_deleted) == (2, 3)


def test_what_is_final_until_a_refresh_cannot_be_undone_before(model):
    hourly = RefreshSpec(everies=((3_600_000, 0),))
    with open_shard(model.uri, None) as handle:
        upper = handle.state().upper.stored()
        with pytest.raises(Exception, match="cannot be undone now.*mvsink hold"):
            undo(of_last(model, time=upper - 1), handle, model.engine())
        due = undo(of_last(model, time=upper + 3 * 3_600_000, refresh=hourly), handle, model.engine())
        assert due.time % 3_600_000 == 0 and upper <= due.time < handle.upper.stored()
        assert handle.upper.stored() % 3_600_000 == 0


def test_a_run_that_was_faster_wins_and_the_model_is_not_paused(model, monkeypatch):
    from dbt.adapters.mvsink.sink import undoing as module

    def written_meanwhile(handle, wanted, pause=module.pause):
        pause(handle, wanted)
        model.run(query(Counter({(7, "x"): 1})))

    with open_shard(model.uri, None) as handle:
        monkeypatch.setattr(module, "pause", written_meanwhile)
        with pytest.raises(module.ChangedMeanwhile):
            undo(of_last(model), handle, model.engine())
        assert pause_of(handle.state()) is None and contents(model) == Counter({(7, "x"): 1})
