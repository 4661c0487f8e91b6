"""Reads a task's tokens from left to right. Every error names its place in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from dbt.adapters.mvsink.continual_task.errors import Place, StatementSyntax
from dbt.adapters.mvsink.user_sql.words import Word, alias_after, closing

QUERY_STARTS = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE", "MAP", "REDUCE", "("})
_MARKS = re.compile(r"(?:\s*/\* mv_\w+ \*/)+")


@dataclass
class Cursor:
    """The words ``[at, end)`` of ``source``; ``at`` moves. ``statement`` is the number of the
    current one.
    """

    model: str
    source: str
    stream: Sequence[Word] = field(repr=False)
    at: int
    end: int
    statement: int | None = None

    def part(self, start: int, end: int, statement: int | None = None) -> Cursor:
        """Another cursor over a part of the words."""
        return replace(self, at=start, end=end, statement=self.statement if statement is None else statement)

    @property
    def done(self) -> bool:
        return self.at >= self.end

    @property
    def upper(self) -> str:
        """The next word as syntax."""
        return self.ahead(0)

    def ahead(self, count: int) -> str:
        return self.stream[self.at + count].upper if self.at + count < self.end else ""

    def place(self, index: int | None = None) -> Place:
        """The position of the word at ``index`` (by default the next), or the end of the last
        word.
        """
        index = self.at if index is None else index
        if index < self.end:
            offset = self.stream[index].start
        else:
            offset = self.stream[self.end - 1].end if self.end else len(self.source)
        return Place(self.model, self.source, offset, self.statement)

    def fail(self, message: str, index: int | None = None) -> StatementSyntax:
        """An error at the word with that index (default: the next one)."""
        return StatementSyntax(self.place(index), message)

    def shown(self) -> str:
        """The next word for a message."""
        return "nothing" if self.done else self.text(self.at, self.at + 1)

    def text(self, start: int, end: int) -> str:
        """The source from word ``start`` to before ``end``, with the marks of our macros right
        after it.
        """
        if start >= end:
            return ""
        behind = _MARKS.match(self.source, self.stream[end - 1].end)
        return self.source[self.stream[start].start : behind.end() if behind else self.stream[end - 1].end]

    def take(self, *keywords: str) -> bool:
        """Move past ``keywords`` if they come next."""
        if all(self.ahead(count) == keyword for count, keyword in enumerate(keywords)):
            self.at += len(keywords)
            return True
        return False

    def expect(self, *keywords: str) -> None:
        """Move past ``keywords``. Raises an error at the first different word."""
        for keyword in keywords:
            if not self.take(keyword):
                raise self.fail(f"expected {keyword}, got {self.shown()}")

    def name(self, what: str) -> tuple[str, ...]:
        """Move past a dotted name; its parts, unquoted."""
        names: list[str] = []
        while True:
            if self.done or not self.stream[self.at].is_name:
                raise self.fail(f"expected {what}, got {self.shown()}")
            names.append(self.stream[self.at].text)
            self.at += 1
            if not self.take("."):
                return tuple(names)

    def alias(self) -> str | None:
        """Move past an alias if one comes next."""
        name, self.at = alias_after(self.stream[: self.end], self.at)
        return name

    def parenthesized(self) -> Cursor:
        """Move past a pair of parentheses; a cursor over what is inside."""
        if self.upper != "(":
            raise self.fail(f"expected (, got {self.shown()}")
        opening, end = self.at, closing(self.stream[: self.end], self.at)
        if end == self.end:
            raise self.fail("this parenthesis is not closed", opening)
        self.at = end + 1
        return self.part(opening + 1, end)

    def expression(self, what: str, *ends: str) -> str:
        """Move to the next of ``ends`` outside parentheses and CASE, or the end; text before it."""
        start = self.at
        self.at = next((index for index in self.outside() if self.stream[index].upper in ends), self.end)
        if start == self.at:
            raise self.fail(f"expected {what}, got {self.shown()}")
        return self.text(start, self.at)

    def outside(self) -> Iterator[int]:
        """The indexes of the words outside parentheses and CASE ... END."""
        depth = cases = 0
        for index in range(self.at, self.end):
            upper = self.stream[index].upper
            qualified = index > 0 and self.stream[index - 1].upper == "."
            depth += {"(": 1, ")": -1}.get(upper, 0)
            if depth == 0 and upper == "END" and cases and not qualified:
                cases -= 1
            elif depth == 0 and cases == 0 and upper != ")" and upper != "CASE":
                yield index
            elif depth == 0 and upper == "CASE" and not qualified:
                cases += 1

    def pieces(self, separator: str) -> list[Cursor]:
        """The parts between each ``separator`` outside parentheses."""
        marks = [index for index in self.outside() if self.stream[index].upper == separator]
        starts, ends = [self.at, *(index + 1 for index in marks)], [*marks, self.end]
        return [self.part(start, end) for start, end in zip(starts, ends, strict=True)]

    def query(self) -> str:
        """The rest, which must be a query."""
        if self.upper not in QUERY_STARTS:
            raise self.fail(f"expected a query, got {self.shown()}")
        return self.text(self.at, self.end)

    def ctes(self) -> str | None:
        """Move past a WITH clause if one comes next; its text."""
        start = self.at
        if not self.take("WITH"):
            return None
        self.take("RECURSIVE")
        while True:
            self.name("the name of a common table expression")
            if self.upper == "(":
                self.parenthesized()
            self.expect("AS")
            self.parenthesized()
            if not self.take(","):
                return self.text(start, self.at)
