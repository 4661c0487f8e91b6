"""A plan as one comment on a pull request, in the Markdown of GitHub and GitLab.

A table has a line per model. Below it are folded samples, as code blocks, in which nothing is
markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from dbt.adapters.mvsink.cli.render import TableColumn

SPECIAL = "\\`*_|<>[]#~"
LONGEST = 300  # characters of a cell
T = TypeVar("T")


def comment(
    title: str, columns: Sequence[TableColumn[T]], rows: Sequence[T], details: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """The lines of the comment. ``details``: lines about a row, by its first cell."""
    yield f"### {escaped(title)}"
    yield ""
    shown = [column for column in columns if not column.optional or any(map(column.text, rows))]
    yield _line([column.title for column in shown])
    yield _line(["---:" if column.right else "---" for column in shown], plain=False)
    for row in rows:
        yield _line([column.text(row) for column in shown])
    for name, lines in details.items():
        if lines:
            yield from _folded(name, lines)


def escaped(text: str) -> str:
    """Plain text on one line."""
    one_line = " ".join(text.split())
    cut = one_line if len(one_line) <= LONGEST else one_line[: LONGEST - 1] + "…"
    return "".join("\\" + character if character in SPECIAL else character for character in cut)


def _line(cells: Sequence[str], *, plain: bool = True) -> str:
    return f"| {' | '.join(map(escaped, cells) if plain else cells)} |"


def _folded(name: str, lines: Sequence[str]) -> Iterator[str]:
    fence = "```"
    while any(fence in line for line in lines):
        fence += "`"
    yield from ("", f"<details><summary>{escaped(name)}</summary>", "", f"{fence}diff")
    yield from (" ".join(line.splitlines()) for line in lines)
    yield from (fence, "", "</details>")
