"""Computing all pending times in one job, by carrying each row's time through the query.

That works where every output row comes from one row of the input. The parsed query decides, and
only well-known shapes are accepted; in doubt the times run one by one, which is always right. The
text is the user's, with `_mv_time` added to the select lists at token positions. If the engine
refuses the carried query (because of an aggregate that is not known here, for example), the times
run one by one, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dbt.adapters.mvsink.continual_task.cursor import QUERY_STARTS
from dbt.adapters.mvsink.continual_task.statements import Insert, Program
from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.physical import TIME
from dbt.adapters.mvsink.user_sql.marks import NOW
from dbt.adapters.mvsink.user_sql.splice import Edit, Span, relations, spliced
from dbt.adapters.mvsink.user_sql.words import Word, alias_after, closing, last_part, parsed, parts, words

_TIME = sql.identifier(TIME)
_SELECT = frozenset({"expressions", "from_", "from", "joins", "laterals", "where", "hint"})
_UNION = frozenset({"this", "expression", "distinct"})
_TABLE = frozenset({"this", "db", "catalog", "alias"})
_SUBQUERY = frozenset({"this", "alias"})
_SET_OPERATORS = frozenset({"UNION", "EXCEPT", "INTERSECT", "MINUS", "SETMINUS"})


@dataclass(frozen=True)
class Carried:
    """For each statement, an INSERT, its query with a last column `_mv_time`.

    The input's name in them, not bound yet, must mean the rows inserted at any pending time, with
    that time (ms) in `_mv_time`.
    """

    queries: tuple[str, ...]


class _InDoubt(Exception):
    """The query is not of a shape that is known to carry the time through."""


def stateless(program: Program, shard_references: Iterable[str]) -> Carried | None:
    """The task's queries with the time carried through; None if its times must run one by one.

    ``shard_references`` are names of references whose contents depend on the time.
    """
    if program.deletes_used or program.self_referencing or program.ctes is not None:
        return None
    references = tuple(shard_references)
    queries = []
    for statement in program.statements:
        if not isinstance(statement, Insert) or statement.ctes is not None:
            return None
        if any(relations(statement.query, name) for name in references):
            return None
        queries.append(carry_time(statement.query, program.input.name))
    carried = tuple(query for query in queries if query is not None)
    return Carried(carried) if len(carried) == len(queries) else None


def carry_time(query: str, table: str) -> str | None:
    """``query`` with the `_mv_time` of ``table``'s rows as its last column; None unless each of its
    rows comes from one row of ``table``.

    Raises `TemporalReference`, `Unreadable`.
    """
    try:
        return _carried(query, table)
    except (_InDoubt, SqlglotError):
        return None


def _carried(query: str, input_name: str) -> str:
    stream, wanted = words(query), parts(input_name)
    if any(word.upper == "|>" for word in stream):
        raise _InDoubt
    tree = parsed(query)
    spans = relations(query, input_name)
    occurrences = sum(_names(table, wanted) for table in tree.find_all(exp.Table))
    if not spans or occurrences != len(spans) or _Shape(wanted).inputs(tree) != len(spans):
        raise _InDoubt
    return _Text(query, stream, input_name).carried(spans)


def _names(table: exp.Table, wanted: tuple[str, ...]) -> bool:
    return tuple(part.name.lower() for part in table.parts) == wanted


def _only(node: exp.Expression, allowed: frozenset[str]) -> None:
    if any(value and key not in allowed for key, value in node.args.items()):
        raise _InDoubt


class _Shape:
    """Whether the parsed query keeps or drops each row of the input independently of the others."""

    def __init__(self, wanted: tuple[str, ...]):
        self.wanted = wanted

    def inputs(self, node: object) -> int:
        """How many times the query reads the input. Raises `_InDoubt` for any other shape."""
        if isinstance(node, exp.Union):
            _only(node, _UNION)
            if node.args.get("distinct"):
                raise _InDoubt
            return self.inputs(node.left) + self.inputs(node.right)
        if not isinstance(node, exp.Select):
            raise _InDoubt
        _only(node, _SELECT)
        if any(item.find(exp.AggFunc, exp.Window, exp.QueryTransform) for item in node.expressions):
            raise _InDoubt
        clause = node.args.get("from_") or node.args.get("from")
        joins: list[exp.Join] = node.args.get("joins") or []
        if clause is None:
            raise _InDoubt
        sources = [clause.this, *(join.this for join in joins)]
        carriers = [index for index, source in enumerate(sources) if self._reads(source)]
        if len(carriers) != 1 or any(
            not isinstance(s, (exp.Table, exp.Subquery, exp.Values)) for s in sources
        ):
            raise _InDoubt
        for index, join in enumerate(joins, 1):
            self._join(join, index, carriers[0])
        return self._relation(sources[carriers[0]])

    def _reads(self, node: exp.Expression) -> bool:
        return any(_names(table, self.wanted) for table in node.find_all(exp.Table))

    def _join(self, join: exp.Join, index: int, carrier: int) -> None:
        """`_InDoubt` if an outer join makes the input's rows NULL, or a semi-join drops columns."""
        side, kind = join.side.upper(), join.kind.upper()
        if join.method or side == "FULL" or kind not in ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI"):
            raise _InDoubt
        if index == carrier and (side == "LEFT" or kind in ("SEMI", "ANTI")):
            raise _InDoubt
        if index > carrier and side == "RIGHT":
            raise _InDoubt

    def _relation(self, node: exp.Expression) -> int:
        alias = node.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            raise _InDoubt
        if isinstance(node, exp.Subquery):
            _only(node, _SUBQUERY)
            return self.inputs(node.this)
        _only(node, _TABLE)
        return 1


@dataclass(frozen=True)
class _Segment:
    """A SELECT on the way from the input: words ``[select, end)``, its FROM, time's qualifier."""

    select: int
    clause: int
    end: int
    qualifier: tuple[str, ...]  # parts of the qualifier of a star that means the carrier
    alias: str | None

    @property
    def time(self) -> str:
        return _TIME if self.alias is None else f"{sql.identifier(self.alias)}.{_TIME}"


@dataclass(frozen=True)
class _Text:
    """The same query as text and tokens."""

    query: str
    stream: Sequence[Word]
    input: str

    def carried(self, spans: Sequence[Span]) -> str:
        segments = {segment for span in spans for segment in self._way_out(span)}
        edits = {edit for segment in segments for edit in self._select_list(segment)}
        return spliced(self.query, [*edits, *self._times(segments)])

    def _way_out(self, span: Span) -> list[_Segment]:
        """The SELECT that reads the input here, the one that reads that, up to the outermost."""
        if span.as_query:
            raise _InDoubt
        index = next(i for i, word in enumerate(self.stream) if word.start == span.start)
        alias, qualifier = span.alias or last_part(self.input), (() if span.alias else parts(self.input))
        segments = [self._segment(index, alias, qualifier)]
        while (opening := self._opening(index)) is not None:
            if opening == 0 or self.stream[opening - 1].upper not in ("FROM", "JOIN", ","):
                raise _InDoubt
            outer, _ = alias_after(self.stream, closing(self.stream, opening) + 1)
            segments.append(self._segment(opening, outer, ()))
            index = opening
        return segments

    def _opening(self, index: int) -> int | None:
        """The index of the innermost parenthesis around the word."""
        depth = 0
        for before in range(index - 1, -1, -1):
            depth += {")": 1, "(": -1}.get(self.stream[before].upper, 0)
            if depth < 0:
                return before
        return None

    def _segment(self, index: int, alias: str | None, qualifier: tuple[str, ...]) -> _Segment:
        same = [i for i in self._level(index) if i < index]
        clause = next(
            (i for i in reversed(same) if self.stream[i].upper == "FROM" and not self._compares(i)), None
        )
        select = next(
            (i for i in reversed(same) if self.stream[i].upper in ("SELECT", *_SET_OPERATORS)), None
        )
        if clause is None or select is None or self.stream[select].upper != "SELECT" or clause <= select + 1:
            raise _InDoubt
        opening = self._opening(index)
        last = len(self.stream) if opening is None else closing(self.stream, opening)
        end = next(
            (i for i in self._level(index) if i > index and self.stream[i].upper in _SET_OPERATORS), last
        )
        return _Segment(select, clause, end, qualifier, alias)

    def _compares(self, index: int) -> bool:
        """Whether the word is the FROM of IS [NOT] DISTINCT FROM."""
        before = [self.stream[i].upper for i in (index - 2, index - 1) if i >= 0]
        return before[-1:] == ["DISTINCT"] and before[:1] in (["IS"], ["NOT"])

    def _level(self, index: int) -> list[int]:
        """The indexes of the words in the same parentheses as this one, none in deeper ones."""
        opening = self._opening(index)
        start = 0 if opening is None else opening + 1
        end = len(self.stream) if opening is None else closing(self.stream, opening)
        indexes, depth = [], 0
        for i in range(start, end):
            step = {"(": 1, ")": -1}.get(self.stream[i].upper, 0)
            if depth == 0 and step == 0:
                indexes.append(i)
            depth += step
        return indexes

    def _select_list(self, segment: _Segment) -> Iterable[Edit]:
        """The time as one more column, only once: a star that includes the carrier excludes it."""
        level = [i for i in self._level(segment.select) if segment.select < i < segment.clause]
        for i in level:
            if self.stream[i].upper != "*":
                continue
            before, after = self.stream[i - 1], self.stream[i + 1]
            ends = after.upper in (",", "FROM")
            if before.upper == ".":
                if not ends:
                    raise _InDoubt
                if (
                    self._qualifier(i - 1) in ((segment.alias or "").lower(),)
                    or self._qualifier_parts(i - 1) == segment.qualifier
                ):
                    yield (self.stream[i].end, self.stream[i].end, f" except ({_TIME})")
            elif before.upper in ("SELECT", ",", "ALL") or before.text[:1] == "+":
                if not ends:
                    raise _InDoubt
                yield (self.stream[i].end, self.stream[i].end, f" except ({_TIME})")
        last = self.stream[segment.clause - 1].end
        yield (last, last, f", {segment.time}")

    def _qualifier_parts(self, dot: int) -> tuple[str, ...]:
        """The parts of the name in front of the dot."""
        names = [self.stream[dot - 1].text.lower()]
        while dot >= 3 and self.stream[dot - 2].upper == ".":
            dot -= 2
            names.insert(0, self.stream[dot - 1].text.lower())
        return tuple(names)

    def _qualifier(self, dot: int) -> str:
        names = self._qualifier_parts(dot)
        return names[0] if len(names) == 1 else ""

    def _times(self, segments: Iterable[_Segment]) -> Iterable[Edit]:
        """`mv_now()` as the time of the current row."""
        for match in NOW.finditer(self.query):
            index = next((i for i, word in enumerate(self.stream) if word.start == match.start()), None)
            if index is None:
                continue
            inside = [segment for segment in segments if segment.select < index < segment.end]
            segment = max(inside, key=lambda s: s.select, default=None)
            opening = self._opening(index)
            while segment is not None and opening is not None and opening > segment.select:
                if self.stream[opening + 1].upper in QUERY_STARTS - {"("}:
                    raise _InDoubt
                opening = self._opening(opening)
            if segment is None:
                raise _InDoubt
            end = match.start() + match[0].index(")") + 1
            yield (match.start(), end, f"timestamp_millis({segment.time})")
