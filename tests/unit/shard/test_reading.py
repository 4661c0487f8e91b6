"""The contract of docs/design/shard.md, second half: reading, since, leases, holds, generations,
compaction, garbage. On every storage.
"""

from __future__ import annotations

import shutil

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dbt.adapters.mvsink.shard import (
    Antichain,
    CompactionPlan,
    InvalidUsage,
    ShardClient,
    ShardReplaced,
    WriteHandle,
    compact_with_pyarrow,
)
from dbt.adapters.mvsink.shard.leases import leased_since
from dbt.adapters.mvsink.shard.updates import physical_schema
from tests.support.clocks import collect_at, storage_clock
from tests.support.shards import SCHEMA, at, live, read, rows, staged, updates

U = "s"
META = (("_mv_time", pa.int64()), ("_mv_diff", pa.int64()))


def test_reads_are_exact_between_since_and_upper(opened, writer):
    writer.compare_and_append(updates(("a", 1, 1), ("b", 3, 1), ("a", 4, -1)), at(0), at(6))
    writer.downgrade_since(at(2))
    with opened.open_reader(U) as reader:
        assert [rows(reader.snapshot(t)) for t in (2, 3, 4, 5)] == [
            [("a", 1)],
            [("a", 1), ("b", 1)],
            [("b", 1)],
            [("b", 1)],
        ]
        assert sorted((r["x"], r["_mv_time"], r["_mv_diff"]) for r in reader.updates(3, 6).to_pylist()) == [
            ("a", 4, -1),
            ("b", 3, 1),
        ]
        for outside in (1, 6):
            with pytest.raises(InvalidUsage) as error:
                reader.snapshot(outside)
            assert "Antichain(2)" in str(error.value) and "Antichain(6)" in str(error.value)


def test_listen_yields_only_times_after_as_of(opened, writer):
    writer.compare_and_append(updates(("a", 1, 1)), at(0), at(2))
    heard = opened.open_reader(U).listen(1)
    writer.compare_and_append(updates(("b", 2, 1)), at(2), at(3))
    table, frontier = next(heard)
    assert ([r["x"] for r in table.to_pylist()], frontier) == (["b"], at(3))
    writer.compare_and_append(updates(), at(3), at(None))
    assert next(heard)[1] == Antichain.empty()
    assert list(heard) == []


def test_a_readers_lease_holds_since_back(opened, writer):
    writer.compare_and_append(updates(("a", 1, 1)), at(0), at(6))
    reader = opened.open_reader(U)
    reader.snapshot(2)
    assert writer.downgrade_since(at(4)) == at(2)
    reader.expire()
    assert writer.downgrade_since(at(4)) == at(4)


def test_since_never_goes_back_and_never_passes_the_upper(writer):
    writer.compare_and_append(updates(), at(0), at(6))
    assert [writer.downgrade_since(at(t)) for t in (4, 2, 99)] == [at(4), at(4), at(6)]


def test_error_updates_come_back_and_never_fail_this_layer(opened, writer):
    table = updates((None, 1, 2)).append_column("_mv_error", pa.array(["boom"]))
    writer.compare_and_append(table, at(0), at(2))
    with opened.open_reader(U) as reader:
        assert reader.snapshot(1).to_pylist() == [{"x": None, "_mv_diff": 2, "_mv_error": "boom"}]
    with pytest.raises(InvalidUsage, match="'x'"):
        writer.batch(updates(("a", 2, 1)).append_column("_mv_error", pa.array(["boom"])), at(2), at(3))


def test_a_new_generation_replaces_everything_and_old_handles_say_so(opened, writer):
    other = opened.open_writer(U, SCHEMA)
    writer.compare_and_append(updates(("a", 5, 1)), at(0), at(9))
    schema = pa.schema([("y", pa.int64())])
    writer.replace([], schema, at(3), at(2))
    assert (writer.upper, writer.state().generation, writer.state().schema) == (at(3), 1, schema)
    with pytest.raises(ShardReplaced):
        other.state()
    assert opened.open_writer(U, schema).state().files == ()


def test_compaction_changes_no_readable_collection(opened, writer):
    for t in range(6):
        writer.compare_and_append(updates((f"{t % 2}", t, 1), ("gone", t, (-1) ** t)), at(t), at(t + 1))
    writer.downgrade_since(at(3))
    before = [read(opened, U, t) for t in (3, 4, 5)]
    state = writer.state()
    assert compact_with_pyarrow(writer, CompactionPlan(state.files, state.since))
    assert [read(opened, U, t) for t in (3, 4, 5)] == before
    assert writer.state().upper == state.upper and len(live(writer)) < 6


def test_a_compaction_that_lost_its_race_is_harmless(opened, writer):
    writer.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
    writer.compare_and_append(updates(("a", 1, 1)), at(1), at(2))
    plan = CompactionPlan(writer.state().files, at(0))
    assert compact_with_pyarrow(opened.open_writer(U, SCHEMA), plan)
    assert not compact_with_pyarrow(writer, plan)
    assert read(opened, U, 1) == [("a", 2)]


def test_garbage_collection_leaves_what_is_live(opened, writer):
    writer.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
    writer.batch(updates(("lost", 1, 1)), at(1), at(2)).to_transmittable()
    assert staged(writer) != live(writer)
    collect_at(writer, 4 * 10**12, staged_grace_ms=0)
    assert staged(writer) == live(writer) and read(opened, U, 0) == [("a", 1)]


def test_from_read(opened, writer):
    writer.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
    other = WriteHandle.from_read(opened.open_reader(U), "test")
    other.compare_and_append(updates(("b", 1, 1)), at(1), at(2))
    assert read(opened, U, 1) == [("a", 1), ("b", 1)]


def test_properties_are_kept_and_dropping_is_marked(writer):
    before = writer.set_properties({"owner": "me"})
    assert writer.set_properties({"owner": "me"}) == before
    writer.mark_dropped(5)
    assert (writer.state().properties["owner"], writer.state().dropped) == ("me", 5)


def test_listen_refuses_to_go_on_behind_since_and_its_lease_keeps_since_back(opened, writer):
    writer.compare_and_append(updates(("a", 1, 1)), at(0), at(5))
    reader = opened.open_reader(U)
    heard = reader.listen(2)
    assert next(heard)[1] == at(5)
    assert writer.downgrade_since(at(5)) == at(2)  # the lease of the first look
    reader.expire()
    writer.compare_and_append(updates(), at(5), at(9))
    assert writer.downgrade_since(at(8)) == at(8)
    with pytest.raises(InvalidUsage, match="Antichain\\(8\\)"):
        next(heard)


def test_an_append_moves_since_no_further_than_leases_and_holds_let_it(opened, writer):
    writer.compare_and_append(updates(), at(0), at(6), since=at(2))
    with opened.open_reader(U) as reader:
        reader.snapshot(3)
        writer.compare_and_append(updates(), at(6), at(9), since=at(5))
        assert writer.state().since == at(3)
    writer.hold("task", 4)
    writer.compare_and_append(updates(), at(9), at(10), since=at(8))
    assert writer.state().since == at(4)


def test_a_hold_is_durable_and_moves_until_it_is_released(opened, writer):
    writer.compare_and_append(updates(), at(0), at(9))
    assert writer.hold("one", 3) == at(0)
    writer.hold("two", 5)
    writer.expire()
    again = opened.open_writer(U, SCHEMA)
    assert (dict(again.state().holds), again.downgrade_since(at(9))) == ({"one": 3, "two": 5}, at(3))
    again.hold("one", 7)
    assert again.downgrade_since(at(9)) == at(5)
    with pytest.raises(InvalidUsage, match="since is Antichain\\(5\\) already"):
        again.hold("three", 4)
    again.release_hold("two")
    again.release_hold("two")
    assert (dict(again.state().holds), again.downgrade_since(at(9))) == ({"one": 7}, at(7))


def test_row_h_a_lease_that_cannot_be_read_holds_everything_and_goes_in_time(opened, writer):
    writer.compare_and_append(updates(), at(0), at(6))
    writer.storage.write_text("leases/broken", '{"since": ')
    assert writer.downgrade_since(at(4)) == at(0)
    with storage_clock(writer.storage, 4 * 10**12):
        leased_since(writer.storage)
    assert writer.storage.list_files("leases") == []


def test_a_new_generation_is_checked_before_it_is_committed(writer):
    batch = writer.batch(updates(("a", 5, 1)), at(5), at(6))
    for upper, since, message in ((4, 5, "after the upper"), (5, 5, "time 5")):
        with pytest.raises(InvalidUsage, match=message):
            writer.replace([batch], SCHEMA, at(upper), at(since))
    assert writer.state().generation == 0
    batch.delete()


def test_a_compaction_that_meets_a_new_generation_is_harmless(opened, writer):
    other = opened.open_writer(U, SCHEMA)
    writer.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
    files = other.state().files
    batch = other.batch(updates(("a", 0, 1)), at(0), at(1))
    writer.replace([], SCHEMA, at(1), at(0))
    assert not other.compact([batch], list(files)).applied
    assert staged(writer) - {file.path for file in files} == set()


def test_a_handle_notices_that_the_shard_was_created_again(tmp_path):

    one = ShardClient().open_writer(str(tmp_path / "s"), SCHEMA)
    one.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
    shutil.rmtree(tmp_path / "s")
    two = ShardClient().open_writer(str(tmp_path / "s"), SCHEMA)
    two.compare_and_append(updates(("b", 0, 1), ("c", 0, 1)), at(0), at(2))
    assert one.storage.load().shard_id == two.shard_id


def test_a_few_rows_of_a_file_and_what_an_engine_left(writer):
    batch = writer.batch(updates(*((name, 1, 1) for name in "abcde")), at(0), at(2))
    writer.compare_and_append_batch([batch], at(0), at(2))
    [file] = writer.state().files
    schema = pa.schema([("x", pa.string()), ("new", pa.int64())])
    assert writer.first_rows(file, schema, 2).to_pylist() == [
        {"x": "a", "new": None},
        {"x": "b", "new": None},
    ]
    assert writer.first_rows(file, schema, 9).num_rows == 5
    some = writer.find(file, schema, pc.field("x") > "b", 2)
    assert some.to_pylist() == [{"x": "c", "new": None}, {"x": "d", "new": None}]
    assert writer.find(file, schema, pc.field("_mv_time") > 1, 9).schema == schema
    directory, wanted = writer.stage(), pa.schema([("x", pa.string())])
    physical = physical_schema(SCHEMA)
    left = writer.storage.read(file, physical)
    for number, rows_ in enumerate((left, left.slice(0, 0), left.slice(3))):
        part = writer.storage.write_part(f"{directory.path}/part-{number:05d}.parquet", physical)
        part.write(rows_)
        part.close()
    assert writer.read_staged(directory, wanted).column("x").to_pylist() == [*"abcde", *"de"]
    directory.delete()


def test_columns_with_one_value_are_as_if_they_were_read(writer):
    """Those of a file whose statistics show it: all that a first load writes have one time, and the
    diff 1.
    """
    schema = pa.schema([*META, ("x", pa.string())])
    for number, times in enumerate(((1, 1, 1), (2, 3, 3))):
        appended = updates(*((x, time, 1) for x, time in zip("abc", times, strict=True)))
        writer.compare_and_append(appended, at(number * 2), at(number * 2 + 2 + number))
    wanted = pc.field("x") != "b"
    for file in writer.state().files:
        every = writer.storage.read(file, schema).filter(wanted)
        assert writer.find(file, schema, wanted, 9).equals(every)
        only = pa.schema(META)
        assert writer.find(file, only, wanted, 9).equals(every.select(only.names))
