"""Prints answers: as a table for people, as Markdown for pull requests, or as JSON for programs.

A table omits columns that are empty in every row. On a terminal that is too narrow, each row is
written as a block of lines instead. Without a terminal (a pipe, a log) lines have any length.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
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

from dbt.adapters.mvsink.cli.errors import WrongUsage
from dbt.adapters.mvsink.durations import iso

MAX_WIDTH = 10_000  # characters of a line if the output is not a terminal
MAX_CELL_WIDTH = 60
MIN_WIDTH = 20  # characters that a column keeps when it is cut short
SHORT_COMMIT = 7  # characters of the name of a git commit
MAX_MARKDOWN = 300  # characters of a cell in Markdown
SPECIAL = "\\`*_|<>[]#~"  # characters with a meaning in Markdown
UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))
LONG_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))
T = TypeVar("T")
Option = Callable[[Any], Any]  # decorates a command
Values = Mapping[str, Any]  # an answer as its JSON


class Output(str, Enum):
    """``--output``."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


def count_option(name: str, default: int, help: str, least: int = 1) -> Option:
    """An option whose value is a number of things to show."""
    kind = click.IntRange(min=least)
    return click.option(name, type=kind, default=default, show_default=True, help=help)


takes_yes = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


@dataclass(frozen=True)
class TableColumn(Generic[T]):
    """A column of a table; ``text`` gives a row's cell.

    An ``optional`` column is omitted if all its cells are empty ("").

    A column that ``shrinks`` is cut short (`…`) where the table would exceed its maximum width.
    """

    title: str
    text: Callable[[T], str]
    optional: bool = False
    right: bool = False
    shrinks: bool = False


@dataclass(frozen=True)
class Printer:
    """Prints an answer in the form that ``--output`` names, and ignores what is for other forms.

    So a command calls all the methods that it has output for, without asking for the form:

    >>> printer = Printer(Output.TABLE)
    >>> printer.text("2 shards dropped")
    2 shards dropped
    >>> printer.json({"dropped": 2})
    """

    form: Output

    @property
    def is_text(self) -> bool:
        return self.form is Output.TABLE

    def check_can_ask(self, answered: bool, options: str = "--yes") -> None:
        """Raises `click.UsageError` if the form is JSON and the command would have to ask."""
        if not (self.is_text or answered):
            raise WrongUsage(f"--output json cannot ask: add {options}")

    def text(self, *lines: str) -> None:
        """Lines for people."""
        for line in lines if self.is_text else ():
            click.echo(line)

    def table(
        self, columns: Sequence[TableColumn[T]], rows: Sequence[T], max_width: int | None = None
    ) -> None:
        """See `write_table`."""
        if self.is_text:
            write_table(columns, rows, max_width)

    def markdown(self, lines: Iterable[str]) -> None:
        """Lines for a pull request."""
        if self.form is Output.MARKDOWN:
            click.echo("\n".join(lines))

    def json(self, values: Any) -> None:
        """Values as indented JSON: plain ones, enums and dataclasses."""
        if self.form is Output.JSON:
            click.echo(json.dumps(values, default=asdict, indent=2))


def output_option(*forms: Output) -> Option:
    """``--output`` with these forms, of which the first is the default. The command gets a
    `Printer`.
    """
    values = [form.value for form in forms]

    def printer(context: click.Context, option: click.Parameter, value: str) -> Printer:
        return Printer(Output(value))

    return click.option(
        "--output", type=click.Choice(values), default=values[0], show_default=True, callback=printer
    )


takes_output = output_option(Output.TABLE, Output.JSON)


def write_table(columns: Sequence[TableColumn[T]], rows: Sequence[T], max_width: int | None = None) -> None:
    """Write the rows to stdout as a table, or as blocks if the table is too wide. ``max_width``
    limits its lines on a terminal and elsewhere.
    """
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=max_width or MAX_WIDTH)
    cells = {column.title: [column.text(row) for row in rows] for column in columns}
    shown = [column for column in columns if not column.optional or any(cells[column.title])]
    room = min(console.width, max_width or MAX_WIDTH)
    widths = (
        {}
        if max_width is None
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
    columns: Sequence[TableColumn[T]], cells: Mapping[str, Sequence[str]], widths: Mapping[str, int]
) -> Table:
    """The table. ``widths`` are those of the columns that are cut short, by title."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for column in columns:
        cut = column.title in widths
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            max_width=widths.get(column.title, MAX_CELL_WIDTH),
            overflow="ellipsis" if cut else "fold",
            no_wrap=cut,
        )
    for row in zip(*(cells[column.title] for column in columns), strict=True):
        table.add_row(*map(Text, row))
    return table


def _shrunk(widths: Mapping[str, int], excess: int) -> dict[str, int]:
    """The widths reduced by ``excess`` in all: the widest column first, none below `MIN_WIDTH`."""
    shrunk = dict(widths)
    for _ in range(excess):
        title = max(shrunk, key=lambda title: shrunk[title])
        shrunk[title] = max(min(MIN_WIDTH, shrunk[title]), shrunk[title] - 1)
    return shrunk


def _width(console: Console, table: Table) -> int:
    return Measurement.get(console, console.options.update(width=MAX_WIDTH), table).maximum


def _below_each_other(cells: Sequence[tuple[str, str]]) -> Table:
    """A row as a block: one line per cell, with the column's title before it."""
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
    """A count with commas between thousands; "" for none."""
    return "" if count is None else f"{count:,}"


def bytes_text(size: int | None) -> str:
    """A size in decimal units; "" for none."""
    return "" if size is None else filesize.decimal(size)


def duration_text(duration: int | None) -> str:
    """A duration (ms) in its two largest units; "" for none.

    >>> [duration_text(duration) for duration in (93_784_000, 5_000, 250, 3_600_000)]
    ['1d 2h', '5s', '250ms', '1h']
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


def author_text(author: Mapping[str, str] | None) -> str:
    """Who made a commit.

    >>> author_text({"user": "ada", "branch": "main", "commit": "1f3c5a7b9d", "dirty": "yes"})
    'ada, main 1f3c5a7 and changes'
    """
    of = author or {}
    git = " ".join(filter(None, (of.get("branch"), of.get("commit", "")[:SHORT_COMMIT])))
    changed = " and changes" if git and of.get("dirty") == "yes" else ""
    return ", ".join(filter(None, (of.get("user"), git + changed)))


def ago_text(past: int) -> str:
    """How long ago (ms) something was, in the largest unit. A negative number is in the future.

    >>> [ago_text(past) for past in (200_000, 5_000, 400, 93_784_000, -1_200_000)]
    ['3 min ago', '5 s ago', 'just now', '1 d ago', 'in 20 min']
    """
    if abs(past) < 1_000:
        return "just now"
    return f"{age_text(past)} ago" if past > 0 else f"in {age_text(-past)}"


def age_text(age: int) -> str:
    """A duration (ms) in its largest unit.

    >>> [age_text(age) for age in (200_000, 400, 93_784_000)]
    ['3 min', '0 s', '1 d']
    """
    unit, length = next((unit for unit in LONG_UNITS if age >= unit[1]), LONG_UNITS[-1])
    return f"{age // length:,} {unit}"


def comment(
    title: str, columns: Sequence[TableColumn[T]], rows: Sequence[T], details: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """A comment on a pull request, in the Markdown of GitHub and GitLab.

    It has a table of the rows. Below it are the ``details``, folded: lines of code about a row, by
    the text of the row's first cell.
    """
    yield from (f"### {escaped(title)}", "")
    shown = [column for column in columns if not column.optional or any(map(column.text, rows))]
    cells = [[column.title for column in shown], *([column.text(row) for column in shown] for row in rows)]
    lines = [f"| {' | '.join(escaped(_cut(cell)) for cell in each)} |" for each in cells]
    yield from (
        lines[0],
        f"| {' | '.join('---:' if column.right else '---' for column in shown)} |",
        *lines[1:],
    )
    for name, about in details.items():
        if about:
            yield from (
                "",
                f"<details><summary>{escaped(name)}</summary>",
                "",
                *fenced(about),
                "",
                "</details>",
            )


def _cut(cell: str) -> str:
    return cell if len(cell) <= MAX_MARKDOWN else cell[: MAX_MARKDOWN - 1] + "…"


def escaped(text: str) -> str:
    """The text on one line, with Markdown's special characters escaped."""
    one_line = " ".join(text.split())
    return "".join("\\" + character if character in SPECIAL else character for character in one_line)


def fenced(lines: Sequence[str]) -> Iterator[str]:
    """A block of code, in which nothing is markup; lines that begin with + and - are coloured."""
    fence = "```"
    while any(fence in line for line in lines):
        fence += "`"
    yield from (f"{fence}diff", *(" ".join(line.splitlines()) for line in lines), fence)
