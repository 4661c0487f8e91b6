"""A checkpoint that another tool wrote: without the statistics of the files in JSON, as Spark does
with `delta.checkpoint.writeStatsAsJson` off, or of a form that is not read here.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from dbt.adapters.mvsink.published.table_log import TableLog
from tests.long.published_tables import History

MANY, ONE, OTHER, NEW = (1, "a", None), (2, "b", None), (3, "c", None), (4, "d", None)


def test_a_checkpoint_without_statistics(tmp_path):
    history = History(str(tmp_path / "s"), Random(1))
    added(history, {MANY: 5, ONE: 1, **{(number, None, None): 1 for number in range(100)}})
    added(history, {OTHER: 1})
    before = statistics(history.table)
    DeltaTable(history.table).create_checkpoint()
    without_statistics(history.table)
    assert {each["num_records"] for each in statistics(history.table).values()} == {None}
    added(history, {NEW: 1})  # hides nothing of these files
    assert not history.difference()
    added(history, {MANY: -2, ONE: -1})
    assert not history.difference()
    after = statistics(history.table)
    again = [path for path in before if after[path]["num_records"] is not None]  # rows of these went
    assert len(again) == 2
    assert [after[path] for path in again] == [before[path] for path in again]


def named_by_a_uuid(path):
    path.rename(path.with_name(f"{path.name.partition('.')[0]}.checkpoint.{uuid.uuid4()}.parquet"))


def with_files_beside_it(path):
    table = pq.read_table(path)
    many = len(table)
    table = table.drop_columns(["add"])
    field = pa.field("sidecar", pa.struct([("path", pa.string())]))
    beside = pa.array([{"path": "x"}] + [None] * (many - 1), field.type)
    pq.write_table(table.append_column(field, beside), path)


@pytest.mark.parametrize("form", [named_by_a_uuid, with_files_beside_it])
def test_after_a_checkpoint_of_another_form_a_new_log_begins(tmp_path, form):
    """Spark does not read a log with a checkpoint of version 2 and a protocol without it."""
    history = History(str(tmp_path / "s"), Random(1))
    for key in (MANY, ONE, OTHER):
        added(history, {key: 1})
    assert not history.difference()  # else nothing is inserted
    history.foreign_insert()
    DeltaTable(history.table).create_checkpoint()
    [path] = Path(history.table, "_delta_log").glob("*.checkpoint.parquet")
    form(path)
    added(history, {MANY: 2, ONE: -1})
    assert DeltaTable(history.table).version() == 0 and not history.difference()
    assert not [*path.parent.glob("*checkpoint*")]


def test_a_truncated_log_keeps_the_commit_that_another_run_is_writing(tmp_path):
    history = History(str(tmp_path / "s"), Random(1))
    for key in (MANY, ONE, OTHER):
        added(history, {key: 1})
    newest, log = DeltaTable(history.table).version(), Path(history.table, "_delta_log")
    unfinished = {ahead: log / f".{newest + ahead:020d}.json.5f2c" for ahead in (-1, 0, 1)}
    for path in unfinished.values():
        path.write_text("{}")
    TableLog(history.table).truncate()
    assert [ahead for ahead, path in unfinished.items() if path.exists()] == [1]
    kept = {f"{newest:020d}.json", f"{newest:020d}.checkpoint.parquet", "_last_checkpoint"}
    assert {path.name for path in log.iterdir() if not path.name.startswith(".")} == kept
    assert not history.difference() and DeltaTable(history.table).version() == newest


def added(history, rows):
    history._append([(key, diff, None) for key, diff in rows.items()])
    history.rows.update(rows)
    history.publish()


def statistics(place):
    """What readers may skip files by, by path."""
    files = pa.table(DeltaTable(place).get_add_actions(flatten=True)).to_pylist()
    names = ("num_records", "min.id", "max.id", "null_count.id")
    return {each["path"]: {name: each.get(name) for name in names} for each in files}


def without_statistics(place):
    [path] = Path(place, "_delta_log").glob("*.checkpoint.parquet")
    table = pq.read_table(path)
    adds = [each and {**each, "stats": None} for each in table.column("add").to_pylist()]
    index = table.column_names.index("add")
    field = table.schema.field(index)
    pq.write_table(table.set_column(index, field, pa.array(adds, field.type)), path)
