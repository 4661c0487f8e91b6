"""The rows of files of extra copies."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.physical import HASH
from dbt.adapters.mvsink.published import extra_copies
from dbt.adapters.mvsink.published.shown_rows import Copies
from dbt.adapters.mvsink.shard import DataFile


@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_rows_come_as_often_as_they_are_missing_in_few_tables(monkeypatch, at_once):
    monkeypatch.setattr(extra_copies, "AT_ONCE", at_once)
    rows = pa.table({"x": [*range(10)], HASH: [*range(10)]})
    scans = [rows.slice(0, 4), rows.slice(4)]
    missing = {"p": {7: Copies(3, 7), 0: Copies(1, 0), 4: Copies(2, 4)}}
    tables = [*extra_copies.rows(missing, ["x"], {"p": DataFile("p", 1)}, lambda *_: iter(scans))]
    assert [x for table in tables for x in table.column("x").to_pylist()] == [0, 4, 4, 7, 7, 7]
    assert len(tables) == {1: 6, 2: 4, 1000: 2}[at_once]
