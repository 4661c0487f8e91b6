"""Answers as a table for people and as JSON for programs.

A table leaves out the columns that have nothing to say in any row. On a terminal too narrow for it the rows are written one below the
other instead; where there is no terminal (a pipe, a log) lines are as long as they need to be.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

import click
from rich import box, filesize
from rich.console import Console
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dbt.adapters.mvsink.durations import iso

WIDEST = 10_000  # characters of a line where nobody looks at it on a terminal
WIDEST_CELL = 60
UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))
T = TypeVar("T")


class Output(str, Enum):
    """``--output``."""

    TABLE = "table"
    JSON = "json"


takes_output = click.option(
    "--output", type=click.Choice([output.value for output in Output]), default=Output.TABLE.value, show_default=True
)


@dataclass(frozen=True)
class Column(Generic[T]):
    """A column of a table: ``text`` of a row, "" for nothing. A column that may be left out is if all its cells are empty."""

    title: str
    text: Callable[[T], str]
    optional: bool = False
    right: bool = False


def write_json(answer: Any) -> None:
    """Dataclasses, enums and plain values, as indented JSON on stdout."""
    click.echo(json.dumps(answer, indent=2))


def write_table(columns: Sequence[Column[T]], rows: Sequence[T]) -> None:
    """The rows on stdout, as a table or one below the other."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDEST)
    cells = {column.title: [column.text(row) for row in rows] for column in columns}
    shown = [column for column in columns if not column.optional or any(cells[column.title])]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for column in shown:
        table.add_column(column.title, justify="right" if column.right else "left", max_width=WIDEST_CELL, overflow="fold")
    for index in range(len(rows)):
        table.add_row(*(Text(cells[column.title][index]) for column in shown))
    if Measurement.get(console, console.options.update(width=WIDEST), table).maximum <= console.width:
        console.print(table)
        return
    for index in range(len(rows)):
        (_, headline), *others = [(column.title, cells[column.title][index]) for column in shown]
        console.print(Text(headline, style="bold"))
        grid = _below_each_other([(title, text) for title, text in others if text])
        console.print(Padding(grid, (0, 0, 1, 2)))


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
