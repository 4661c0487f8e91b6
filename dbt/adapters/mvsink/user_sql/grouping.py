"""Reading GROUP BY, WINDOW, and the calls of aggregates and window functions by their tokens."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from dbt.adapters.mvsink.user_sql.algebra import Call, Fragment, Refused, Subquery, Window
from dbt.adapters.mvsink.user_sql.functions import AGGREGATES, WINDOWS
from dbt.adapters.mvsink.user_sql.tokens import Tokens

Span = tuple[int, int]  # of words
_SETS = frozenset({"ROLLUP", "CUBE", "GROUPING", "WITH"})
_FRAMES = frozenset({"ROWS", "RANGE", "GROUPS"})
_BEHIND_AN_ORDER = frozenset({"ASC", "DESC", "NULLS", "FIRST", "LAST"})
_QUANTIFIERS = frozenset({"ANY", "SOME"})  # behind LIKE
_MODIFIERS = {"FILTER": 1, "WITHIN": 2}  # of a call, and where their parenthesis is


def read(
    tokens: Tokens, selected: Span, clauses: Mapping[str, Span], subqueries: Collection[Subquery]
) -> tuple[tuple[Fragment, ...], tuple[Window, ...], tuple[Call, ...]]:
    """A block's `keys`, `windows` and `calls`. ``selected``: the words of its select list;
    ``clauses``: those behind GROUP, HAVING and WINDOW. What ``subqueries`` have is not the block's.
    """
    reader = _Reader(tokens, subqueries)
    named = dict(reader.named(*clauses["WINDOW"])) if "WINDOW" in clauses else {}
    reads = [selected, *([clauses["HAVING"]] if "HAVING" in clauses else [])]
    calls = [each for span in reads for each in reader.calls(*span, named)]
    inside = [call.window for call in calls if call.window is not None and call.window not in named.values()]
    keys = reader.keys(*clauses["GROUP"]) if "GROUP" in clauses else ()
    return keys, (*inside, *named.values()), tuple(calls)


class _Reader:
    def __init__(self, tokens: Tokens, subqueries: Collection[Subquery]):
        self.tokens, self.subqueries = tokens, subqueries

    def keys(self, low: int, high: int) -> tuple[Fragment, ...]:
        """The expressions behind BY; none for ALL."""
        if high == low + 2 and self.tokens.upper(low + 1) == "ALL":
            return ()
        for index in self.tokens.level(low, high):
            if self.tokens.upper(index) in _SETS and self.tokens.upper(index - 1) != ".":
                raise Refused("ROLLUP, CUBE or GROUPING SETS", self.tokens.at(index))
        return tuple(self.tokens.fragment(*span) for span in self.tokens.split(low + 1, high))

    def named(self, low: int, high: int) -> Iterator[tuple[str, Window]]:
        for first, last in self.tokens.split(low, high):
            opening = first + 2
            if self.tokens.upper(first + 1) != "AS" or self.tokens.closing(opening) != last - 1:
                raise Refused("a WINDOW clause that cannot be analyzed", self.tokens.at(first))
            yield self.tokens.name(first).lower(), self._window(opening)

    def calls(self, low: int, high: int, named: Mapping[str, Window]) -> Iterator[Call]:
        for index in range(low, high):
            name, before = self.tokens.words[index].text.lower(), self.tokens.upper(index - 1)
            called = self.tokens.words[index].is_name and self.tokens.upper(index + 1) == "("
            quantifies = self.tokens.upper(index) in _QUANTIFIERS and before in ("LIKE", "ILIKE")
            own = called and not self._below(self.tokens.at(index))
            if own and name in AGGREGATES | WINDOWS and before != "." and not quantifies:
                yield self._call(index, name, named)

    def _below(self, at: int) -> bool:
        return any(subquery.start <= at < subquery.end for subquery in self.subqueries)

    def _call(self, index: int, name: str, named: Mapping[str, Window]) -> Call:
        closing = self.tokens.closing(index + 1)
        first = index + 2 + (self.tokens.upper(index + 2) in ("DISTINCT", "ALL"))
        arguments = (
            tuple(self.tokens.fragment(*span) for span in self.tokens.split(first, closing))
            if first < closing
            else ()
        )
        window = self._over(closing + 1, named)
        return Call(self.tokens.at(index), self.tokens.end(closing + 1), name, arguments, window)

    def _over(self, index: int, named: Mapping[str, Window]) -> Window | None:
        """The window of the call that ends before ``index``."""
        while True:
            upper = self.tokens.upper(index)
            if upper in ("IGNORE", "RESPECT") and self.tokens.upper(index + 1) == "NULLS":
                index += 2
            elif upper in _MODIFIERS and self.tokens.upper(index + _MODIFIERS[upper]) == "(":
                index = self.tokens.closing(index + _MODIFIERS[upper]) + 1
            else:
                break
        if upper != "OVER":
            return None
        if self.tokens.upper(index + 1) == "(":
            return self._window(index + 1)
        name = self.tokens.name(index + 1).lower()
        if name not in named:
            raise Refused(f"a window {name} that the WINDOW clause does not define", self.tokens.at(index))
        return named[name]

    def _window(self, opening: int) -> Window:
        low, high = opening + 1, self.tokens.closing(opening)
        starts = [
            index
            for index in self.tokens.level(low, high)
            if self.tokens.upper(index) in _FRAMES or self.tokens.upper(index + 1) == "BY"
        ]
        lists: dict[str, tuple[Fragment, ...]] = {"PARTITION": (), "ORDER": ()}
        if starts[:1] != [low] and low < high:
            raise Refused("a window that extends another", self.tokens.at(low))
        for start, stop in zip(starts, [*starts[1:], *([high] if starts else [])], strict=True):
            upper = {"DISTRIBUTE": "PARTITION", "SORT": "ORDER"}.get(
                self.tokens.upper(start), self.tokens.upper(start)
            )
            if upper in lists:
                lists[upper] = tuple(map(self._expression, self.tokens.split(start + 2, stop)))
            elif upper not in _FRAMES:
                raise Refused("a window that cannot be analyzed", self.tokens.at(start))
        by_row = any(self.tokens.upper(start) in ("ROWS", "GROUPS") for start in starts)
        return Window(
            self.tokens.at(opening), self.tokens.end(high + 1), lists["PARTITION"], lists["ORDER"], by_row
        )

    def _expression(self, span: Span) -> Fragment:
        """An entry of a list without its direction."""
        low, high = span
        while low < high - 1 and self.tokens.upper(high - 1) in _BEHIND_AN_ORDER:
            high -= 1
        return self.tokens.fragment(low, high)
