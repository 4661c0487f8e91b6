"""The formats of `mvsink subscribe`: every type, each part of a stream."""

from __future__ import annotations

import io
import json
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.cli.update_formats import FORMATS, FeedColumnsChanged, json_values
from dbt.adapters.mvsink.shard import Antichain

UTC = pa.timestamp("us", tz="UTC")
POINT = pa.struct([("x", pa.float64()), ("when", pa.date32())])
VALUES = {
    "boolean": (pa.bool_(), [True, None], [True, None]),
    "bigint": (pa.int64(), [2**63 - 1, None], [2**63 - 1, None]),
    "double": (
        pa.float64(),
        [0.1, float("nan"), float("inf"), float("-inf"), None],
        [0.1, "NaN", "Infinity", "-Infinity", None],
    ),
    "decimal": (pa.decimal128(38, 10), [Decimal("1E-10"), None], ["0.0000000001", None]),
    "text": (pa.string(), ["", 'a "b"\n', None], ["", 'a "b"\n', None]),
    "binary": (pa.binary(), [b"\x00\xff", None], ["00ff", None]),
    "date": (pa.date32(), [date(2026, 11, 20), None], ["2026-11-20", None]),
    "a date beyond Python's calendar": (pa.date32(), pa.array([3_000_000], pa.int32()), ["10183-09-21"]),
    "timestamp": (
        UTC,
        [datetime(2026, 11, 20, 15, 0, 0, 5, timezone.utc), None],
        ["2026-11-20T15:00:00.000005Z", None],
    ),
    "timestamp_ntz": (pa.timestamp("us"), [datetime(2026, 11, 20, 15)], ["2026-11-20T15:00:00.000000"]),
    "array": (pa.list_(pa.binary()), [[b"a", None], [], None], [["61", None], [], None]),
    "struct": (
        POINT,
        [{"x": float("nan"), "when": date(2026, 1, 1)}, None],
        [{"x": "NaN", "when": "2026-01-01"}, None],
    ),
    "map": (
        pa.map_(pa.string(), pa.list_(pa.int32())),
        [[("k", [1])], [], None],
        [[{"key": "k", "value": [1]}], [], None],
    ),
}


def column(kind, values):
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)


@pytest.mark.parametrize("kind, values, expected", VALUES.values(), ids=VALUES)
def test_values_as_json_has_them(kind, values, expected):
    array = column(kind, values)
    assert json_values(array) == expected
    assert json_values(pa.chunked_array([array, array])) == expected * 2
    assert json_values(pa.chunked_array([array.slice(1)])) == expected[1:]
    json.dumps(expected, allow_nan=False)


def table(**columns):
    rows = len(next(iter(columns.values())))
    meta = {"_mv_time": pa.array([5] * rows), "_mv_diff": pa.array([-2] * rows)}
    return pa.table({**columns, **meta, "_mv_error": pa.nulls(rows, pa.string())})


def stream(name, *tables, snapshot=False, resumed=False, errors=False):
    """The bytes of a stream that begins at 5 and has ``tables`` before 6."""
    out = io.BytesIO()
    writer = FORMATS[name](out, errors)
    data = [field for field in tables[0].schema if not field.name.startswith("_mv_")]
    writer.start(pa.schema(data), Antichain.of(5), snapshot=snapshot, resumed=resumed)
    for each in tables:
        writer.updates(each)
    writer.progress(Antichain.of(6))
    return out.getvalue()


TEXTS = pa.array(["", None, 'a "b"'])


def test_ndjson():
    lines = stream("ndjson", table(x=TEXTS), snapshot=True, errors=True).decode().splitlines()
    assert lines[:2] == [
        '{"_mv_start":5,"_mv_snapshot":true}',
        '{"x":"","_mv_time":5,"_mv_diff":-2,"_mv_error":null}',
    ]
    assert lines[-1] == '{"_mv_progress":6}'
    assert json.loads(lines[3])["x"] == 'a "b"'


def test_a_stream_that_is_continued_begins_on_a_line_of_its_own():
    assert stream("ndjson", table(x=TEXTS), resumed=True).startswith(
        b'\n{"_mv_start":5,"_mv_snapshot":false}'
    )
    assert stream("csv", table(x=TEXTS), resumed=True).startswith(b'\n"x"')


def test_csv_distinguishes_null_from_the_empty_text():
    assert stream("csv", table(x=TEXTS, **{'n "1"': pa.array([1, None, 3])})).decode() == (
        '"x","n ""1""","_mv_time","_mv_diff","_mv_progress"\n'
        ',,,,5\n"",1,5,-2,\n,,5,-2,\n"a ""b""",3,5,-2,\n,,,,6\n'
    )


def test_csv_has_nested_values_as_json():
    assert b'"[""61""]",5,-2,' in stream("csv", table(x=pa.array([[b"a"]])))


def test_arrow_keeps_the_types():
    rows = table(x=pa.array([Decimal("1.5")], pa.decimal128(9, 2)), m=pa.array([[b"a"]]))
    whole = pa.ipc.open_stream(stream("arrow", rows)).read_all()
    assert (
        whole.select(["x", "m", "_mv_time", "_mv_diff"])
        .slice(1, 1)
        .equals(rows.select(["x", "m", "_mv_time", "_mv_diff"]))
    )
    assert whole.column("_mv_progress").to_pylist() == [5, None, 6]


@pytest.mark.parametrize("name", ["csv", "arrow"])
def test_a_column_that_is_added_within_a_stream_of_fixed_columns_is_refused(name):
    with pytest.raises(FeedColumnsChanged, match="x, y"):
        stream(name, table(x=TEXTS), table(x=TEXTS, y=TEXTS))


def test_ndjson_takes_a_column_that_is_added():
    assert '"y":null' in stream("ndjson", table(x=TEXTS), table(x=TEXTS, y=TEXTS)).decode()


def test_the_end_of_time():
    out = io.BytesIO()
    FORMATS["ndjson"](out, False).progress(Antichain.empty())
    assert out.getvalue() == b'{"_mv_progress":null}\n'
