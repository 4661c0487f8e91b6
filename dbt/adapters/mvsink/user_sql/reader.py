"""Reading a query by its tokens: blocks, set operators and FROM trees, each with its span.

    with c as (select k from a where v > 1) select c.k, b.x from c left join b on c.k = b.k

is a `Query` whose block has two items and a `Join` of a `Derived` (c, whose query is that of the
CTE) and a `Relation` (b).

This reading decides where text is cut. It knows Spark's precedence: a comma binds as tightly as a
join, INTERSECT more than UNION and EXCEPT. What it does not know is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from dbt.adapters.mvsink.user_sql import grouping
from dbt.adapters.mvsink.user_sql.algebra import (
    Block,
    Constant,
    Cte,
    Derived,
    Fragment,
    Item,
    Join,
    JoinKind,
    LateralView,
    Leaf,
    Nest,
    Query,
    Refused,
    Relation,
    SetOp,
    Source,
    Subquery,
)
from dbt.adapters.mvsink.user_sql.tokens import Tokens
from dbt.adapters.mvsink.user_sql.words import alias_after

_TRAILING = frozenset({"ORDER", "SORT", "CLUSTER", "DISTRIBUTE"})
_SET_OPERATORS = {"UNION": 1, "EXCEPT": 1, "MINUS": 1, "SETMINUS": 1, "INTERSECT": 2}  # and how they bind
_CLAUSES = frozenset({"FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "USING"})


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
_LAST = "write it behind all other joins of its SELECT, or with what it joins in a derived table"


def read(text: str) -> Query:
    """``text`` as a `Query`. Raises `Refused`, `Unreadable`."""
    tokens = Tokens(text)
    return _Reader(tokens).query(0, len(tokens.words), {})


Ctes = Mapping[str, Cte]


class _Reader:
    def __init__(self, tokens: Tokens):
        self.tokens = tokens

    def query(self, low: int, high: int, visible: Ctes) -> Query:
        """The words ``[low, high)``; ``visible`` are the CTEs that it may name."""
        start = self.tokens.at(low)
        ctes: list[Cte] = []
        if self.tokens.upper(low) == "WITH":
            low, ctes = self._with(low, high, visible)
            visible = {**visible, **{cte.name: cte for cte in ctes}}
        body_end, ordered, limited = self._trailing(low, high)
        body = self._body(low, body_end, visible)
        return Query(start, self.tokens.end(high), tuple(ctes), self.tokens.at(low), body, ordered, limited)

    def _with(self, low: int, high: int, visible: Ctes) -> tuple[int, list[Cte]]:
        ctes: list[Cte] = []
        index = low + 1
        if self.tokens.upper(index) == "RECURSIVE" and self.tokens.upper(index + 1) not in ("AS", "("):
            raise Refused("a recursive WITH", self.tokens.at(index))
        while True:
            first, name = index, self.tokens.name(index)
            index, columns = self.tokens.name_list(index + 1)
            index += self.tokens.upper(index) == "AS"
            close = self.tokens.closing(index)
            known = {**visible, **{cte.name: cte for cte in ctes}}
            query = self.query(index + 1, close, known)
            ctes.append(Cte(self.tokens.at(first), self.tokens.end(close + 1), name.lower(), columns, query))
            index = close + 1
            if self.tokens.upper(index) != ",":
                return index, ctes
            index += 1

    def _trailing(self, low: int, high: int) -> tuple[int, bool, Fragment | None]:
        """Where the body ends; whether ORDER BY or the like follows, and the LIMIT or OFFSET."""
        body_end, ordered, limited = high, False, None
        for index in self.tokens.level(low, high):
            upper, behind = self.tokens.upper(index), self.tokens.upper(index + 1)
            order = upper in _TRAILING and behind == "BY"
            limit = upper in ("LIMIT", "OFFSET") and (behind[:1].isdigit() or behind in ("ALL", "("))
            if (order or limit) and self.tokens.upper(index - 1) != ".":
                body_end, ordered = min(body_end, index), ordered or order
                if limit and limited is None:
                    limited = self.tokens.fragment(index, high)
        return body_end, ordered, limited

    def _body(self, low: int, high: int, visible: Ctes) -> Block | SetOp | Query:
        operators = [
            (_SET_OPERATORS[self.tokens.upper(index)], -index)
            for index in self.tokens.level(low, high)
            if self.tokens.upper(index) in _SET_OPERATORS and self.tokens.upper(index - 1) not in (".", "*")
        ]
        if operators:
            return self._set_operator(low, -min(operators)[1], high, visible)
        if self.tokens.upper(low) == "(" and self.tokens.closing(low) == high - 1:
            return self.query(low + 1, high - 1, visible)
        if self.tokens.upper(low) != "SELECT":
            raise Refused("a query that is not a SELECT", self.tokens.at(low))
        return self._block(low, high, visible)

    def _set_operator(self, low: int, at: int, high: int, visible: Ctes) -> SetOp:
        quantifier = self.tokens.upper(at + 1)
        right = at + 1 + (quantifier in ("ALL", "DISTINCT"))
        sides = [self._side(*span, visible) for span in ((low, at), (right, high))]
        return SetOp(
            self.tokens.at(low), self.tokens.end(high), self.tokens.upper(at), quantifier == "ALL", *sides
        )

    def _side(self, low: int, high: int, visible: Ctes) -> Query:
        body = self._body(low, high, visible)
        start = self.tokens.at(low)
        return Query(start, self.tokens.end(high), (), start, body, False, None)

    def _block(self, low: int, high: int, visible: Ctes) -> Block:
        bounds = [*self._clauses(low, high), ("", high)]
        spans = {name: (index + 1, stop) for (name, index), (_, stop) in pairwise(bounds)}
        first, hint, more = low + 1, None, {}
        if (closed := self.tokens.hint(first)) is not None:
            first, hint = closed, self.tokens.fragment(first, closed)
        if self.tokens.upper(first) in ("DISTINCT", "ALL") and self._quantifies(first):
            if self.tokens.upper(first) == "DISTINCT":
                more["DISTINCT"] = self.tokens.fragment(first, first + 1)
            first += 1
        items = tuple(self._item(*span) for span in self.tokens.split(first, bounds[0][1]))
        source: Source | None = None
        laterals: tuple[LateralView, ...] = ()
        if "FROM" in spans:
            source, laterals = _From(self, visible).clause(*spans.pop("FROM"))
        selected = (first, bounds[0][1])
        parts = (selected, *(spans[name] for name in ("WHERE", "HAVING") if name in spans))
        subqueries = tuple(each for span in parts for each in self._subqueries(*span, visible))
        conjuncts = self.tokens.conjuncts(*spans.pop("WHERE")) if "WHERE" in spans else []
        where = tuple(self.tokens.fragment(*span) for span in conjuncts)
        more |= {name: self.tokens.fragment(*span) for name, span in spans.items()}
        keys, windows, calls = grouping.read(self.tokens, selected, spans, subqueries)
        return Block(
            self.tokens.at(low), self.tokens.end(high), hint, items, source, laterals, where, more,
            keys, windows, calls, subqueries,
        )  # fmt: skip

    def _subqueries(self, low: int, high: int, visible: Ctes) -> Iterator[Subquery]:
        index = low
        while index < high:
            if self.tokens.upper(index) == "(" and self.tokens.upper(index + 1) in ("SELECT", "WITH"):
                close = self.tokens.closing(index)
                query = self.query(index + 1, close, visible)
                yield Subquery(query.start, query.end, query)
                index = close
            index += 1

    def _quantifies(self, index: int) -> bool:
        """Whether the DISTINCT or ALL there is not a column's name."""
        behind = self.tokens.upper(index + 1)
        return index + 1 < len(self.tokens.words) if behind == "" else behind not in (",", ".", "FROM")

    def _clauses(self, low: int, high: int) -> Iterator[tuple[str, int]]:
        """The clauses behind the select list, and where each starts."""
        passed_from = False
        for index in self.tokens.level(low + 1, high):
            upper, before = self.tokens.upper(index), self.tokens.upper(index - 1)
            if upper not in _CLAUSES or before == "." or (upper == "USING" and passed_from):
                continue
            if upper == "USING":
                raise Refused("TRANSFORM", self.tokens.at(index))
            if upper == "FROM" and (
                passed_from or (before == "DISTINCT" and self.tokens.upper(index - 2) in ("IS", "NOT"))
            ):
                continue
            if upper == "GROUP" and (self.tokens.upper(index + 1) != "BY" or before == "WITHIN"):
                continue
            if upper == "WINDOW" and self.tokens.upper(index + 2) != "AS":
                continue
            passed_from = passed_from or upper == "FROM"
            yield upper, index

    def _item(self, low: int, high: int) -> Item:
        start, end = self.tokens.at(low), self.tokens.end(high)
        last, excepts = high - 1, False
        if self.tokens.upper(last) == ")":
            opening = self.tokens.opening(last)
            if self.tokens.upper(opening - 1) == "EXCEPT" and self.tokens.upper(opening - 2) == "*":
                last, excepts = opening - 2, True
        if self.tokens.upper(last) != "*" or not self.tokens.is_name_dots(low, last):
            return Item(start, end, bare=self._bare(low, high))
        qualifier = tuple(self.tokens.words[i].text.lower() for i in range(low, last, 2))
        star_at = self.tokens.at(high - 1) if excepts else self.tokens.end(high)
        return Item(start, end, qualifier, star_at, excepts)

    def _bare(self, low: int, high: int) -> Fragment | None:
        if not self.tokens.words[high - 1].is_name:
            return None
        behind = high - 1 - (self.tokens.upper(high - 2) == "AS")
        return self.tokens.fragment(low, behind) if low < behind else None


class _From:
    """Reads a FROM clause. ``ctes``: those that it may name."""

    def __init__(self, reader: _Reader, ctes: Ctes):
        self.reader, self.tokens, self.ctes = reader, reader.tokens, ctes
        self.joined: list[LateralView] = []  # behind all other joins

    def clause(self, low: int, high: int) -> tuple[Source, tuple[LateralView, ...]]:
        """The words behind FROM."""
        views = [
            index
            for index in self.tokens.level(low, high)
            if self.tokens.upper(index) == "LATERAL" and self.tokens.upper(index + 1) == "VIEW"
        ]
        stop = views[0] if views else high
        spans = zip(views, [*views[1:], high], strict=False)
        source = self._commas(low, stop)
        return source, (*self.joined, *(self._lateral_view(*span) for span in spans))

    def _commas(self, low: int, high: int) -> Source:
        """A comma binds as tightly as a join, and all from the left: `a, b right join c` joins c to
        both.
        """
        index, source = self._primary(low, high)
        while index < high:
            join = self.tokens.join_words(index)
            if self._is_lateral(index, join):
                index = self._lateral_join(index, join, high)
            elif self.joined and (join or self.tokens.upper(index) == ","):
                raise Refused(f"a join behind a LATERAL one: {_LAST}", self.tokens.at(index))
            elif self.tokens.upper(index) == ",":
                index, right = self._primary(index + 1, high)
                source = Join(source.start, right.end, "comma", source, right)
            elif join:
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
            raise Refused("LATERAL before all joins", self.tokens.at(low))
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
            inner = self._commas(low + 1, close)
            if self.joined:
                raise Refused(f"a LATERAL join in parentheses: {_LAST}", self.joined[0].start)
            return index, Nest(self.tokens.at(low), self.tokens.end(index), inner)
        query = self.reader.query(low + 1, close, self.ctes)
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

    def _is_lateral(self, index: int, join: list[str]) -> bool:
        """Whether a comma or ``join`` at ``index`` has LATERAL behind it."""
        if not join and self.tokens.upper(index) != ",":
            return False
        first = index + (len(join) or 1)
        return self.tokens.upper(first) == "LATERAL" and self.tokens.upper(first + 1) != "."

    def _lateral_join(self, index: int, join: list[str], high: int) -> int:
        """Reads a LATERAL generator, and adds it to those that are joined; the index behind it."""
        start, kind = self.tokens.at(index), _KINDS.get(tuple(join[:-1])) if join else "comma"
        if kind not in ("comma", "inner", "cross", "left"):
            raise Refused(f"a LATERAL join of kind {' '.join(join)}", start)
        first = index + (len(join) or 1) + 1
        behind = first + 1
        if self.tokens.upper(first) == "(":
            raise Refused(
                "a LATERAL subquery: join a derived table by its key, or write a generator itself, as in "
                "`lateral explode(x) as e(v)`",
                self.tokens.at(first - 1),
            )
        if behind >= high or self.tokens.upper(behind) != "(":
            raise Refused("LATERAL other than with a generator", self.tokens.at(first - 1))
        function, behind = self.tokens.name(first).lower(), self.tokens.closing(behind) + 1
        call = self.tokens.fragment(first, behind)
        index, alias, columns = self._alias(behind)
        on: Fragment | None = None
        if join and index < high and self.tokens.upper(index) == "ON":
            first, index = index + 1, self._end_of_condition(index + 1, high)
            on = self.tokens.fragment(first, index)
        if kind == "left" and on is None and not function.endswith("_outer"):
            raise Refused(
                "LEFT JOIN LATERAL without ON, which Spark takes for an inner join: write ON true", start
            )
        end = self.tokens.end(index)
        self.joined.append(LateralView(start, end, call, function, kind == "left", alias, columns, kind, on))
        return index

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
