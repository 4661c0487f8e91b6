"""Derives the query of a query's change, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.incremental.adding import Adding, adding
from dbt.adapters.mvsink.incremental.blocks import Changes, Scoped
from dbt.adapters.mvsink.incremental.compose import Clock, Marks, Rewriting, Sides, Writer
from dbt.adapters.mvsink.incremental.keys import KeyKind, kind_of
from dbt.adapters.mvsink.incremental.maps import Maps
from dbt.adapters.mvsink.incremental.name_resolution import ColumnsOf, Names, outer_blocks
from dbt.adapters.mvsink.incremental.refuse import (
    Checks,
    NotIncremental,
    check_names,
    check_text,
    check_types,
    outcome,
)
from dbt.adapters.mvsink.incremental.repeatable import Repeatable
from dbt.adapters.mvsink.incremental.replaced import Replaced
from dbt.adapters.mvsink.incremental.top_rows import top_rows
from dbt.adapters.mvsink.incremental.unnest import unnested
from dbt.adapters.mvsink.user_sql.algebra import (
    Block,
    Constant,
    Query,
    Refused,
    Relation,
    SetOp,
    every_block,
    every_query,
    joins,
    leaves,
    places,
)
from dbt.adapters.mvsink.user_sql.checks import without_end
from dbt.adapters.mvsink.user_sql.inline_tables import as_selects
from dbt.adapters.mvsink.user_sql.reader import read
from dbt.adapters.mvsink.user_sql.splice import qualifiers, shares_its_name, spliced
from dbt.adapters.mvsink.user_sql.tokens import Tokens
from dbt.adapters.mvsink.user_sql.trees import trees
from dbt.adapters.mvsink.user_sql.words import UnreadableText, last_part, parsed, parts, words

RULES = 1  # raised when a change is derived otherwise than before: then all models prove theirs again
# Equal queries for what has no rule, or a dear one, in this order. A new one is a line here.
REWRITINGS: tuple[Callable[[str, Query, Names], list[Rewriting]], ...] = (top_rows, unnested)


@dataclass(frozen=True)
class Analysed:
    """A query whose changes can be derived.

    ``relations`` has the name of each relation that it reads, as first written, and the columns
    that it may use, in lower case and in the relation's order.
    """

    text: str
    relations: Mapping[str, tuple[str, ...]]
    tree: Query
    names: Names
    marks: Marks  # where the text calls `mv_now()`
    unrepeatable: str | None  # why only `Plan.scoped` can be used; None if `Plan.query` can
    written: Analysed | None = None  # the query before its subqueries became joins, if some did

    @property
    def linear(self) -> bool:
        """Whether it only joins, filters and unites rows: a row of its result comes from one row of
        each relation that it reads, and evaluating it needs no other rows.
        """
        return all(map(_linear, (query.body for query in every_query(self.tree))))


@dataclass(frozen=True)
class Plan:
    """``query`` gives the model's columns and `_mv_diff` (BIGINT), not consolidated; it is a SELECT
    or a UNION ALL. ``terms`` are the SELECTs in it that can give rows: 0 if nothing changed.

    ``scoped`` gives the same change with the shard's rows instead of the old inputs, if the
    outermost block groups, has windows or compares rows, and shows a key. It also corrects the rows
    that it replaces. ``query`` is None where evaluating the old inputs may give other rows than the
    shard has (a sum of doubles): then ``scoped`` is the only way. ``adding`` gives the same change
    from the inputs' changes and the shard's rows alone, if the query adds up.
    """

    query: str | None
    terms: int
    scoped: Scoped | None = None
    adding: Adding | None = None


def analyse(
    query: str,
    columns_of: ColumnsOf,
    *,
    deterministic_functions: Collection[str] = (),
) -> Analysed | NotIncremental:
    """Read ``query``, a model's compiled SQL. `name_resolution.ColumnsOf` explains ``columns_of``.

    ``deterministic_functions`` are the user's own functions that depend on their arguments only.
    The caller must refuse what the text does not show: a `sql_header`, temporary views, and views
    whose text is not known.
    """
    text = without_end(query)
    allowed = {name.lower() for name in deterministic_functions}
    known = lru_cache(maxsize=None)(columns_of)
    try:
        text = as_selects(text)
        written = _analysed(text, known, allowed)
        rewritten = written
        for rule in REWRITINGS:
            rewritten = _rewritten(rewritten, rule, known, allowed)
        _check_first_rows(rewritten, known, allowed)
        _check_limits(rewritten.tree)
        return rewritten if rewritten is written else replace(rewritten, written=written)
    except Refused as refused:
        return outcome(refused, text)
    except UnreadableText as error:
        return NotIncremental(str(error))


def delta(
    analysed: Analysed, relations: Mapping[str, Sides], clock: tuple[int, int] | None = None
) -> Plan | NotIncremental:
    """The change of the query. ``relations`` says, by name in any spelling, what to read relations
    as. Those that changed must be there; others are read as they are written.

    ``clock`` has the times (ms) that `mv_now()` was and is; with None, it stays as the text has it.
    """
    changes = changes_of(analysed, relations, clock)
    return planned(analysed, changes, changes.replaced(analysed.tree))


def changes_of(analysed: Analysed, relations: Mapping[str, Sides], clock: tuple[int, int] | None) -> Changes:
    """See `delta`."""
    sides = {parts(name): each for name, each in relations.items()}
    unknown = sides.keys() - {parts(name) for name in analysed.relations}
    if unknown:
        raise ValueError(f"the query does not read {', '.join(map('.'.join, unknown))}")
    times = None if clock is None else Clock(*clock)
    return Changes(analysed.text, analysed.tree, analysed.marks, analysed.names, sides, times)


def planned(analysed: Analysed, changes: Changes, replaced: Replaced | None) -> Plan | NotIncremental:
    """See `delta`. ``replaced`` are the rows that `Plan.scoped` replaces."""
    try:
        _check_time(analysed, changes.writer)
        tree = analysed.tree
        count = changes.count(tree)
        moved = replaced is not None and changes.writer.moves(tree)
        scoped = changes.scoped(tree, replaced) if replaced is not None and moved else None
        if count and scoped is None and analysed.unrepeatable is not None:
            raise Refused(analysed.unrepeatable)
        query = None if count and analysed.unrepeatable else changes.change(tree)
        return Plan(query, count, scoped, adding(changes, tree) if count else None)
    except Refused as refused:
        return outcome(refused, analysed.text)


def adding_of(
    analysed: Analysed, changed: Collection[str], clock: tuple[int, int] | None = None
) -> Adding | None:
    """The `Plan.adding` if the relations ``changed`` have changed, whatever they are read as; None
    if there is none. Its ``query`` is not meant to be run.
    """
    plan = delta(analysed, dict.fromkeys(changed, Sides("", "", "")), clock)
    return None if isinstance(plan, NotIncremental) else plan.adding


def _linear(body: Block | SetOp | Query) -> bool:
    if isinstance(body, Block):
        return kind_of(body) is KeyKind.PLAIN and not body.subqueries
    return not isinstance(body, SetOp) or not body.compares_rows


def _rewritten(
    analysed: Analysed,
    rule: Callable[[str, Query, Names], list[Rewriting]],
    columns_of: ColumnsOf,
    allowed: Collection[str],
) -> Analysed:
    """The query with the rule applied wherever the result can be analysed, innermost parts
    first.
    """

    def attempt(chosen: Sequence[Rewriting]) -> Analysed | None:
        edits = {edit for each in chosen for edit in each.edits}
        try:
            new = _analysed(spliced(analysed.text, edits), columns_of, allowed)
        except Refused:
            return None
        limited = any(query.limited for query in every_query(analysed.tree))
        return new if limited or new.unrepeatable == analysed.unrepeatable else None

    while candidates := rule(analysed.text, analysed.tree, analysed.names):
        new = attempt(candidates)
        if new is None:
            new = attempt([each for each in candidates if attempt([each]) is not None])
        if new is None or new.text == analysed.text:
            return analysed
        analysed = new
    return analysed


def _qualified(text: str) -> str:
    """The text with columns qualified by the last part of a relation's name: db.t.x becomes t.x,
    because a query will stand for db.t under the alias t.
    """
    unaliased = {
        leaf.name: last_part(leaf.name)
        for leaf in _relations(read(text))
        if leaf.end == leaf.start + len(leaf.name)
    }
    for name in unaliased:
        if qualifiers(text, {name: ""}) and shares_its_name(text, name):
            raise Refused(f"another relation has the last name of {name}, whose columns are qualified")
    return spliced(text, qualifiers(text, unaliased))


def _analysed(text: str, columns_of: ColumnsOf, allowed: Collection[str]) -> Analysed:
    check_text(text, Tokens(text).words)
    text = _qualified(text)
    tree = read(text)
    for query in every_query(tree):
        _check_shape(query)
    _check_limits(tree, unless_ordered=True)
    if places(tree) > limits.MAX_PLACES:
        reason = f"relations are read in more than {limits.MAX_PLACES} places, through CTEs or views"
        raise Refused(reason, tree.body_start)
    nodes = trees(text, tree)
    first = {leaf.parts: leaf for leaf in reversed([*_relations(tree)])}
    described = {key: (leaf.name, _described(leaf, columns_of)) for key, leaf in reversed(first.items())}
    lowered = {key: tuple(name.lower() for name, _ in columns) for key, (_, columns) in described.items()}
    types = {key: tuple(kind for _, kind in columns) for key, (_, columns) in described.items()}
    names = Names(nodes, lowered, types, outer_blocks(tree))
    Checks(text, names, allowed).every(tree)
    used = names.used(tree, {word.text.lower() for word in words(text) if word.is_name})
    for key, (name, columns) in described.items():
        check_types(name, [column for column in columns if column[0].lower() in used[key]])
        check_names(words(text), name, used[key])
    Maps(text, names).check(tree)
    relations = {
        name: tuple(column for column in lowered[key] if column in used[key])
        for key, (name, _) in described.items()
    }
    marks = Tokens(text).marks()
    cause = Repeatable(text, names).outermost(tree)
    if cause is not None and Changes(text, tree, marks, names, {}, None).replaced(tree) is None:
        raise Refused(
            f"{cause.reason} cannot be repeated, and the model has no column with its key", cause.at
        )
    if cause is not None and any(query.ordered for query in every_query(tree) if query is not tree):
        # Spark keeps such an order; the query of a change, with its joins, does not
        raise Refused(f"{cause.reason} takes rows in the order of a query below it", cause.at)
    unrepeatable = None if cause is None else f"{cause.reason} cannot be repeated"
    return Analysed(text, relations, tree, names, marks, unrepeatable)


def _relations(tree: Query) -> Iterator[Relation]:
    every = (leaf for block in every_block(tree) for leaf in leaves(block.source))
    return (leaf for leaf in every if isinstance(leaf, Relation))


def _described(leaf: Relation, columns_of: ColumnsOf) -> list[tuple[str, str]]:
    columns = columns_of(leaf.name)
    if columns is None:
        raise Refused(f"the columns of {leaf.name} are not known", leaf.start)
    for name, _ in columns:
        if name.lower().startswith("_mv_"):
            raise Refused(f"column {name} of {leaf.name}: names with _mv_ are reserved", leaf.start)
    return list(columns)


def _check_limits(tree: Query, *, unless_ordered: bool = False) -> None:
    """Refuse a LIMIT where it is not known which rows it keeps."""
    for query in every_query(tree):
        if query.limited is not None and not (unless_ordered and query.ordered):
            raise Refused("LIMIT or OFFSET", query.limited.start)


def _check_first_rows(analysed: Analysed, columns_of: ColumnsOf, allowed: Collection[str]) -> None:
    """Refuse a LIMIT of ordered rows for what forbids its rewriting (`top_rows`), if that does."""
    for each in top_rows(analysed.text, analysed.tree, analysed.names):
        try:
            _analysed(spliced(analysed.text, {*each.edits}), columns_of, allowed)
        except Refused as refused:
            raise Refused(refused.reason, each.start) from refused


def _check_shape(query: Query) -> None:
    """Refuse queries of shapes that have no rule yet."""
    body = query.body
    if isinstance(body, Block) and "HAVING" in body.more and kind_of(body) is KeyKind.PLAIN:
        raise Refused("HAVING without groups", body.more["HAVING"].start)


def _check_time(analysed: Analysed, writer: Writer) -> None:
    """Refuse `mv_now()` where it changes every row as time passes."""
    for block in every_block(analysed.tree):
        conditions = [join.on for join in joins(block.source) if join.on is not None]
        calls = [leaf.call for leaf in leaves(block.source) if isinstance(leaf, Constant)]
        for part in (*block.items, *conditions, *calls, *block.laterals, *block.more.values()):
            if writer.timed(part):
                raise Refused("mv_now() outside WHERE, and its value changed", part.start)


def clock_probe(analysed: Analysed, clock: tuple[int, int]) -> str | None:
    """A query of one BOOLEAN: whether every expression of `mv_now()` has the same value at both
    times. Then the change can be derived without a clock.

    None if there is no need to ask: the text has a bare `mv_now()`, which differs, or none at all.
    """
    tokens = Tokens(analysed.text)
    same = []
    for mark in analysed.marks:
        start, end = _widest(tokens, mark)
        if (start, end) == mark:
            return None
        values = (_at(tokens, start, end, time, analysed.marks) for time in clock)
        same.append(" <=> ".join(f"({value})" for value in values))
    return f"select {' and '.join(dict.fromkeys(same))} as same" if same else None


def _at(tokens: Tokens, start: int, end: int, time: int, marks: tuple[tuple[int, int], ...]) -> str:
    """The expression with every `mv_now()` in it at ``time``."""
    edits = [
        (low - start, high - start, f"timestamp_millis({time}L)") for low, high in marks if start <= low < end
    ]
    return spliced(tokens.text[start:end], edits)


def _widest(tokens: Tokens, mark: tuple[int, int]) -> tuple[int, int]:
    """The span of the largest call around the mark that names no column."""
    widest, low = mark, next(index for index, word in enumerate(tokens.words) if word.start == mark[0])
    while (opening := tokens.around(low)) is not None:
        low = opening - (opening > 0 and tokens.words[opening - 1].is_name)
        span = tokens.at(low), tokens.words[tokens.closing(opening)].end
        if not _constant(tokens.text[span[0] : span[1]]):
            break
        widest = span
    return widest


def _constant(call: str) -> bool:
    try:
        tree = parsed(f"select {call}")
    except SqlglotError:
        return False
    return len(tree.expressions) == 1 and tree.expressions[0].find(exp.Column, exp.Query) is None
