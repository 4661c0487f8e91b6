"""Another tool's compaction beside ours: no rows are doubled, and no reader of changes sees one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from dbt.adapters.mvsink.inputs import DeltaInput
from dbt.adapters.mvsink.shard import CompactionPlan
from dbt.adapters.mvsink.shard.maintenance import compact_with_pyarrow
from tests.support.shards import SCHEMA, at, client, live, read, staged, updates

CDF = "delta.enableChangeDataFeed"


@pytest.fixture
def opened(tmp_path):
    return client("delta", tmp_path)


@pytest.fixture
def writer(opened):
    handle = opened.open_writer("s", SCHEMA)
    DeltaTable(handle.uri).alter.set_table_properties({CDF: "true"}, raise_if_not_exists=False)
    for t in range(3):
        handle.compare_and_append(updates((f"r{t}", t, 1)), at(t), at(t + 1))
    return handle


WHOLE = [("r0", 1), ("r1", 1), ("r2", 1)]


def compact(handle, through=2):
    return compact_with_pyarrow(handle, CompactionPlan(handle.state().files, at(through)))


def test_row_d_a_foreign_compaction_of_a_version_before_ours_fails(opened, writer):
    before = DeltaTable(writer.uri)
    assert compact(writer)
    with pytest.raises(CommitFailedError, match="concurrent transaction deleted data"):
        before.optimize.compact()
    assert read(opened, "s", 2) == WHOLE


def test_row_d_our_compaction_of_a_version_before_a_foreign_one_is_lost(opened, writer):
    plan = CompactionPlan(writer.state().files, at(2))
    DeltaTable(writer.uri).optimize.compact()
    assert not compact_with_pyarrow(writer, plan)
    assert read(opened, "s", 2) == WHOLE
    assert staged(writer) == {file.path for file in plan.files}  # ours was deleted, theirs lies beside


def test_row_d_a_foreign_compaction_after_ours_takes_what_is_there(opened, writer):
    assert compact(writer, 0)  # several files stay: later times among them
    DeltaTable(writer.uri).optimize.compact()
    assert read(opened, "s", 2) == WHOLE and len(live(writer)) == 1


def test_row_d_a_foreign_compaction_of_a_version_before_an_append_that_removes_files_fails(opened, writer):
    """As a correction does that folds files of another tool, in a view's or a task's output."""
    before, files = DeltaTable(writer.uri), writer.state().files
    batch = writer.batch(updates(("r0", 3, 1), ("r1", 3, 1), ("r2", 3, 1)), at(3), at(4))
    writer.compare_and_append_batch([batch], at(3), at(4), removes=files)
    with pytest.raises(CommitFailedError, match="concurrent transaction deleted data"):
        before.optimize.compact()
    assert read(opened, "s", 3) == WHOLE


def test_row_d_a_reader_of_the_log_sees_no_change_in_our_compaction(writer):
    version = writer.state().version
    assert compact(writer)
    assert DeltaInput(writer.uri).change(version, version + 1).nothing


def test_row_d_what_delta_s_change_feed_reports_of_our_compaction_adds_up_to_nothing(writer):
    assert compact(writer, 2)
    feed = pa.table(DeltaTable(writer.uri).load_cdf(starting_version=writer.state().version).read_all())
    sums: dict[str, int] = {}
    for row in feed.to_pylist():
        sign = {"insert": 1, "delete": -1}[row["_change_type"]]
        sums[row["x"]] = sums.get(row["x"], 0) + sign * row["_mv_diff"]
    assert feed.num_rows and set(sums.values()) == {0}
