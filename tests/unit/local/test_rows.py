"""What this process reads of a large shard is bounded by rows, bytes and files."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.local.rows import TooMany, found_in, has_key, row_numbers
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
    monkeypatch.setattr(limits, "FOUND_BYTES", 50)  # of ten bytes a row
    assert len(found_in(FILES[:1], rows(5), 100)) == 1
    with pytest.raises(TooMany):
        found_in(FILES[:1], rows(6), 100)
    monkeypatch.setattr(limits, "FOUND_FILES", 2)
    with pytest.raises(TooMany, match="3 files"):
        found_in(FILES, rows(0), 100)


def test_rows_have_one_number_if_they_are_equal_for_group_by():
    nan = float("nan")
    table = pa.table({"x": [1.0, None, nan, -0.0, 0.0, nan, None, 1.0], "y": ["a", *["b"] * 6, "b"]})
    numbers = row_numbers(table).to_pylist()
    assert [numbers.index(number) for number in numbers] == [0, 1, 2, 3, 3, 2, 1, 7]
    assert row_numbers(table.select([])).to_pylist() == [0] * 8
    assert row_numbers(table[:0]).to_pylist() == []


def test_a_row_has_a_key_if_all_of_its_values_are_equal():
    rows = pa.table({"a": [1, 1, 2, None], "b": ["x", "y", "x", None], "c": range(4)})
    keys = pa.table({"b": pa.array(["x", None]), "a": pa.array([1, None])})
    assert has_key(rows, keys).to_pylist() == [True, False, False, True]
    assert has_key(rows, keys[:0]).to_pylist() == [False] * 4
