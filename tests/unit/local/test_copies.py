"""A negation made in this process: what it holds, its files, and what is left to an engine."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.local.copies import negate_locally
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from tests.support.shards import SCHEMA, at, client, rows, staged, updates

APPENDED = 6


def filled(uri, schema, *tables):
    handle = client("delta", uri).open_or_create("s", schema, "test")
    for time, table in enumerate(tables):
        handle.compare_and_append(table, at(time), at(time + 1))
    return handle


@pytest.fixture
def handle(tmp_path):
    tables = [updates((f"x{time}", time, time + 1), ("both", time, -2)) for time in range(APPENDED)]
    with filled(tmp_path, SCHEMA, *tables) as opened:
        yield opened


@pytest.mark.parametrize(("threads", "files"), [(1, 1), (2, 2), (64, APPENDED)])
def test_every_update_is_taken_back_at_one_time(handle, threads, files):
    live = handle.state().files
    turned = negate_locally(handle, live, 9, threads)
    assert len(turned.parts()) == files
    before = handle.read_updates(live)
    after = handle.read_staged(turned, before.schema)
    assert set(after.column("_mv_time").to_pylist()) == {9}
    assert rows(after) == sorted(((x, -diff) for x, diff in rows(before)), key=repr)


def test_a_file_in_chunks(handle, monkeypatch):
    monkeypatch.setattr(limits, "CHUNK_ROWS", 1)
    turned = negate_locally(handle, handle.state().files, 9, 1)
    assert [footer.file.rows for footer in turned.footers()] == [2 * APPENDED]


def test_a_date_that_depends_on_the_calendar(tmp_path):
    days = pa.schema([("d", pa.date32())])
    table = pa.table({"d": pa.array([0, -200_000], pa.date32()), "_mv_time": [0, 0], "_mv_diff": [1, 1]})
    with filled(tmp_path, days, table) as handle:
        before = staged(handle)
        assert negate_locally(handle, handle.state().files, 9, 2) is None
        assert staged(handle) == before


@pytest.mark.parametrize("why", ["an object store", "too many bytes", "a file that is gone"])
def test_what_is_left_to_the_engine_leaves_nothing(handle, monkeypatch, why):
    live = handle.state().files
    if why == "an object store":
        monkeypatch.setattr(DeltaStorage, "is_local", False)
    elif why == "too many bytes":
        monkeypatch.setattr(limits, "NEGATED_BYTES", 100)
    else:
        handle.storage.delete([live[-1].path])
    before = staged(handle)
    assert negate_locally(handle, live, 9, 2) is None
    assert staged(handle) == before


def test_an_interrupt_leaves_nothing(handle, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    before = staged(handle)
    monkeypatch.setattr(DeltaStorage, "scan", interrupted)
    with pytest.raises(KeyboardInterrupt):
        negate_locally(handle, handle.state().files, 9, 2)
    assert staged(handle) == before
