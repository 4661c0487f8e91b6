"""Reading a FROM clause by its tokens: relations, derived tables, joins, lateral views."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dbt.adapters.mvsink.incremental.algebra import (
    Constant,
    Cte,
    Derived,
    Fragment,
    Join,
    JoinKind,
    LateralView,
    Leaf,
    Nest,
    Query,
    Relation,
    Source,
)
from dbt.adapters.mvsink.incremental.refuse import Refused
from dbt.adapters.mvsink.incremental.tokens import Tokens
from dbt.adapters.mvsink.user_sql.words import alias_after

_KINDS: dict[tuple[str, ...], JoinKind] = {
    (): "inner",
    ("INNER",): "inner",
    ("CROSS",): "cross",
    ("LEFT",): "left",
    ("LEFT", "OUTER"): "left",
    ("RIGHT",): "right",
    ("RIGHT", "OUTER"): "right",
    ("FULL",): "full",
    ("FULL", "OUTER"): "full",
    ("SEMI",): "semi",
    ("LEFT", "SEMI"): "semi",
    ("ANTI",): "anti",
    ("LEFT", "ANTI"): "anti",
}
_BEHIND_A_NAME = {
    "VERSION": "time travel written by the user",
    "TIMESTAMP": "time travel written by the user",
    "FOR": "time travel written by the user",
    "@": "time travel written by the user",
    "WITH": "a relation with options",
}
_SET_OPERATORS = frozenset({"UNION", "EXCEPT", "MINUS", "SETMINUS", "INTERSECT"})


class Reader:
    """``query`` reads the words of a range as a query that may name some CTEs."""

    def __init__(
        self, tokens: Tokens, query: Callable[[int, int, Mapping[str, Cte]], Query], ctes: Mapping[str, Cte]
    ):
        self.tokens, self.query, self.ctes = tokens, query, ctes

    def clause(self, low: int, high: int) -> tuple[Source, tuple[LateralView, ...]]:
        """The words behind FROM."""
        views = [
            index
            for index in self.tokens.level(low, high)
            if self.tokens.upper(index) == "LATERAL" and self.tokens.upper(index + 1) == "VIEW"
        ]
        stop = views[0] if views else high
        spans = zip(views, [*views[1:], high], strict=False)
        return self._commas(low, stop), tuple(self._lateral_view(*span) for span in spans)

    def _commas(self, low: int, high: int) -> Source:
        """A comma binds as tightly as a join, and all from the left: `a, b right join c` joins c to
        both.
        """
        index, source = self._primary(low, high)
        while index < high:
            if self.tokens.upper(index) == ",":
                index, right = self._primary(index + 1, high)
                source = Join(source.start, right.end, "comma", source, right)
            elif join := self.tokens.join_words(index):
                index, source = self._join(index, join, source, high)
            else:
                raise Refused("a FROM clause that cannot be analyzed", self.tokens.at(index))
        return source

    def _join(self, index: int, join: list[str], left: Source, high: int) -> tuple[int, Source]:
        natural = join[0] == "NATURAL"
        kind = _KINDS.get(tuple(join[natural:-1]))
        if kind is None:
            raise Refused(f"a join of kind {' '.join(join)}", self.tokens.at(index))
        index, right = self._primary(index + len(join), high)
        on: Fragment | None = None
        using: tuple[str, ...] = ()
        if self.tokens.upper(index) == "ON" and index < high:
            first = index + 1
            index = self._end_of_condition(first, high)
            on = self.tokens.fragment(first, index)
        elif self.tokens.upper(index) == "USING" and index < high:
            index, using = self.tokens.name_list(index + 1)
        return index, Join(left.start, self.tokens.end(index), kind, left, right, natural, on, using)

    def _end_of_condition(self, low: int, high: int) -> int:
        for index in self.tokens.level(low, high):
            ends = self.tokens.upper(index) in (",", "ON") or self.tokens.join_words(index)
            if ends and self.tokens.upper(index - 1) != ".":
                return index
        return high

    def _primary(self, low: int, high: int) -> tuple[int, Source]:
        if low >= high:
            raise Refused("a FROM clause that cannot be analyzed", self.tokens.at(low))
        upper = self.tokens.upper(low)
        if upper == "LATERAL":
            raise Refused("a correlated derived table (LATERAL)", self.tokens.at(low))
        if upper == "(":
            return self._parenthesized(low)
        if upper == "VALUES":
            return self._values(low)
        return self._named(low)

    def _parenthesized(self, low: int) -> tuple[int, Source]:
        close = self.tokens.closing(low)
        if not self._is_query(low + 1, close):
            index, alias, _ = self._alias(close + 1)
            if alias:
                raise Refused("an alias for a join in parentheses", self.tokens.at(low))
            return index, Nest(self.tokens.at(low), self.tokens.end(index), self._commas(low + 1, close))
        query = self.query(low + 1, close, self.ctes)
        index, alias, columns = self._alias(close + 1)
        return index, Derived(self.tokens.at(low), self.tokens.end(index), alias, columns, query)

    def _is_query(self, low: int, high: int) -> bool:
        if self.tokens.upper(low) != "(":
            return self.tokens.upper(low) in ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE")
        close = self.tokens.closing(low)
        if close == high - 1:
            return self._is_query(low + 1, close)
        return self.tokens.upper(close + 1) in _SET_OPERATORS

    def _values(self, low: int) -> tuple[int, Leaf]:
        index = self.tokens.closing(low + 1) + 1
        while self.tokens.upper(index) == "," and self.tokens.upper(index + 1) == "(":
            index = self.tokens.closing(index + 1) + 1
        return self._constant(low, index, "")

    def _constant(self, low: int, behind: int, function: str) -> tuple[int, Leaf]:
        index, alias, columns = self._alias(behind)
        call = self.tokens.fragment(low, behind)
        return index, Constant(call.start, self.tokens.end(index), alias, columns, call, function)

    def _named(self, low: int) -> tuple[int, Leaf]:
        parts, behind = [self.tokens.name(low)], low + 1
        while self.tokens.upper(behind) == ".":
            parts.append(self.tokens.name(behind + 1))
            behind += 2
        if self.tokens.upper(behind) == "(":
            return self._constant(low, self.tokens.closing(behind) + 1, ".".join(parts).lower())
        self._check_behind(behind)
        index, alias, columns = self._alias(behind)
        start, end = self.tokens.at(low), self.tokens.end(index)
        lowered = tuple(part.lower() for part in parts)
        if len(parts) == 1 and (cte := self.ctes.get(lowered[0])):
            renamed = columns or cte.columns
            return index, Derived(start, end, alias or parts[0], renamed, cte.query, lowered[0])
        name = self.tokens.text[start : self.tokens.end(behind)]
        return index, Relation(start, end, alias or parts[-1], columns, name, lowered)

    def _check_behind(self, index: int) -> None:
        upper, following = self.tokens.upper(index), self.tokens.upper(index + 1)
        travels = upper in ("VERSION", "TIMESTAMP", "FOR") and following in (
            "AS", "VERSION", "TIMESTAMP", "SYSTEM_VERSION", "SYSTEM_TIME")  # fmt: skip
        if upper in ("@", "WITH") or travels:
            raise Refused(_BEHIND_A_NAME[upper], self.tokens.at(index))

    def _alias(self, index: int) -> tuple[int, str | None, tuple[str, ...]]:
        alias, behind = alias_after(self.tokens.words, index)
        if alias is None:
            return behind, None, ()
        behind, columns = self.tokens.name_list(behind)
        return behind, alias, columns

    def _lateral_view(self, low: int, high: int) -> LateralView:
        start, index = self.tokens.at(low), low + 2
        outer = self.tokens.upper(index) == "OUTER"
        first = index + outer
        function = self.tokens.name(first).lower()
        behind = self.tokens.closing(first + 1) + 1
        alias = None
        if behind < high and self.tokens.upper(behind) != "AS":
            alias, behind = self.tokens.name(behind), behind + 1
        columns: tuple[str, ...] = ()
        if behind < high:
            names = self.tokens.split(behind + (self.tokens.upper(behind) == "AS"), high)
            if any(stop != begin + 1 for begin, stop in names):
                raise Refused("a LATERAL VIEW that cannot be analyzed", start)
            columns = tuple(self.tokens.name(begin) for begin, _ in names)
        call = self.tokens.fragment(first, self.tokens.closing(first + 1) + 1)
        return LateralView(start, self.tokens.end(high), call, function, outer, alias, columns)
