"""Answers as a table for people and as JSON for programs.

A table leaves out the columns that have nothing to say in any row. On a terminal too narrow for it
the rows are written one below the other instead; where there is no terminal (a pipe, a log) lines
are as long as they need to be.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

import click
from rich import box, filesize
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dbt.adapters.mvsink.durations import iso

WIDEST = 10_000  # characters of a line where nobody looks at it on a terminal
WIDEST_CELL = 60
NARROWEST = 20  # of a column that is cut short
UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))
LONG_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))
T = TypeVar("T")


class Output(str, Enum):
    """``--output``."""

    TABLE = "table"
    JSON = "json"


takes_output = click.option(
    "--output",
    type=click.Choice([output.value for output in Output]),
    default=Output.TABLE.value,
    show_default=True,
)


@dataclass(frozen=True)
class Column(Generic[T]):
    """A column of a table: ``text`` of a row, "" for nothing. A column that may be left out is if
    all its cells are empty.

    One that ``shrinks`` is cut short (`…`) where a table with a greatest width has no room for it.
    """

    title: str
    text: Callable[[T], str]
    optional: bool = False
    right: bool = False
    shrinks: bool = False


def write_json(answer: Any) -> None:
    """Dataclasses, enums and plain values, as indented JSON on stdout."""
    click.echo(json.dumps(answer, indent=2))


def write_table(columns: Sequence[Column[T]], rows: Sequence[T], widest: int | None = None) -> None:
    """The rows on stdout, as a table or one below the other. ``widest``: a table's greatest width,
    also where there is no terminal.
    """
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=widest or WIDEST)
    cells = {column.title: [column.text(row) for row in rows] for column in columns}
    shown = [column for column in columns if not column.optional or any(cells[column.title])]
    room = min(console.width, widest or WIDEST)
    widths = (
        {}
        if widest is None
        else {c.title: max(map(cell_len, [c.title, *cells[c.title]])) for c in shown if c.shrinks}
    )
    table = _table(shown, cells, widths)
    excess = _width(console, table) - room
    if excess > 0 and widths:
        table = _table(shown, cells, _shrunk(widths, excess))
    if _width(console, table) <= room:
        console.print(table)
        return
    for index in range(len(rows)):
        (_, headline), *others = [(column.title, cells[column.title][index]) for column in shown]
        console.print(Text(headline, style="bold"))
        grid = _below_each_other([(title, text) for title, text in others if text])
        console.print(Padding(grid, (0, 0, 1, 2)))


def _table(
    columns: Sequence[Column[T]], cells: Mapping[str, Sequence[str]], widths: Mapping[str, int]
) -> Table:
    """``widths``: of the columns that are cut short."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for column in columns:
        cut = column.title in widths
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            max_width=widths.get(column.title, WIDEST_CELL),
            overflow="ellipsis" if cut else "fold",
            no_wrap=cut,
        )
    for row in zip(*(cells[column.title] for column in columns), strict=True):
        table.add_row(*map(Text, row))
    return table


def _shrunk(widths: Mapping[str, int], excess: int) -> dict[str, int]:
    """``excess`` less in all: the widest first, none below `NARROWEST`."""
    shrunk = dict(widths)
    for _ in range(excess):
        title = max(shrunk, key=lambda title: shrunk[title])
        shrunk[title] = max(min(NARROWEST, shrunk[title]), shrunk[title] - 1)
    return shrunk


def _width(console: Console, table: Table) -> int:
    return Measurement.get(console, console.options.update(width=WIDEST), table).maximum


def _below_each_other(cells: Sequence[tuple[str, str]]) -> Table:
    """A line for each cell of a row."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for title, text in cells:
        grid.add_row(title, Text(text))
    return grid


def time_text(time: int | None) -> str:
    """A time (ms) as ISO 8601 in UTC; "" for none."""
    return "" if time is None else iso(time)


def count_text(count: int | None) -> str:
    """A count with thousands set apart; "" for none."""
    return "" if count is None else f"{count:,}"


def bytes_text(size: int | None) -> str:
    """A size in decimal units; "" for none."""
    return "" if size is None else filesize.decimal(size)


def duration_text(duration: int | None) -> str:
    """A duration (ms) in its two largest units; "" for none.

    >>> duration_text(93_784_000), duration_text(5_000), duration_text(250), duration_text(3_600_000)
    ('1d 2h', '5s', '250ms', '1h')
    """
    if duration is None:
        return ""
    if duration < 1_000:
        return f"{duration}ms"
    parts, rest = [], duration
    for unit, length in UNITS:
        count, rest = divmod(rest, length)
        parts.append(f"{count}{unit}" if count else "")
    first = next(index for index, part in enumerate(parts) if part)
    return " ".join(part for part in parts[first : first + 2] if part)


def ago_text(past: int) -> str:
    """How long ago (ms) in its largest unit; a negative one is in the future.

    >>> ago_text(200_000), ago_text(5_000), ago_text(400), ago_text(93_784_000), ago_text(-1_200_000)
    ('3 min ago', '5 s ago', 'just now', '1 d ago', 'in 20 min')
    """
    if abs(past) < 1_000:
        return "just now"
    unit, length = next((unit, length) for unit, length in LONG_UNITS if abs(past) >= length)
    count = abs(past) // length
    return f"{count:,} {unit} ago" if past > 0 else f"in {count:,} {unit}"
