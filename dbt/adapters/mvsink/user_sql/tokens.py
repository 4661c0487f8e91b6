"""The words of a text by index, with matching parentheses and lookups on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dbt.adapters.mvsink.user_sql.algebra import Fragment, Refused
from dbt.adapters.mvsink.user_sql.marks import NOW
from dbt.adapters.mvsink.user_sql.words import Word, words

_JOIN_WORDS = frozenset({"NATURAL", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI"})


class Tokens:
    """The words of ``text``. Ranges are ``[low, high)``. Raises `Refused`, `Unreadable`."""

    def __init__(self, text: str):
        self.text, self.words = text, words(text)
        self._pairs: dict[int, int] = {}
        open_ones: list[int] = []
        for index, word in enumerate(self.words):
            if word.upper == "(":
                open_ones.append(index)
            elif word.upper == ")":
                if not open_ones:
                    raise Refused("a parenthesis that nothing opens", word.start)
                opening = open_ones.pop()
                self._pairs[opening], self._pairs[index] = index, opening
        if open_ones:
            raise Refused("a parenthesis that is not closed", self.words[open_ones[0]].start)

    def upper(self, index: int) -> str:
        """The word as syntax: empty for everything quoted, and beyond the text."""
        return self.words[index].upper if 0 <= index < len(self.words) else ""

    def at(self, index: int) -> int:
        """The position of the word; the end of the text beyond the last one."""
        return self.words[index].start if index < len(self.words) else len(self.text)

    def end(self, index: int) -> int:
        """The position behind the word before ``index``."""
        return self.words[index - 1].end if index else 0

    def fragment(self, low: int, high: int) -> Fragment:
        if low >= high:
            raise Refused("a clause without content", self.at(low))
        return Fragment(self.at(low), self.end(high))

    def marks(self) -> tuple[tuple[int, int], ...]:
        """Where the text calls `mv_now()`; not in comments and literals."""
        starts = {word.start for word in self.words}
        calls = (match for match in NOW.finditer(self.text) if match.start() in starts)
        return tuple((match.start(), match.start() + match[0].index(")") + 1) for match in calls)

    def closing(self, index: int) -> int:
        """The index of the parenthesis that closes the one at ``index``."""
        if self.upper(index) != "(":
            raise Refused("syntax that cannot be analyzed", self.at(index))
        return self._pairs[index]

    def opening(self, index: int) -> int:
        return self._pairs[index]

    def around(self, index: int) -> int | None:
        """The index of the innermost parenthesis that is open at ``index``."""
        open_ones = [opening for opening, close in self._pairs.items() if opening < index < close]
        return max(open_ones, default=None)

    def level(self, low: int, high: int) -> Iterator[int]:
        """The indexes in the range outside deeper parentheses, which appear as their opening."""
        index = low
        while index < high:
            yield index
            index = self._pairs[index] + 1 if self.upper(index) == "(" else index + 1

    def split(self, low: int, high: int) -> list[tuple[int, int]]:
        """The range at its commas."""
        commas = [index for index in self.level(low, high) if self.upper(index) == ","]
        return list(zip([low, *(index + 1 for index in commas)], [*commas, high], strict=True))

    def conjuncts(self, low: int, high: int) -> list[tuple[int, int]]:
        """The range at the ANDs that connect its conjuncts; an OR makes it one."""
        cuts: list[int] = []
        between = cases = 0
        for index in self.level(low, high):
            upper = self.upper(index) if self.upper(index - 1) != "." else ""
            if upper == "OR" and not cases:
                return [(low, high)]
            cases += {"CASE": 1, "END": -1}.get(upper, 0)
            if cases:
                continue
            if upper == "BETWEEN":
                between += 1
            elif upper == "AND" and between:
                between -= 1
            elif upper == "AND":
                cuts.append(index)
        return list(zip([low, *(index + 1 for index in cuts)], [*cuts, high], strict=True))

    def name(self, index: int) -> str:
        """The name at ``index``."""
        if index >= len(self.words) or not self.words[index].is_name:
            raise Refused("syntax that cannot be analyzed", self.at(index))
        return self.words[index].text

    def name_list(self, index: int) -> tuple[int, tuple[str, ...]]:
        """The names in parentheses at ``index``, if there are any, and the index behind them."""
        if self.upper(index) != "(":
            return index, ()
        close = self.closing(index)
        spans = self.split(index + 1, close)
        if any(high != low + 1 for low, high in spans):
            raise Refused("syntax that cannot be analyzed", self.at(index))
        return close + 1, tuple(self.name(low) for low, _ in spans)

    def is_name_dots(self, low: int, high: int) -> bool:
        """Whether the range is ``a.b.``, of any number of parts."""
        return all(
            self.upper(index) == "." if (index - low) % 2 else self.words[index].is_name
            for index in range(low, high)
        ) and (high - low) % 2 == 0  # fmt: skip

    def hint(self, index: int) -> int | None:
        """The index behind the hint at ``index``, None if there is none."""
        if index >= len(self.words) or not self.words[index].text.startswith("/*+"):
            return None
        for behind in range(index, len(self.words)):
            if self.words[behind].text.endswith("*/"):
                return behind + 1
        raise Refused("a hint that is not closed", self.at(index))

    def join_words(self, index: int) -> list[str]:
        """The words of the join that starts at ``index``, its JOIN included; none if none does."""
        upper: list[str] = []
        while self.upper(index) in _JOIN_WORDS:
            upper.append(self.upper(index))
            index += 1
        return [*upper, "JOIN"] if self.upper(index) == "JOIN" else []


def chains(inside: Sequence[Word]) -> Iterator[list[Word]]:
    """Names and qualified names, without those that are called."""
    at = 0
    while at < len(inside):
        chain = [inside[at]]
        at += 1
        if not chain[0].is_name:
            continue
        while at + 1 < len(inside) and inside[at].text == "." and inside[at + 1].is_name:
            chain.append(inside[at + 1])
            at += 2
        if at >= len(inside) or inside[at].text != "(":
            yield chain
