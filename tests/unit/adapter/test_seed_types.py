"""The types of a seed's columns are those that every value has."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.adapter.seeds import infer

KINDS = {
    "2024-02-29 00:00": "timestamp",
    "2024-02-29T23:59:59.123456789Z": "timestamp",
    " 2024-12-31 12:00 +18:00 ": "timestamp",
    "2024-02-30 00:00": "string",
    "2023-02-29T00:00:00": "string",
    "2024-13-01 00:00": "string",
    "2024-01-01 24:00": "string",
    "2024-01-01 12:60": "string",
    "2024-01-01 12:00:60": "string",
    "2024-01-01 12:00 +19:00": "string",
    "2024-02-29": "date",
    "2024-02-30": "string",
    "2147483648": "bigint",
    "9223372036854775808": "double",
}


@pytest.mark.parametrize(("text", "kind"), KINDS.items())
def test_a_value_that_is_no_such_date_or_time_is_text(text, kind):
    assert infer(pa.chunked_array([[text, None]], pa.string())) == kind
    if kind == "string":
        assert infer(pa.chunked_array([["2024-01-01 00:00", text]], pa.string())) == "string"
