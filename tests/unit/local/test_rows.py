"""What this process reads of a large shard is bounded by rows, bytes and files."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.local import rows as local_rows
from dbt.adapters.mvsink.local.rows import TooMany, found_in
from dbt.adapters.mvsink.shard import DataFile

SIZES = (1_000, 100 * 2**20, 1_000)
FILES = [
    DataFile(f"batches/b/part-{number}.parquet", size, rows=size // 10) for number, size in enumerate(SIZES)
]


def rows(number: int):
    """Every file has so many rows."""
    return lambda file, most: pa.table({"x": [file.path] * min(number, most)})


def test_the_rows_of_every_file_in_order():
    tables = found_in(FILES, rows(2), 6)
    assert [table.column("x").to_pylist() for table in tables] == [[file.path] * 2 for file in FILES]
    assert found_in([], rows(2), 6) == []


def test_no_file_is_asked_for_more_than_one_row_too_many():
    asked = []

    def find(file: DataFile, most: int) -> pa.Table:
        asked.append(most)
        return rows(9)(file, most)

    with pytest.raises(TooMany, match="more than 5 rows"):
        found_in(FILES, find, 5)
    assert set(asked) == {6}


def test_wide_rows_and_many_files_are_too_much(monkeypatch):
    monkeypatch.setattr(local_rows, "FOUND_BYTES", 50)  # of ten bytes a row
    assert len(found_in(FILES[:1], rows(5), 100)) == 1
    with pytest.raises(TooMany):
        found_in(FILES[:1], rows(6), 100)
    monkeypatch.setattr(local_rows, "FOUND_FILES", 2)
    with pytest.raises(TooMany, match="3 files"):
        found_in(FILES, rows(0), 100)
