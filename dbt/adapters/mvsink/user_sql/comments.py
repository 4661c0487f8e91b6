r"""Where comments and quotes are in Spark SQL, by the rules of Spark's own lexer.

No other reader of SQL has these rules: a `--` comment that ends in a backslash continues on the
next line, comments in `/* */` nest, `/*+` begins a hint and not a comment, `r'\'` ends at its
second quote, `$$ it's $$` is a text, and a no-break space is a blank. So every reader of a text,
sqlglot included, reads it `blanked`, in which every other character keeps its position.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dbt.adapters.mvsink.engine import DataflowError

_PIECE = re.compile(
    r"""
    (?P<raw>[rR](?:'[^']*'|"[^"]*"))
    | (?P<word>\w+)
    | (?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`)
    | (?P<dollars>\$(?P<tag>[A-Za-z]*)\$.*?\$(?P=tag)\$)
    | (?P<line>--(?:\\\n|[^\r\n])*)
    | (?P<bracketed>/\*(?!\+))
    | (?P<blank>[\x0b\x0c\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000])
    | (?P<open>['"`])
    """,
    re.VERBOSE | re.DOTALL,
)
_BRACKETS = re.compile(r"/\*(?!\+)|\*/")
_SHOWN = re.compile(r"[^\r\n]")


class UnreadableText(DataflowError):
    """A text that has no tokens."""

    error_code = "MVS-642"

    def __init__(self) -> None:
        super().__init__("a quote or a comment is not closed")


def blanked(sql: str) -> str:
    """``sql`` with blanks in place of its comments, and a text in `'` of the same length in place
    of one in `$$`. Lines stay lines. Raises `UnreadableText`.
    """
    pieces = []
    for kind, shown in _pieces(sql):
        if kind in ("bracketed", "line", "blank"):
            shown = _SHOWN.sub(" ", shown)
        elif kind == "dollars":
            shown = f"'{' ' * (len(shown) - 2)}'"
        pieces.append(shown)
    return "".join(pieces)


def _pieces(sql: str) -> Iterator[tuple[str | None, str]]:
    """All of ``sql``, and what each piece is."""
    at = 0
    while (match := _PIECE.search(sql, at)) is not None:
        start, kind = match.start(), match.lastgroup
        if kind == "open":
            raise UnreadableText
        end = _closing(sql, start) if kind == "bracketed" else match.end()
        yield None, sql[at:start]
        yield kind, sql[start:end]
        at = end
    yield None, sql[at:]


def goes_on(sql: str) -> bool:
    """Whether the last comment of ``sql`` would continue on a line after it."""
    return sql.endswith("\\") and blanked(f"{sql}\n)")[-1] != ")"


def without_lines(sql: str) -> str:
    """``sql`` without its `--` comments, so that more text can follow in the same line."""
    return "".join(shown for kind, shown in _pieces(sql) if kind != "line")


def _closing(sql: str, start: int) -> int:
    """Where the comment ends that begins at ``start``."""
    depth = 0
    for bracket in _BRACKETS.finditer(sql, start):
        depth += -1 if bracket[0] == "*/" else 1
        if depth == 0:
            return bracket.end()
    raise UnreadableText
