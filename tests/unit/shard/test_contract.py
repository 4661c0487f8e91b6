"""The contract of docs/design/shard.md, rule by rule, on every storage: the real one, the
in-memory one, and both with faults injected.
"""

from __future__ import annotations

import gc
import json
import warnings

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.shard import Antichain, InvalidUsage, SchemaMismatch, StorageError, UpperMismatch
from dbt.adapters.mvsink.shard.upkeep import maintenance_due
from tests.support.shards import SCHEMA, at, live, read, staged, updates

U = "s"
META = (("_mv_time", pa.int64()), ("_mv_diff", pa.int64()))


def test_a_fresh_shard_has_since_and_upper_zero(opened, writer):
    reader = opened.open_reader(U)
    assert (reader.since, reader.upper, writer.upper) == (at(0), at(0), at(0))


def test_opening_twice_gives_the_same_shard(opened, writer):
    again = opened.open_writer(U, SCHEMA)
    assert again.shard_id == writer.shard_id and again.writer_id != writer.writer_id


def test_opening_with_another_schema_names_the_columns_that_differ(opened, writer):
    with pytest.raises(SchemaMismatch) as error:
        opened.open_writer(U, pa.schema([("x", pa.int64()), ("y", pa.string())]))
    assert "`y`" in str(error.value) and "`x` is string in the shard, given int64" in str(error.value)


def test_a_reserved_column_name_is_refused(opened):
    with pytest.raises(InvalidUsage, match="_mv_extra"):
        opened.open_writer("t", pa.schema([("_mv_extra", pa.string())]))


def test_reading_what_is_not_there(opened):
    with pytest.raises(InvalidUsage, match="there is no shard at .*nowhere"):
        opened.open_reader("nowhere")


def test_rule_1_times_lie_within_the_bounds(writer):
    for rows_, lower, upper in [([("a", 0, 1)], 1, 5), ([("a", 5, 1)], 1, 5), ([("a", 9, 1)], 1, 5)]:
        with pytest.raises(InvalidUsage) as error:
            writer.batch(updates(*rows_), at(lower), at(upper))
        assert f"time {rows_[0][1]}" in str(error.value) and "[Antichain(1), " in str(error.value)
    assert staged(writer) == set()


def test_rule_1_lower_is_before_upper_but_for_an_empty_batch(writer):
    for lower, upper in [(3, 3), (4, 3)]:
        with pytest.raises(InvalidUsage):
            writer.batch(updates(("a", 3, 1)), at(lower), at(upper))
    writer.batch(updates(), at(3), at(3)).delete()


def test_rule_2_the_example_of_the_design(opened, writer):
    first = writer.batch(updates(("1", 1, 1), ("2", 2, 1), ("4", 4, 1)), at(0), at(5))
    second = writer.batch(updates(("1", 1, 1), ("2", 2, 1), ("3", 3, 1)), at(0), at(4))
    writer.compare_and_append_batch([first, second], at(0), at(4))
    assert read(opened, U, 3) == [("1", 2), ("2", 2), ("3", 1)]
    assert staged(writer) == live(writer)  # what was cut away is gone, physically


def test_rule_2_an_append_may_not_be_wider_than_the_batch(writer):
    batch = writer.batch(updates(("a", 2, 1)), at(1), at(4))
    for lower, upper in [(0, 4), (1, 5)]:
        with pytest.raises(InvalidUsage, match="wider"):
            writer.compare_and_append_batch([batch], at(lower), at(upper))
    batch.delete()


@pytest.mark.parametrize("append", ["compare_and_append_batch", "append_batch"])
def test_row_l_an_empty_batch_is_held_to_its_description_too(writer, append):
    """That it has no updates says that nothing happened in [5, 9), not that nothing did before."""
    writer.compare_and_append(updates(), at(0), at(4))
    for lower, upper in [(4, 6), (4, 9), (4, 10), (4, None)]:
        batch = writer.batch(updates(), at(5), at(9))
        with pytest.raises(InvalidUsage, match="that is wider"):
            if append == "append_batch":
                writer.append_batch(batch, at(lower), at(upper))
            else:
                writer.compare_and_append_batch([batch], at(lower), at(upper))
        assert writer.fetch_recent_upper() == at(4)
    narrower = writer.batch(updates(), at(2), at(9))
    writer.compare_and_append_batch([narrower], at(4), at(7))
    assert writer.fetch_recent_upper() == at(7)


def test_rule_3_a_batch_of_another_shard_names_both(opened, writer):
    other = opened.open_writer("other", SCHEMA)
    batch = other.batch(updates(("a", 0, 1)), at(0), at(1))
    with pytest.raises(InvalidUsage) as error:
        writer.compare_and_append_batch([batch], at(0), at(1))
    assert str(other.shard_id) in str(error.value) and str(writer.shard_id) in str(error.value)
    batch.delete()


@pytest.mark.parametrize("upper", [1, 9], ids=["the next updates", "behind a gap"])
def test_row_h_a_batch_of_another_shard_is_not_touched_by_any_append(opened, writer, upper):
    other = opened.open_writer("other", SCHEMA)
    batch = other.batch(updates(("a", upper - 1, 1)), at(upper - 1), at(upper))
    for use in (
        lambda: writer.append_batch(batch, at(upper - 1), at(upper)),
        lambda: writer.compact([batch], []),
        lambda: writer.compare_and_append_batch([batch], at(upper - 1), at(upper)),
    ):
        with pytest.raises(InvalidUsage) as error:
            use()
        assert str(other.shard_id) in str(error.value) and str(writer.shard_id) in str(error.value)
    other.compare_and_append(updates(), at(0), at(upper - 1))
    other.compare_and_append_batch([batch], at(upper - 1), at(upper))


def test_rule_4_new_upper_before_expected_upper(writer):
    with pytest.raises(InvalidUsage):
        writer.compare_and_append_batch([], at(3), at(2))


def test_rule_4_equal_bounds_without_updates_succeed_iff_current(writer):
    writer.compare_and_append(updates(), at(0), at(3))
    before = writer.state().version
    writer.compare_and_append(updates(), at(3), at(3))
    assert writer.state().version == before
    with pytest.raises(UpperMismatch):
        writer.compare_and_append(updates(), at(2), at(2))


def test_rule_5_empty_updates_move_the_upper_and_write_no_file(writer):
    writer.compare_and_append(updates(), at(0), at(7))
    assert writer.fetch_recent_upper() == at(7) and staged(writer) == set()


def test_rule_6_a_finished_shard(opened, writer):
    writer.compare_and_append(updates(("a", 2, 1)), at(0), at(None))
    with pytest.raises(UpperMismatch) as error:
        writer.compare_and_append(updates(("b", 3, 1)), at(3), at(4))
    assert error.value.current == Antichain.empty()
    writer.compare_and_append(updates(), at(None), at(None))
    writer.append(updates(("a", 2, 1)), at(0), at(5))
    assert read(opened, U, 10**15) == [("a", 1)]


def test_rule_7_zero_is_dropped_and_equal_updates_are_added_up(opened, writer):
    writer.compare_and_append(
        updates(("a", 1, 2), ("a", 1, -5), ("b", 1, 0), ("c", 1, 1), ("c", 1, -1)), at(0), at(2)
    )
    assert read(opened, U, 1) == [("a", -3)]


def test_rule_7_diffs_are_any_64_bits(opened, writer):
    writer.compare_and_append(updates(("a", 1, 2**63 - 1), ("b", 1, -(2**63))), at(0), at(2))
    assert read(opened, U, 1) == [("a", 2**63 - 1), ("b", -(2**63))]


def test_rule_8_nothing_staged_is_visible_before_its_commit(opened, writer):
    batch = writer.batch(updates(("a", 0, 1)), at(0), at(1))
    assert staged(writer) and live(writer) == set()
    batch.delete()
    assert staged(writer) == set()


def test_a_mismatch_carries_the_upper_and_leaves_nothing_staged(opened, writer):
    other = opened.open_writer(U, SCHEMA)
    writer.compare_and_append(updates(("a", 0, 1)), at(0), at(3))
    with pytest.raises(UpperMismatch) as error:
        other.compare_and_append(updates(("b", 0, 1)), at(0), at(2))
    assert (error.value.current, error.value.expected) == (at(3), at(0))
    assert other.upper == at(3) and staged(other) == live(other)


def test_uppers_seen_by_handle_and_process(opened, writer):
    other = opened.open_writer(U, SCHEMA)
    writer.compare_and_append(updates(), at(0), at(3))
    assert (other.upper, other.shared_upper(), other.fetch_recent_upper(), other.upper) == (
        at(0),
        at(3),
        at(3),
        at(3),
    )


def test_batches_stay_usable_after_a_mismatch(opened, writer):
    batch = writer.batch(updates(("a", 6, 1)), at(0), at(9))
    writer.compare_and_append(updates(), at(0), at(5))
    with pytest.raises(UpperMismatch):
        writer.compare_and_append_batch([batch], at(0), at(9))
    writer.compare_and_append_batch([batch], at(5), at(9))
    assert read(opened, U, 8) == [("a", 1)]


def no_commit(version, change):
    raise StorageError("no commit today")


@pytest.mark.parametrize("method", ["compare_and_append", "append"])
def test_row_g_after_a_storage_error_nothing_stays_of_what_the_caller_has_no_batch_of(
    writer, monkeypatch, method
):
    with monkeypatch.context() as patch:
        patch.setattr(writer.storage, "commit", no_commit)
        with pytest.raises(StorageError, match="no commit today"):
            getattr(writer, method)(updates(("a", 0, 1)), at(0), at(1))
    assert staged(writer) == set()
    getattr(writer, method)(updates(("a", 0, 1)), at(0), at(1))
    assert staged(writer) == live(writer) != set()


@pytest.mark.parametrize("method", ["compare_and_append_batch", "append_batch"])
def test_row_g_after_a_storage_error_the_callers_batch_can_be_used_again(writer, monkeypatch, method):
    batch = writer.batch(updates(("a", 0, 1)), at(0), at(1))
    argument = [batch] if method == "compare_and_append_batch" else batch
    with monkeypatch.context() as patch:
        patch.setattr(writer.storage, "commit", no_commit)
        with pytest.raises(StorageError, match="no commit today"):
            getattr(writer, method)(argument, at(0), at(1))
    done = getattr(writer, method)(argument, at(0), at(1))
    assert done.version == writer.state().version and staged(writer) == live(writer) != set()


def test_row_g_every_append_returns_the_maintenance_that_is_due(opened, writer):
    due = []
    for time in range(60):
        appended = writer.append(updates((f"{time}", time, 1)), at(time), at(time + 1))
        batch = writer.batch(updates((f"{time}", time, 1)), at(time), at(time + 1))
        again = writer.append_batch(batch, at(time), at(time + 1))  # another replica's: it is there already
        state = writer.state()
        assert appended.maintenance == again.maintenance == maintenance_due(state, writer.storage)
        assert appended.version == again.version == state.version
        due.append(appended.maintenance)
    assert any(each.compact for each in due) and any(each.collect_garbage for each in due)


REPLICATED = {
    "nothing is there yet": (0, [("a", 1, 1), ("b", 4, 1)]),
    "part is there": (3, [("b", 4, 1)]),
    "all is there": (6, []),
}


@pytest.mark.parametrize(("upper", "appended"), REPLICATED.values(), ids=REPLICATED)
def test_append_cuts_away_what_is_there(opened, writer, upper, appended):
    if upper:
        writer.compare_and_append(updates(), at(0), at(upper))
    writer.append(updates(("a", 1, 1), ("b", 4, 1)), at(0), at(6))
    assert read(opened, U, 5) == [(x, diff) for x, _, diff in appended]
    assert staged(writer) == live(writer) and writer.upper == at(6)


def test_append_refuses_bounds_out_of_order_whatever_is_there(writer):
    writer.compare_and_append(updates(), at(0), at(9))
    batch = writer.batch(updates(("a", 2, 1)), at(0), at(5))
    with pytest.raises(
        InvalidUsage, match="new_upper Antichain\\(3\\) is before expected_upper Antichain\\(4\\)"
    ):
        writer.append_batch(batch, at(4), at(3))


def test_append_beyond_the_upper_would_leave_a_hole(writer):
    with pytest.raises(UpperMismatch):
        writer.append(updates(("a", 4, 1)), at(3), at(6))
    assert staged(writer) == set()


def test_the_builder_rolls_over_and_an_empty_batch_stages_no_file(writer):
    builder = writer.builder(at(0), part_bytes=1)
    for i in range(3):
        builder.add(updates((f"{i}", i, 1)))
    batch = builder.finish(at(5))
    assert len(batch.files) == 3 and batch.rows == 3
    batch.delete()
    assert writer.batch(updates(), at(0), at(5)).files == ()


def test_a_transmitted_batch_belongs_to_the_handle_that_turns_it_back(opened, writer):
    batch = writer.batch(updates(("a", 0, 1)), at(0), at(1))
    text = json.dumps(batch.to_transmittable())
    with pytest.raises(InvalidUsage, match="handed over"):
        batch.delete()
    writer.expire()  # leaves the files of a batch that was handed over
    other = opened.open_writer(U, SCHEMA)
    received = other.batch_from_transmittable_batch(json.loads(text))
    other.compare_and_append_batch([received], at(0), at(1))
    assert read(opened, U, 0) == [("a", 1)]


def test_a_transmitted_batch_of_a_newer_format_is_refused(writer):
    described = writer.batch(updates(("a", 0, 1)), at(0), at(1)).to_transmittable()
    with pytest.raises(InvalidUsage, match="format version 3"):
        writer.batch_from_transmittable_batch({**described, "format_version": 3})


def test_a_batch_is_used_once(writer):
    batch = writer.batch(updates(("a", 0, 1)), at(0), at(1))
    writer.compare_and_append_batch([batch], at(0), at(1))
    for use in (
        batch.delete,
        batch.to_transmittable,
        lambda: writer.compare_and_append_batch([batch], at(0), at(1)),
    ):
        with pytest.raises(InvalidUsage, match="consumed"):
            use()
    deleted = writer.batch(updates(("a", 1, 1)), at(1), at(2))
    deleted.delete()
    deleted.delete()
    with pytest.raises(InvalidUsage, match="deleted"):
        writer.compare_and_append_batch([deleted], at(1), at(2))


def test_files_that_are_gone_are_noticed_before_the_commit(writer):
    batch = writer.batch(updates(("a", 0, 1)), at(0), at(1))
    writer.storage.delete([file.path for file in batch.files])
    with pytest.raises(StorageError, match="part-00000"):
        writer.compare_and_append_batch([batch], at(0), at(1))
    assert writer.state().upper == at(0)
    batch.delete()


def test_a_forgotten_batch_warns(writer):
    batch = writer.batch(updates(("a", 0, 1)), at(0), at(1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del batch
        gc.collect()
    assert any("never appended or deleted" in str(w.message) for w in caught)


def test_expire_deletes_what_was_not_consumed(opened):
    with opened.open_writer(U, SCHEMA) as handle:
        kept = handle.batch(updates(("a", 0, 1)), at(0), at(1))
        handle.stage()
    assert kept.state.value == "deleted"
    with pytest.raises(InvalidUsage, match="expired"):
        handle.state()


def test_wait_for_upper_past(writer):
    writer.compare_and_append(updates(), at(0), at(3))
    writer.wait_for_upper_past(at(2), timeout=0)
    with pytest.raises(TimeoutError):
        writer.wait_for_upper_past(at(3), timeout=0.05)


def test_row_c_a_description_turned_back_twice_is_appended_once_and_never_deletes_live_files(opened, writer):
    described = writer.batch(updates(("a", 0, 1)), at(0), at(1)).to_transmittable()
    received = writer.batch_from_transmittable_batch(described)
    with pytest.raises(InvalidUsage, match="it can be received once"):
        writer.batch_from_transmittable_batch(described)
    writer.append_batch(received, at(0), at(1))
    with pytest.raises(InvalidUsage, match="appended before"):
        writer.batch_from_transmittable_batch(described)
    writer.expire()
    assert read(opened, U, 0) == [("a", 1)]


def test_a_batch_named_twice_in_one_append(writer):
    batch = writer.batch(updates(("a", 0, 1)), at(0), at(1))
    with pytest.raises(InvalidUsage, match="listed twice"):
        writer.compare_and_append_batch([batch, batch], at(0), at(1))
    batch.delete()


def test_expire_removes_the_parts_of_an_unfinished_builder(opened):
    with opened.open_writer(U, SCHEMA) as handle:
        handle.builder(at(0), part_bytes=1).add(updates(("a", 0, 1)))
        builder = handle.builder(at(0)).add(updates(("b", 0, 1)))
    assert builder.finished and staged(handle) == set()


def test_sums_of_diffs_are_exact_up_to_64_bits_and_refused_beyond(writer):
    batch = writer.batch(updates(("a", 0, 2**63 - 2), ("a", 0, 1)), at(0), at(1))
    writer.compare_and_append_batch([batch], at(0), at(1))
    assert writer.state().files[0].max_diff == 2**63 - 1
    with pytest.raises(InvalidUsage, match="add up to 9223372036854775808, which exceeds 64 bits"):
        writer.batch(updates(("a", 1, 2**63 - 1), ("a", 1, 1)), at(1), at(2))


def test_equal_types_of_arrow_are_one_column(opened):
    equivalent = pa.schema(
        [("t", pa.large_string()), ("at", pa.timestamp("ms")), ("l", pa.large_list(pa.int32()))]
    )
    kept = pa.schema([("t", pa.string()), ("at", pa.timestamp("us")), ("l", pa.list_(pa.int32()))])
    with opened.open_writer("v", equivalent) as handle, opened.open_writer("v", kept):
        rows_ = {"t": ["x"], "at": [5], "l": [[1]], "_mv_time": [0], "_mv_diff": [1]}
        handle.compare_and_append(pa.table(rows_, schema=pa.schema([*equivalent, *META])), at(0), at(1))
        assert opened.open_reader("v").snapshot(0).column("t").to_pylist() == ["x"]
        fine = pa.table(
            {**rows_, "at": [1]},
            schema=pa.schema([("t", pa.string()), ("at", pa.timestamp("ns")), equivalent.field(2), *META]),
        )
        with pytest.raises(InvalidUsage, match="kept exactly"):
            handle.batch(fine, at(0), at(1))


def test_row_b_the_storages_clock_is_that_of_its_files(opened, writer):
    """On every storage: a file that is written between two readings is dated between them."""
    before = writer.storage.clock()
    batch = writer.batch(updates(("b", 0, 1)), at(0), at(1))
    [file] = writer.storage.list_files(batch.directory)
    assert before <= file.modified <= writer.storage.clock()
    batch.delete()
