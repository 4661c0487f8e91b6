"""Replaces relations in the user's SQL at token positions; everything else stays as it was written.

A name is a relation where SQL reads or writes one: after FROM, JOIN, USING, INTO, UPDATE, TABLE,
and after a comma in a FROM clause. A replaced relation keeps its name as an alias, so references to
its columns stay valid:

>>> query = "select m.a, db.m.b from db.m where db.m.c = 'db.m'"
>>> print(replace_relations(query, {"db.m": "select 1 a, 2 b, 3 c"}))
select m.a, `m`.b from (
select 1 a, 2 b, 3 c
) as `m` where `m`.c = 'db.m'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dbt.adapters.mvsink.engine import DataflowError
from dbt.adapters.mvsink.engine import sql as text
from dbt.adapters.mvsink.user_sql.words import (
    ENDS_FROM,
    Word,
    alias_after,
    closing,
    is_alias_window,
    last_part,
    parts,
    words,
)

# Functions whose arguments may contain a FROM that starts no clause.
_FROM_IN_ARGUMENTS = frozenset({"EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY", "POSITION"})
_STARTS_RELATION = frozenset({"INTO", "UPDATE", "TABLE", "USING"})
_VERSIONS = frozenset({"VERSION", "TIMESTAMP", "SYSTEM_VERSION", "SYSTEM_TIME"})


class TemporalReference(DataflowError):
    """A relation that the adapter reads as of a time has a time travel clause of its own."""

    error_code = "MVS-640"

    def __init__(self, name: str):
        super().__init__(
            f"{name} has a time travel clause; a relation that the adapter reads at a time of its own cannot have one"
        )


class AmbiguousName(DataflowError):
    """Columns are qualified by a name that two relations have."""

    error_code = "MVS-641"

    def __init__(self, name: str, last: str):
        super().__init__(
            f"{name} and something else in the query are called {last}, by which columns are qualified; "
            "give each an alias"
        )


@dataclass(frozen=True)
class Span:
    """Where SQL names a relation: ``sql[start:end]``, the TABLE of ``TABLE name`` included.

    ``alias`` is the one that follows, if any; else ``alias_at`` is the place for one.
    ``as_query``: the name is a whole query (``TABLE name``). ``wrapped``: positions of dbt's
    parentheses around it (`--empty`, `--sample`).
    """

    start: int
    end: int
    alias: str | None
    alias_at: int
    as_query: bool = False
    wrapped: tuple[int, int] | None = None

    def note(self, sql: str) -> str:
        """The text right behind the name or dbt's parentheses; comments there mark a relation."""
        return sql[(self.wrapped or (0, self.end))[1] :].lstrip()


@dataclass
class _Frame:
    """The state of the walk inside one pair of parentheses."""

    expects: bool = False  # a relation comes next
    from_list: bool = False  # a comma is followed by another one
    arguments: bool = False  # of a function that has a FROM in them
    table: int | None = None  # the index of the TABLE just before


@dataclass(frozen=True)
class _Name:
    """A dotted name in the text, and whether it names a relation."""

    first: int
    behind: int
    parts: tuple[str, ...]
    relation: bool
    table: int | None


@dataclass
class _Walk:
    """One pass over the tokens that decides which dotted names are relations."""

    stream: Sequence[Word]
    names: list[_Name] = field(default_factory=list)
    frames: list[_Frame] = field(default_factory=lambda: [_Frame()])

    def run(self, starts_with_relation: bool) -> list[_Name]:
        self.frames[-1].expects = starts_with_relation
        index = 0
        while index < len(self.stream):
            index = self._step(index)
        return self.names

    def _upper(self, index: int) -> str:
        return self.stream[index].upper if 0 <= index < len(self.stream) else ""

    def _step(self, index: int) -> int:
        word, frame = self.stream[index], self.frames[-1]
        if word.upper == "(":
            inside = _Frame(
                frame.expects,
                frame.expects,
                not frame.expects and self._upper(index - 1) in _FROM_IN_ARGUMENTS,
            )
            inside.table = index if frame.table is not None and frame.table == index - 1 else None
            frame.expects, frame.table = False, None
            self.frames.append(inside)
        elif word.upper == ")":
            if len(self.frames) > 1:
                self.frames.pop()
        elif word.upper == ",":
            frame.expects = frame.from_list
        elif word.is_name or word.upper == "|>" or word.upper == ";":
            return self._name_or_keyword(index)
        return index + 1

    def _name_or_keyword(self, index: int) -> int:
        behind = index + 1
        while (
            self._upper(behind) == "." and behind + 1 < len(self.stream) and self.stream[behind + 1].is_name
        ):
            behind += 2
        frame, dotted = self.frames[-1], self._upper(behind) == "."
        if behind == index + 1 and not dotted and self._upper(index - 1) != "." and self._keyword(index):
            return behind
        name_parts = tuple(word.text.lower() for word in self.stream[index:behind:2])
        if self._upper(index - 1) != ".":
            called = self._upper(behind) == "("
            relation = frame.expects and not dotted and not called
            if relation or len(name_parts) > 1 or dotted:
                self.names.append(_Name(index, behind, name_parts, relation, frame.table))
        frame.expects, frame.table = False, None
        return behind

    def _keyword(self, index: int) -> bool:
        upper, frame = self._upper(index), self.frames[-1]
        if upper == "FROM":
            before = (self._upper(index - 1), self._upper(index - 2))
            compares = before[0] == "DISTINCT" and before[1] in ("IS", "NOT")
            if not frame.arguments and not compares:
                frame.expects = frame.from_list = True
        elif upper == "JOIN":
            frame.expects = frame.from_list = True
        elif upper in _STARTS_RELATION:
            # behind a join's USING there are columns, a MERGE's has a whole query in parentheses
            frame.expects = upper != "USING" or self._upper(index + 1) != "("
            is_target = self._upper(index - 1) in ("INTO", "OVERWRITE")
            frame.table = index if upper == "TABLE" and not is_target else None
        elif upper in ENDS_FROM and not is_alias_window(self.stream, index):
            frame.expects = frame.from_list = False
        elif upper == "ON":
            frame.expects = False
        elif upper == "LATERAL":
            frame.expects = frame.expects and self._upper(index + 1) != "VIEW"
        else:
            return False
        return True


def relations(sql: str, name: str, *, starts_with_relation: bool = False) -> tuple[Span, ...]:
    """The places where ``sql`` names ``name``, in order; ``starts_with_relation``: as after a FROM.

    Raises `TemporalReference` if it is read with a time travel clause, `Unreadable`.
    """
    stream, wanted = words(sql), parts(name)
    names = _Walk(stream).run(starts_with_relation)
    return tuple(_span(stream, each, name) for each in names if each.relation and each.parts == wanted)


def relation_names(sql: str) -> tuple[str, ...]:
    """The names of all relations that ``sql`` reads, CTEs included, as it spells them; each once.
    Raises `Unreadable`.
    """
    stream = words(sql)
    spelled = {
        each.parts: sql[stream[each.first].start : stream[each.behind - 1].end]
        for each in _Walk(stream).run(False)
        if each.relation
    }
    return tuple(spelled.values())


def _span(stream: Sequence[Word], occurrence: _Name, name: str) -> Span:
    first, last = stream[occurrence.first], stream[occurrence.behind - 1]
    following = [word.upper for word in stream[occurrence.behind : occurrence.behind + 3]]
    if following[:1] == ["@"] or (
        following[:1] and following[0] in _VERSIONS and following[1:] == ["AS", "OF"]
    ):
        raise TemporalReference(name)
    if following[:1] == ["FOR"] and following[1:2] and following[1] in _VERSIONS:
        raise TemporalReference(name)
    if occurrence.table is not None:
        start = first.start if stream[occurrence.table].upper == "(" else stream[occurrence.table].start
        return Span(start, last.end, None, last.end, as_query=True)
    behind = occurrence.behind
    for suffix in ("TABLESAMPLE", "REPEATABLE"):
        if [word.upper for word in stream[behind : behind + 2]] == [suffix, "("]:
            behind = closing(stream, behind + 1) + 1
    return Span(
        first.start,
        last.end,
        alias_after(stream, behind)[0],
        stream[behind - 1].end,
        wrapped=_wrapped(stream, occurrence.first),
    )


def _wrapped(stream: Sequence[Word], first: int) -> tuple[int, int] | None:
    opening = first - 4
    if opening < 0 or [word.upper for word in stream[opening:first]] != ["(", "SELECT", "*", "FROM"]:
        return None
    end = closing(stream, opening)
    return (stream[opening].start, stream[end].end) if end < len(stream) else None


Query = str | Callable[[Span], str]
Edit = tuple[int, int, str]


def replace_relations(
    sql: str,
    queries: Mapping[str, Query],
    *,
    aliases: Mapping[str, str] | None = None,
    starts_with_relation: bool = False,
) -> str:
    """``sql`` with every relation in ``queries`` replaced by its query in parentheses, aliased.

    A query may be a function of the place. ``aliases``: new qualifiers for columns that are
    qualified by a relation's whole name, for relations that ``sql`` itself does not name. Raises
    `TemporalReference`, `Unreadable`.
    """
    replaced = [
        (span, name, query if isinstance(query, str) else query(span))
        for name, query in queries.items()
        for span in relations(sql, name, starts_with_relation=starts_with_relation)
    ]
    qualified = {
        name: _alias(sql, name) for span, name, _ in replaced if span.alias is None and not span.as_query
    }
    edits = [
        edit
        for span, name, query in replaced
        for edit in _replacement(span, qualified.get(name, last_part(name)), query)
    ]
    return spliced(
        sql,
        [
            *edits,
            *qualifiers(sql, {**qualified, **(aliases or {})}, starts_with_relation=starts_with_relation),
        ],
    )


def shares_its_name(sql: str, name: str) -> bool:
    """Whether something else in ``sql`` that has columns has the last part of the relation's name
    as its name.
    """
    stream, wanted = words(sql), parts(name)
    every = [each for each in _Walk(stream).run(False) if each.relation]
    if any(each.parts[-1] == wanted[-1] and each.parts != wanted for each in every):
        return True
    behind = {each.behind for each in every}
    return any(
        word.text.lower() == wanted[-1]
        and word.is_name
        and (at in behind or stream[at - 1].upper in ("AS", ")"))
        for at, word in enumerate(stream)
        if at > 0
    )


def _alias(sql: str, name: str) -> str:
    """A name for the query that replaces the relation, by which its columns are qualified: the
    relation's own, unless something else has it too. Raises `AmbiguousName`.
    """
    last = last_part(name)
    if not qualifiers(sql, {name: last}) or not shares_its_name(sql, name):
        return last
    stream = words(sql)
    for before, word, behind in zip(stream, stream[1:], stream[2:], strict=False):
        if before.upper != "." and word.is_name and word.text.lower() == last.lower() and behind.upper == ".":
            raise AmbiguousName(name, last)
    taken = {word.text.lower() for word in stream if word.is_name}
    alias = "_".join(parts(name))
    while alias in taken:
        alias += "_"
    return alias


def _replacement(span: Span, name: str, query: str) -> list[Edit]:
    """The edits that replace the relation by ``query``, which is called ``name``."""
    alias = f" as {text.identifier(name)}"
    if span.as_query:
        return [(span.start, span.end, f"select * from (\n{query}\n){alias}")]
    if span.alias is None and span.alias_at > span.end:
        return [(span.start, span.end, f"(\n{query}\n)"), (span.alias_at, span.alias_at, alias)]
    return [(span.start, span.end, f"(\n{query}\n)" + ("" if span.alias else alias))]


def qualifiers(sql: str, aliases: Mapping[str, str], *, starts_with_relation: bool = False) -> list[Edit]:
    """Edits from a relation's whole name before a column (``db.m.x``, ``db.m.*``) to an alias."""
    stream = words(sql)
    names = [each for each in _Walk(stream).run(starts_with_relation) if not each.relation]
    edits = []
    for name, alias in aliases.items():
        wanted = parts(name)
        for each in names:
            dotted = each.behind < len(stream) and stream[each.behind].upper == "."
            if (
                len(wanted) > 1
                and each.parts[: len(wanted)] == wanted
                and (len(each.parts) > len(wanted) or dotted)
            ):
                last = stream[each.first + 2 * (len(wanted) - 1)]
                edits.append((stream[each.first].start, last.end, text.identifier(alias)))
    return edits


def spliced(sql: str, edits: Iterable[Edit]) -> str:
    """``sql`` with each ``[start, end)`` replaced by its text; the edits do not overlap."""
    for start, end, new in sorted(edits, reverse=True):
        sql = sql[:start] + new + sql[end:]
    return sql


def with_ctes(ctes: str | None, query: str) -> str:
    """``query`` after ``ctes``, a text ``WITH [RECURSIVE] a AS (...), ...``; WITHs are merged."""
    if ctes is None:
        return query
    if not _starts(words(query), "WITH"):
        return f"{ctes}\n{query}"
    outer, inner = _after_with(ctes), _after_with(query)
    recursive = "recursive " if outer[0] or inner[0] else ""
    return f"with {recursive}{outer[1]},\n{inner[1]}"


def _after_with(query: str) -> tuple[bool, str]:
    """Whether it is WITH RECURSIVE, and what follows."""
    stream = words(query)
    recursive = _starts(stream[1:], "RECURSIVE")
    return recursive, query[stream[1 if recursive else 0].end :].lstrip()


def _starts(stream: Sequence[Word], keyword: str) -> bool:
    return bool(stream) and stream[0].upper == keyword
