"""Rows of a sample as a table of text, for a terminal and for a block of code in Markdown.

   id  amount     status
!   7  2 -> 3     'paid'
+   9  5          'open'  (2 copies)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

MAX_VALUE = 60  # characters of a value


@dataclass(frozen=True)
class ShownRow:
    """``mark`` says what happened to the row: ``+``, ``-`` or ``!``. ``cells`` are texts by column;
    an ``error`` in their place is one that was recorded.
    """

    mark: str
    cells: Mapping[str, str]
    copies: int = 1
    error: str = ""


def row_lines(rows: Sequence[ShownRow], columns: Sequence[str]) -> Iterator[str]:
    """A heading and a line for each row, with these columns; errors below them."""
    shown = [row for row in rows if not row.error]
    cells = [["", *columns], *([row.mark, *(row.cells.get(name, "") for name in columns)] for row in shown)]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    copies = [1, *(row.copies for row in shown)]
    for line, count in zip(cells, copies, strict=True) if shown else ():
        padded = (text + " " * (width - cell_len(text)) for text, width in zip(line, widths, strict=True))
        yield "  ".join(padded).rstrip() + (f"  ({count} copies)" if count > 1 else "")
    for row in rows:
        if row.error:
            yield f"{row.mark}  error: {row.error}" + (f"  ({row.copies} copies)" if row.copies > 1 else "")


def shown_value(value: object) -> str:
    """A value on one line; NULL is distinct from the text "NULL"."""
    if value is None:
        return "NULL"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…"
