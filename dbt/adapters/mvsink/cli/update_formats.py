"""The formats in which `mvsink subscribe` writes a stream of updates: ndjson, CSV, Arrow's IPC.

A stream in ndjson, of a model with the column `id`:

    {"_mv_start":1763650800001,"_mv_snapshot":false}
    {"id":7,"_mv_time":1763650860000,"_mv_diff":1}
    {"_mv_progress":1763650860001}

It begins with a start line: `_mv_start` is the frontier (ms) that the stream begins at, and
`_mv_snapshot` says whether its first updates are the whole contents. Each update has the model's
columns, `_mv_time` (ms), `_mv_diff`, and on request `_mv_error`. A progress line says that all
updates before the frontier `_mv_progress` (ms) have been written; null is the end of time, after
which nothing comes.

CSV and Arrow have a header with the columns instead of a start line, then a progress row with the
frontier that the stream begins at. Every row of theirs has the column `_mv_progress`, which is NULL
in updates; in progress rows, the end of time is the largest 64-bit integer.

In text, integers, booleans and floats are written as such, but NaN, Infinity and -Infinity as
strings. Decimals are strings with all their digits, dates and timestamps strings in ISO 8601 (with
`Z` if they have a zone), binary values hexadecimal digits. A map is a list of `{"key": ...,
"value": ...}`.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.csv as pacsv

from dbt.adapters.mvsink.physical import DIFF, ERROR, TIME
from dbt.adapters.mvsink.shard import Antichain

START, SNAPSHOT, PROGRESS = "_mv_start", "_mv_snapshot", "_mv_progress"
META = (TIME, DIFF, ERROR)


class FeedColumnsChanged(Exception):
    """The model's columns changed within a stream whose format fixes them at its beginning."""


class UpdateWriter(Protocol):
    """Writes one stream. It keeps nothing back: once the output is flushed, all is written."""

    def start(self, schema: pa.Schema, frontier: Antichain, *, snapshot: bool, resumed: bool) -> None:
        """Begin a stream of updates with these data columns.

        ``resumed`` means that the output may already end in the middle of a line, because an
        earlier process was killed while it wrote.
        """
        ...

    def updates(self, table: pa.Table) -> None:
        """Write updates: a table of the data columns, `_mv_time`, `_mv_diff` and `_mv_error`.
        Raises `FeedColumnsChanged`.
        """
        ...

    def progress(self, frontier: Antichain) -> None:
        """Write that all updates before ``frontier`` have been written."""
        ...


class NdjsonWriter:
    """One JSON object per line. Each row becomes a Python object, which is slow, but no slower than
    the consumer that parses the text.
    """

    def __init__(self, out: BinaryIO, errors: bool):
        self.out, self.errors = out, errors

    def start(self, schema: pa.Schema, frontier: Antichain, *, snapshot: bool, resumed: bool) -> None:
        """See `UpdateWriter`."""
        if resumed:
            self.out.write(b"\n")
        self._line({START: frontier.as_option(), SNAPSHOT: snapshot})

    def updates(self, table: pa.Table) -> None:
        """See `UpdateWriter`."""
        shown = table if self.errors else table.drop_columns([ERROR])
        columns = [json_values(column) for column in shown.columns]
        lines = (dump(dict(zip(shown.column_names, row, strict=True))) for row in zip(*columns, strict=True))
        self.out.write("".join(f"{line}\n" for line in lines).encode())

    def progress(self, frontier: Antichain) -> None:
        """See `UpdateWriter`."""
        self._line({PROGRESS: frontier.as_option()})

    def _line(self, value: dict[str, Any]) -> None:
        self.out.write(f"{dump(value)}\n".encode())


class _Fixed(ABC):
    """What the formats share whose header fixes the columns."""

    def __init__(self, out: BinaryIO, errors: bool):
        self.out, self.errors = out, errors
        self.schema = pa.schema([])

    def start(self, schema: pa.Schema, frontier: Antichain, *, snapshot: bool, resumed: bool) -> None:
        """See `UpdateWriter`."""
        meta = [(TIME, pa.int64()), (DIFF, pa.int64()), *([(ERROR, pa.string())] if self.errors else [])]
        names = [pa.field(name, kind) for name, kind in (*meta, (PROGRESS, pa.int64()))]
        self.schema = pa.schema([*schema, *names])
        self._begin(resumed)
        self.progress(frontier)

    def updates(self, table: pa.Table) -> None:
        """See `UpdateWriter`."""
        data = [field for field in table.schema if field.name not in META]
        mine = [field for field in self.schema if field.name not in (*META, PROGRESS)]
        if data != mine:
            raise FeedColumnsChanged(", ".join(field.name for field in data))
        none = pa.nulls(table.num_rows, pa.int64())
        self._write(
            pa.table(
                [none if name == PROGRESS else table.column(name) for name in self.schema.names], self.schema
            )
        )

    def progress(self, frontier: Antichain) -> None:
        """See `UpdateWriter`. The end of time is the largest integer here, because NULL in this
        column marks an update.
        """
        values = {PROGRESS: pa.array([frontier.stored()], pa.int64())}
        self._write(
            pa.table([values.get(field.name, pa.nulls(1, field.type)) for field in self.schema], self.schema)
        )

    @abstractmethod
    def _begin(self, resumed: bool) -> None:
        """Write what precedes all updates."""

    @abstractmethod
    def _write(self, table: pa.Table) -> None:
        """Write rows in the schema."""


class CsvWriter(_Fixed):
    """CSV as in RFC 4180. NULL is an empty field, the empty text `""`."""

    def _begin(self, resumed: bool) -> None:
        self.out.write(
            (
                ("\n" if resumed else "") + ",".join(f'"{_doubled(n)}"' for n in self.schema.names) + "\n"
            ).encode()
        )

    def _write(self, table: pa.Table) -> None:
        columns = [_texts(column) for column in table.columns]
        options = pacsv.WriteOptions(include_header=False, quoting_style="needed")
        pacsv.write_csv(pa.table(columns, names=table.column_names), self.out, options)


class ArrowWriter(_Fixed):
    """Arrow's IPC stream, with the columns' own types."""

    stream: Any = None

    def _begin(self, resumed: bool) -> None:
        self.stream = pa.ipc.new_stream(self.out, self.schema)

    def _write(self, table: pa.Table) -> None:
        self.stream.write_table(table)


FORMATS: dict[str, Callable[[BinaryIO, bool], UpdateWriter]] = {
    "ndjson": NdjsonWriter,
    "csv": CsvWriter,
    "arrow": ArrowWriter,
}


def dump(value: Any) -> str:
    """Compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def json_values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """The values of a column as `json` can write them, None for NULL."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
    kind = array.type
    if pa.types.is_nested(kind):
        return _nested(array, kind)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        # Arrow's cast, because Python's calendar has the years 1 to 9999 only
        return [
            None if text is None else text.replace(" ", "T") for text in array.cast(pa.string()).to_pylist()
        ]
    return [_plain(value, kind) for value in array.to_pylist()]


def _plain(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_floating(kind):
        if math.isnan(value):
            return "NaN"
        return value if math.isfinite(value) else f"{'-' if value < 0 else ''}Infinity"
    if pa.types.is_decimal(kind):
        return f"{value:f}"
    return value.hex() if isinstance(value, bytes) else value


def _nested(array: pa.Array, kind: pa.DataType) -> list[Any]:
    valid = array.is_valid().to_pylist()
    if pa.types.is_struct(kind):
        fields = [json_values(array.field(number)) for number in range(kind.num_fields)]
        names = [kind.field(number).name for number in range(kind.num_fields)]
        return [
            dict(zip(names, (field[row] for field in fields), strict=True)) if valid[row] else None
            for row in range(len(array))
        ]
    if pa.types.is_map(kind):
        entries: Sequence[Any] = [
            {"key": key, "value": value}
            for key, value in zip(json_values(array.keys), json_values(array.items), strict=True)
        ]
    else:
        entries = json_values(array.values)
    offsets = array.offsets.to_pylist()
    return [
        list(entries[offsets[row] : offsets[row + 1]]) if valid[row] else None for row in range(len(array))
    ]


def _texts(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A column as it is written to CSV, where only texts are quoted."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return column
    values = json_values(column)
    return pa.array(
        [value if value is None or isinstance(value, str) else dump(value) for value in values],
        pa.string(),
    )


def _doubled(name: str) -> str:
    return name.replace('"', '""')
