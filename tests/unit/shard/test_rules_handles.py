"""docs/design/shard.md, *Opening* and the table of *WriteHandle*: the lines that
test_contract.py leaves out, each under the member's name.
"""

from __future__ import annotations

import gc
import json
import logging
import subprocess
import sys
import textwrap
import threading
import time
import uuid
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from dbt.adapters.mvsink.shard import InvalidUsage, MemoryStorage, ShardClient, UpperMismatch
from tests.support.shards import SCHEMA, at, live, read, staged, updates
from tests.support.storage_faults import FaultyStorage

U = "s"


@pytest.fixture
def counted():
    """A writer in memory, and how often each call went to its log."""
    calls: Counter[str] = Counter()
    storage = FaultyStorage(MemoryStorage(U), lambda call: calls.update([call]))
    return ShardClient(locate=lambda uri: storage).open_writer(U, SCHEMA), calls


# opening


def test_opening_at_once_gives_the_same_shard(tmp_path):
    with ThreadPoolExecutor(4) as pool:
        handles = list(pool.map(lambda _: ShardClient().open_writer(str(tmp_path / "s"), SCHEMA), range(4)))
    assert len({handle.shard_id for handle in handles}) == 1
    assert {handle.state().version for handle in handles} == {0}


@pytest.mark.parametrize(("version", "refused"), [("3", True), ("1", False), ("0", False)])
def test_a_newer_format_is_refused_and_an_older_one_is_read(tmp_path, version, refused):
    uri = str(tmp_path / "s")
    with ShardClient().open_writer(uri, SCHEMA) as handle:
        handle.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
    DeltaTable(uri).alter.set_table_properties({"mvsink.format_version": version}, raise_if_not_exists=False)
    if not refused:
        assert read(ShardClient(), uri, 0) == [("a", 1)]
        return
    for opening in (ShardClient().open_reader, lambda uri: ShardClient().open_writer(uri, SCHEMA)):
        with pytest.raises(InvalidUsage, match="has format version 3; this release reads up to 2"):
            opening(uri)


def test_a_delta_table_that_is_no_shard_is_refused(tmp_path):
    DeltaTable.create(str(tmp_path / "t"), schema=SCHEMA)
    with pytest.raises(InvalidUsage, match="is not a shard"):
        ShardClient().open_reader(str(tmp_path / "t"))


# identity and uppers


def test_shard_id_and_writer_id_are_uuids_and_round_trip_through_str(opened, writer):
    ids = [opened.open_writer(U, SCHEMA).writer_id for _ in range(3)]
    assert len({*ids, writer.writer_id}) == 4
    for made in (*ids, writer.shard_id):
        assert isinstance(made, uuid.UUID) and uuid.UUID(str(made)) == made


def test_upper_and_shared_upper_do_no_io_and_may_be_stale_but_never_ahead(counted):
    writer, calls = counted
    other = ShardClient(locate=lambda uri: writer.storage).open_writer(U, SCHEMA)
    other.compare_and_append(updates(), at(0), at(4))
    before = calls.copy()
    assert (writer.upper, writer.shared_upper(), other.upper) == (at(0), at(4), at(4))
    assert calls == before
    assert writer.fetch_recent_upper() == writer.upper == at(4)


def test_fetch_recent_upper_is_never_older_than_a_write_that_had_returned(opened, writer):
    reader = opened.open_writer(U, SCHEMA)
    for upper in range(1, 8):
        writer.compare_and_append(updates(), at(upper - 1), at(upper))
        assert reader.fetch_recent_upper() == at(upper)


# appending


FORMS = {
    "Table": lambda table: table,
    "RecordBatch": lambda table: table.to_batches()[0],
    "RecordBatchReader": lambda table: table.to_reader(max_chunksize=1),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_updates_come_as(opened, writer, form):
    writer.compare_and_append(form(updates(("a", 0, 1), ("b", 1, 2))), at(0), at(2))
    assert read(opened, U, 1) == [("a", 1), ("b", 2)]


def test_compare_and_append_that_is_invalid_leaves_nothing_staged(writer):
    with pytest.raises(InvalidUsage):
        writer.compare_and_append(updates(("a", 0, 1)), at(3), at(2))
    assert staged(writer) == set() and writer.fetch_recent_upper() == at(0)


def test_compare_and_append_batch_appends_several_as_one(opened, writer):
    batches = [writer.batch(updates((x, t, 1)), at(0), at(3)) for t, x in enumerate("abc")]
    before = writer.state().version
    writer.compare_and_append_batch(batches, at(0), at(3))
    assert writer.state().version == before + 1
    assert read(opened, U, 2) == [("a", 1), ("b", 1), ("c", 1)]


# a batch [0, 9) with an update at every even time, appended as [lower, upper) when the shard's
# upper is:
CUTS = {
    "nothing written yet, all wanted": (0, 0, 9, [0, 2, 4, 6, 8]),
    "cut above": (0, 0, 5, [0, 2, 4]),
    "cut below": (3, 3, 9, [4, 6, 8]),
    "cut on both sides": (3, 3, 7, [4, 6]),
    "part of what is wanted is written": (5, 3, 7, [6]),
    "all of what is wanted is written": (7, 3, 7, []),
}


@pytest.mark.parametrize(("current", "lower", "upper", "times"), CUTS.values(), ids=CUTS)
def test_append_batch_and_rule_2_physically(opened, writer, current, lower, upper, times):
    if current:
        writer.compare_and_append(updates(), at(0), at(current))
    batch = writer.batch(updates(*((f"{t}", t, 1) for t in range(0, 9, 2))), at(0), at(9))
    writer.append_batch(batch, at(lower), at(upper))
    assert batch.state.value in ("consumed", "deleted") and writer.upper == at(upper)
    assert staged(writer) == live(writer)
    physical = [writer.storage.read(file, updates().schema) for file in writer.state().files]
    assert sorted(t for table in physical for t in table.column("_mv_time").to_pylist()) == times


def test_append_batch_deletes_a_batch_that_would_leave_a_hole(writer):
    batch = writer.batch(updates(("a", 4, 1)), at(3), at(6))
    with pytest.raises(UpperMismatch) as error:
        writer.append_batch(batch, at(3), at(6))
    assert (error.value.current, batch.state.value, staged(writer)) == (at(0), "deleted", set())


def test_the_builder_takes_record_batches_in_bounded_memory(tmp_path):
    """200 MB of updates through a few: what is alive never depends on the total."""
    handle = ShardClient().open_writer(str(tmp_path / "s"), SCHEMA)
    rows, most = 10_000, 0
    start = pa.total_allocated_bytes()

    def batches():
        nonlocal most
        for i in range(200):
            most = max(most, pa.total_allocated_bytes() - start)
            text = pa.array([f"{i:06}-{n:06}" * 8 for n in range(rows)])
            numbers = pa.array([0] * rows, pa.int64()), pa.array([1] * rows, pa.int64())
            yield pa.record_batch([text, *numbers], names=["x", "_mv_time", "_mv_diff"])

    schema = pa.schema([*SCHEMA, ("_mv_time", pa.int64()), ("_mv_diff", pa.int64())])
    batch = (
        handle.builder(at(0), part_bytes=2**20)
        .add(pa.RecordBatchReader.from_batches(schema, batches()))
        .finish(at(1))
    )
    assert batch.rows == 200 * rows and len(batch.files) > 10
    assert most < 60 * 2**20
    batch.delete()


# batches


USES = {
    "delete": lambda writer, batch: batch.delete(),
    "to_transmittable": lambda writer, batch: batch.to_transmittable(),
    "compare_and_append_batch": lambda writer, batch: writer.compare_and_append_batch([batch], at(0), at(1)),
    "append_batch": lambda writer, batch: writer.append_batch(batch, at(0), at(1)),
}
ENDS = {
    "handed over": lambda writer, batch: batch.to_transmittable(),
    "consumed": lambda writer, batch: writer.compare_and_append_batch([batch], at(0), at(1)),
    "deleted": lambda writer, batch: batch.delete(),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("end", ENDS)
def test_any_use_of_a_batch_that_is_no_more_is_invalid(writer, end, use):
    batch = writer.batch(updates(("a", 0, 1)), at(0), at(1))
    ENDS[end](writer, batch)
    if (end, use) == ("deleted", "delete"):
        batch.delete()  # idempotent
        return
    with pytest.raises(InvalidUsage, match=end):
        USES[use](writer, batch)


def test_a_transmittable_batch_carries_bounds_and_format_version_and_is_json(writer):
    described = writer.batch(updates(("a", 3, 1)), at(2), at(None)).to_transmittable()
    assert json.loads(json.dumps(described)) == described
    assert (described["lower"], described["upper"], described["format_version"]) == (2, 2**63 - 1, 2)


def test_a_finalizer_leaves_a_handed_over_batch_alone(writer):
    batch = writer.batch(updates(("a", 0, 1)), at(0), at(1))
    described = batch.to_transmittable()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del batch
        gc.collect()
    assert {file["path"] for file in described["files"]} == staged(writer)


def test_a_transmittable_batch_of_an_older_format_is_appended_with_an_info_line(opened, writer, caplog):
    described = writer.batch(updates(("a", 0, 1)), at(0), at(1)).to_transmittable()
    with caplog.at_level(logging.INFO, "mvsink.shard"):
        received = writer.batch_from_transmittable_batch({**described, "format_version": 0})
    assert [(r.levelname, "older format version 0" in r.getMessage()) for r in caplog.records] == [
        ("INFO", True)
    ]
    writer.compare_and_append_batch([received], at(0), at(1))
    assert read(opened, U, 0) == [("a", 1)]


def test_a_transmittable_batch_of_another_shard_is_refused_and_keeps_its_files(opened, writer):
    other = opened.open_writer("other", SCHEMA)
    described = other.batch(updates(("a", 0, 1)), at(0), at(1)).to_transmittable()
    with pytest.raises(InvalidUsage) as error:
        writer.batch_from_transmittable_batch(described)
    assert str(other.shard_id) in str(error.value) and str(writer.shard_id) in str(error.value)
    assert staged(other)


RECEIVER = """
import json, sys
from dbt.adapters.mvsink.shard import ShardClient
from tests.support.shards import SCHEMA, at
uri, described = sys.argv[1:]
with ShardClient().open_writer(uri, SCHEMA) as handle:
    handle.compare_and_append_batch([handle.batch_from_transmittable_batch(json.loads(described))], at(0), at(1))
"""


def test_another_process_turns_a_batch_back_and_appends_it(tmp_path):
    uri = str(tmp_path / "s")
    with ShardClient().open_writer(uri, SCHEMA) as handle:
        described = json.dumps(handle.batch(updates(("a", 0, 1)), at(0), at(1)).to_transmittable())
    subprocess.run([sys.executable, "-c", textwrap.dedent(RECEIVER), uri, described], check=True, timeout=120)
    assert read(ShardClient(), uri, 0) == [("a", 1)]


# waiting, expiring


def test_wait_for_upper_past_knows_its_own_upper_without_io(counted):
    writer, calls = counted
    writer.compare_and_append(updates(), at(0), at(3))
    before = calls.copy()
    writer.wait_for_upper_past(at(2))
    assert calls == before


def test_wait_for_upper_past_returns_when_the_frontier_is_strictly_before_the_upper(opened, writer):
    other = opened.open_writer(U, SCHEMA)
    done = threading.Event()
    waiting = threading.Thread(target=lambda: (other.wait_for_upper_past(at(3), timeout=60), done.set()))
    waiting.start()
    writer.compare_and_append(updates(), at(0), at(3))
    time.sleep(0.1)
    assert not done.is_set()  # 3 itself may still come
    writer.compare_and_append(updates(), at(3), at(4))
    waiting.join(60)
    assert done.is_set() and other.upper == at(4)


def test_nothing_is_past_the_empty_frontier(writer):
    writer.compare_and_append(updates(), at(0), at(None))
    writer.wait_for_upper_past(at(10**12), timeout=0)
    with pytest.raises(TimeoutError):
        writer.wait_for_upper_past(at(None), timeout=0)


def test_the_cached_upper_never_regresses(tmp_path):
    """A log that is served stale does not take back what was seen."""
    inner = MemoryStorage(U)
    writer = ShardClient(locate=lambda uri: inner).open_writer(U, SCHEMA)
    writer.compare_and_append(updates(), at(0), at(3))
    writer.compare_and_append(updates(), at(3), at(6))
    inner.states.pop()
    writer.fetch_recent_upper()
    assert writer.upper == writer.shared_upper() == at(6)


@pytest.mark.parametrize("holder", ["a,b", "", "a b", "a\n", "x" * 201, ",", "a\x00"])
def test_row_h_a_holder_whose_name_cannot_be_listed_is_refused(writer, holder):
    """`hold("a,b", t)` returned, and held nothing."""
    version = writer.state().version
    with pytest.raises(InvalidUsage, match="cannot hold history"):
        writer.hold(holder, 0)
    assert writer.state().version == version


@pytest.mark.parametrize("holder", ["shard:1-2", "a.b/c", "ünï", "x" * 200])
def test_row_h_every_other_name_holds(writer, holder):
    writer.compare_and_append(updates(("a", 0, 1)), at(0), at(10))
    writer.hold(holder, 3)
    assert writer.state().holds == {holder: 3} and writer.downgrade_since(at(9)) == at(3)


WRONG_VALUES = (None, [], {}, "x", -1, 2**70, True, 1.5, "é", [1], [{}], [{"path": 1}], {"a": 1})


def test_row_e_a_description_that_is_no_batch_is_refused(writer):
    """Whatever another process hands over: an error of use, and nothing is claimed or deleted."""
    whole = writer.batch(updates(("a", 0, 1)), at(0), at(1)).to_transmittable()
    before = staged(writer)
    cases = [{key: value for key, value in whole.items() if key != gone} for gone in whole]
    cases += [{**whole, key: wrong} for key in whole for wrong in WRONG_VALUES]
    [file] = whole["files"]
    cases += [{**whole, "files": [{**file, key: wrong}]} for key in file for wrong in WRONG_VALUES[1:]]
    for case in cases:
        try:
            writer.batch_from_transmittable_batch(case).to_transmittable()
        except InvalidUsage:
            continue
        kept = {key: value for key, value in case.items() if key not in ("schema", "lower", "upper")}
        assert set(kept) == set(whole) - {"schema", "lower", "upper"}, case
    assert staged(writer) == before and writer.state().upper == at(0)
