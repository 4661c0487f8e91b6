"""docs/first-day.md: mistakes of a newcomer's first day, with what is printed.

`…` in its table is for a text that differs from one machine or run to the next.
"""

from __future__ import annotations

import re

from tests.support.package_edges import ROOT

PAGE = ROOT / "docs" / "first-day.md"
ROWS = {
    name: printed
    for name, _, printed in re.findall(r"^\| (.+?) \| (.+?) \| (.+) \|$", PAGE.read_text(), re.M)[1:]
}


def printed(text: str) -> str:
    """The lines of a message as a cell, without click's usage."""
    lines = [" ".join(line.split()) for line in text.strip().splitlines() if line.strip()]
    return " <br> ".join(line for line in lines if not line.startswith(("Usage: ", "Try '"))).replace(
        "|", "\\|"
    )


def agrees(name: str, text: str) -> bool:
    """Whether ``text`` is what the page shows for the mistake."""
    parts = ROWS.get(name, "").split("…")
    return re.fullmatch(".*?".join(map(re.escape, parts)), printed(text)) is not None
