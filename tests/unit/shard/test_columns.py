"""Columns that are added in place: `WriteHandle.evolve`, on every storage."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.shard import (
    CompactionPlan,
    InvalidUsage,
    SchemaMismatch,
    ShardClient,
    UpperMismatch,
    checkpoint,
    compact_with_pyarrow,
)
from dbt.adapters.mvsink.shard import commit_loop as machine
from tests.support.clocks import collect_at
from tests.support.shards import SCHEMA, at, evolve, live, read, staged, updates, widened

U = "s"


@pytest.fixture
def written(writer):
    """`a` at 1, `b` comes at 4 and `a` goes; readable from 2."""
    writer.compare_and_append(updates(("a", 1, 1)), at(0), at(4))
    writer.compare_and_append(updates(("b", 4, 2), ("a", 4, -1)), at(4), at(6), since=at(2))
    return writer


def rows_at(opened, time):
    with opened.open_reader(U) as reader:
        return sorted(
            (
                (r["x"], r.get("y", "no such column"), r["_mv_diff"])
                for r in reader.snapshot(time).to_pylist()
            ),
            key=repr,
        )


def test_history_stays_and_is_null_in_the_new_column(opened, written):
    written.hold("task", 3)
    before = written.state()
    assert evolve(written, "y")
    after = written.state()
    assert (after.upper, after.since, after.generation, dict(after.holds)) == (at(6), at(2), 0, {"task": 3})
    assert after.shard_id == before.shard_id and after.schema.names == ["x", "y"]
    assert staged(written) != live(written) == {file.path for file in after.files}
    assert rows_at(opened, 2) == [("a", None, 1)] and rows_at(opened, 5) == [("b", None, 2)]
    with opened.open_reader(U) as reader:
        changes = reader.updates(4, 6).to_pylist()
    assert sorted((r["x"], r["y"], r["_mv_time"], r["_mv_diff"]) for r in changes) == [
        ("a", None, 4, -1),
        ("b", None, 4, 2),
    ]


def test_the_next_append_has_the_column_and_the_past_stays_as_it_was(opened, written):
    evolve(written, "y")
    written.compare_and_append(widened(updates(("b", 7, -1), ("b", 7, 1)), y=[None, "new"]), at(6), at(8))
    assert rows_at(opened, 5) == [("b", None, 2)]
    assert rows_at(opened, 7) == [("b", "new", 1), ("b", None, 1)]


def test_the_log_shows_the_evolution(written):
    evolve(written, "y")
    commit = written.history()[-1]
    assert (commit.kind, commit.lower, commit.upper, commit.writer_id) == (
        "evolve",
        None,
        None,
        str(written.writer_id),
    )


def test_a_shard_without_files_gets_columns_too(opened, writer):
    writer.compare_and_append(updates(), at(0), at(3))
    assert evolve(writer, "y") and writer.schema.names == ["x", "y"]
    writer.compare_and_append(widened(updates(("a", 3, 1)), y=["new"]), at(3), at(4))
    assert rows_at(opened, 3) == [("a", "new", 1)]


OLD = {
    "compare_and_append": lambda handle, batch: handle.compare_and_append(updates(("c", 6, 1)), at(6), at(7)),
    "a batch staged before": lambda handle, batch: handle.compare_and_append_batch([batch()], at(6), at(7)),
    "append_batch": lambda handle, batch: handle.append_batch(batch(), at(6), at(7)),
    "a batch handed over": lambda handle, batch: handle.compare_and_append_batch(
        [handle.batch_from_transmittable_batch(batch().to_transmittable())], at(6), at(7)
    ),
}


@pytest.mark.parametrize("loaded", [False, True], ids=["not loaded yet", "loaded"])
@pytest.mark.parametrize("use", OLD.values(), ids=OLD)
def test_what_was_meant_for_the_old_columns_is_refused_whether_the_handle_has_loaded_the_new_ones_or_not(
    opened, written, use, loaded
):
    old = opened.open_writer(U, SCHEMA)
    batch = old.batch(updates(("c", 6, 1)), at(6), at(7))
    assert evolve(written, "y")
    if loaded:
        old.state()
    with pytest.raises(SchemaMismatch, match="`y` string is missing"):
        use(old, lambda: batch)
    old.expire()
    collect_at(written, 4 * 10**12, staged_grace_ms=0, removed_grace_ms=0)
    assert staged(written) == live(written)
    assert rows_at(opened, 5) == [("b", None, 2)] and written.state().upper == at(6)


def test_a_mismatch_of_the_upper_comes_first(opened, written):
    old = opened.open_writer(U, SCHEMA)
    evolve(written, "y")
    written.compare_and_append(widened(updates(), y=[]), at(6), at(9))
    with pytest.raises(UpperMismatch):
        old.compare_and_append(updates(("c", 6, 1)), at(6), at(7))


def test_a_part_written_directory_is_of_the_columns_it_was_begun_for(opened, written):
    old = opened.open_writer(U, SCHEMA)
    builder, directory = old.builder(at(6)), old.stage()
    evolve(written, "y")
    old.state()
    batch = builder.add(updates(("c", 6, 1))).finish(at(7))
    assert old.schema.names == ["x", "y"] and (batch.schema.names, directory.schema.names) == (["x"], ["x"])
    batch.delete()


def test_other_handles_go_on(opened, written):
    old, reader = opened.open_writer(U, SCHEMA), opened.open_reader(U)
    evolve(written, "y")
    assert old.fetch_recent_upper() == at(6) and old.hold("task", 2) == at(2)
    old.release_hold("task")
    # nothing is in it, so nothing is of the old columns
    old.compare_and_append_batch([], at(6), at(7))
    assert old.downgrade_since(at(3)) == at(3)
    assert reader.snapshot(5).to_pylist()[0] == {"x": "b", "y": None, "_mv_diff": 2, "_mv_error": None}
    old.compare_and_append(widened(updates(("c", 7, 1)), y=["new"]), at(7), at(8))
    assert rows_at(opened, 7) == [("b", None, 2), ("c", "new", 1)]


def test_opening_is_by_the_new_columns(opened, written):
    evolve(written, "y")
    with pytest.raises(SchemaMismatch, match="`y` string is missing"):
        opened.open_writer(U, SCHEMA)
    assert opened.open_writer(U, pa.schema([*SCHEMA, ("y", pa.string())])).shard_id == written.shard_id


def test_opening_whatever_the_columns_are(opened, written):
    evolve(written, "y")
    assert opened.open_or_create(U, SCHEMA).schema.names == [*SCHEMA.names, "y"]


def test_opening_whatever_the_columns_are_of_one_that_another_creates_at_that_moment(opened, monkeypatch):
    """Neither fails, and both have the shard and the columns of the faster one."""
    others = pa.schema([*SCHEMA, ("y", pa.string())])
    find, faster = machine.find, []

    def found_nothing(storage, within=None):
        state = find(storage, within)
        if state is None and not faster:
            faster.append(None)
            faster[0] = opened.open_or_create("new", others)
        return state

    monkeypatch.setattr(machine, "find", found_nothing)
    handle = opened.open_or_create("new", SCHEMA)
    assert handle.shard_id == faster[0].shard_id
    assert handle.schema.names == others.names


FASTER = {
    "an append": lambda other: other.compare_and_append(updates(("c", 6, 1)), at(6), at(7)),
    "a compaction": lambda other: compact_with_pyarrow(other, CompactionPlan(other.state().files, at(2))),
    "the same columns": lambda other: evolve(other, "y"),
    "other columns": lambda other: evolve(other, "z"),
}


@pytest.mark.parametrize("faster", FASTER.values(), ids=FASTER)
def test_a_lost_race_changes_nothing_and_leaves_nothing(opened, written, faster):
    observed = written.state()
    other = opened.open_writer(U, SCHEMA)
    faster(other)
    before, files = other.state(), staged(other)
    assert not evolve(written, "y", observed)
    assert written.state() == before and staged(written) == files


def test_an_upper_that_moved_is_no_race(opened, written):
    observed = written.state()
    opened.open_writer(U, SCHEMA).compare_and_append(updates(), at(6), at(9))
    assert evolve(written, "y", observed) and written.state().upper == at(9)


def test_what_is_no_addition_is_refused(written):
    with pytest.raises(SchemaMismatch, match="`x` string is missing"):
        written.evolve([], pa.schema([("y", pa.string())]), written.state().files)
    assert written.state().schema == SCHEMA and read_names(written) == ["x"]


def read_names(handle):
    return [name for name in handle.schema.names if not name.startswith("_mv_")]


def test_a_crash_before_the_commit_leaves_staged_files_that_are_collected(opened, written):
    before, files = written.state(), staged(written)
    written.evolve = lambda batches, *_: (
        [batch.to_transmittable() for batch in batches] and Killed
    )  # its files have no owner any more
    evolve(written, "y")
    assert staged(written) > files and written.state() == before
    collect_at(opened.open_writer(U, SCHEMA), 4 * 10**12, staged_grace_ms=0)
    assert staged(written) == files and read(opened, U, 5) == [("b", 2)]


class Killed:
    applied = False


def test_columns_survive_a_checkpoint(tmp_path):
    uri = str(tmp_path / "s")
    with ShardClient().open_writer(uri, SCHEMA) as handle:
        handle.compare_and_append(updates(("a", 1, 1)), at(0), at(2))
        handle.set_properties({"owner": "me"})
        evolve(handle, "y")
        checkpoint(handle)
        before = handle.state()
    again = ShardClient().open_reader(uri).state()
    assert again == before and again.properties["owner"] == "me" and again.schema.names == ["x", "y"]


def test_a_reserved_name_is_no_column(written):
    with pytest.raises(InvalidUsage, match="_mv_extra"):
        evolve(written, "_mv_extra")


@pytest.mark.parametrize("commit", ["a new generation", "added columns"])
def test_row_f_files_of_other_columns_than_a_commit_makes_are_refused(tmp_path, commit):
    wide = pa.schema([*SCHEMA, ("late", pa.string())])
    with ShardClient().open_writer(str(tmp_path / "s"), SCHEMA) as handle:
        batch = handle.batch(updates(("a", 0, 1)), at(0), at(1))
        with pytest.raises(SchemaMismatch, match="late"):
            if commit == "added columns":
                handle.evolve([batch], wide, [])
            else:
                handle.replace([batch], wide, at(1), at(0))
        assert handle.state().version == 0
        batch.delete()
