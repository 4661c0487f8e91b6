"""How a query's changes are derived, for people: a line for each block and set operator, and for
each cause by which a value may be another when it is evaluated again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dbt.adapters.mvsink.incremental.change_plan import Analysed
from dbt.adapters.mvsink.incremental.keys import KeyKind, group_keys, keys_of, kind_of
from dbt.adapters.mvsink.incremental.repeatable import Repeatable
from dbt.adapters.mvsink.incremental.sums import Sums, sums_of
from dbt.adapters.mvsink.incremental.terms import deciding
from dbt.adapters.mvsink.incremental.top_rows import limit_of
from dbt.adapters.mvsink.incremental.unnest import brought
from dbt.adapters.mvsink.user_sql.algebra import (
    Block,
    Call,
    Derived,
    Fragment,
    Leaf,
    Query,
    Relation,
    SetOp,
    core,
    every_block,
    joins,
    leaves,
)
from dbt.adapters.mvsink.user_sql.functions import ESTIMATES, LISTS, ROUNDED, SUMS, TEXT_LISTS
from dbt.adapters.mvsink.user_sql.words import last_part

WIDTH = 60  # characters of a text that is shown
ALL = "all rows"


@dataclass(frozen=True)
class Rule:
    """A block or a set operator, nested ``depth`` levels deep. ``part`` says what it is, and
    ``rule`` which of its rows are computed after a change.
    """

    depth: int
    part: str
    rule: str


def rules(analysed: Analysed) -> tuple[Rule, ...]:
    """The rules for the parts of the query, outermost first; a CTE comes where it is first read."""
    return tuple(_Describing(analysed).query(analysed.tree, 0))


def remarks(analysed: Analysed) -> tuple[str, ...]:
    """What may differ when equal rows are evaluated twice, and what would help: clauses, one for
    each cause, with its lines of the text.
    """
    text, repeatable = analysed.text, Repeatable(analysed.text, analysed.names)
    lines: dict[str, dict[int, None]] = {}
    for block in every_block(analysed.tree):
        for call in repeatable.unrepeatable_calls(block):
            limit = limit_of(text, call)
            line = text.count("\n", 0, call.start if limit is None else limit) + 1
            lines.setdefault(_TIES if limit is not None else f"{call.name}() {_effect(call)}", {})[line] = (
                None
            )
    first = sorted(lines.items(), key=lambda each: min(each[1]))
    return tuple(f"{_listed(sorted(numbers))}: {remark}" for remark, numbers in first)


_TIES = "LIMIT may take other rows that tie when it is evaluated again; a unique ORDER BY does not"


def _effect(call: Call) -> str:
    """What the call may do when it is evaluated again, and what does not."""
    if call.name in SUMS:
        return "may differ in its last digits when it is evaluated again; sums of decimals do not"
    if call.name in ROUNDED:
        return "computes with doubles and may differ in its last digits when it is evaluated again; readers that compare it should round it"
    if call.name in ESTIMATES:
        return "estimates, and may give another value when it is evaluated again"
    if call.name in LISTS:
        return "may list its values in another order when it is evaluated again; in sort_array() it does not"
    if call.name in TEXT_LISTS:
        return "may join its values in another order when it is evaluated again; array_join(sort_array(collect_list())) does not"
    if call.window is not None:
        return "may give rows that tie other values when it is evaluated again; a unique ORDER BY does not"
    return "may give another value when it is evaluated again; min_by() with a unique column does not"


def _listed(lines: Sequence[int]) -> str:
    return f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}"


@dataclass
class _Describing:
    analysed: Analysed
    shown: set[Query] = field(default_factory=set)

    def query(self, query: Query, depth: int) -> Iterator[Rule]:
        query, body = core(query)
        if isinstance(body, SetOp):
            every = "" if not body.all else " all"
            rule = "rows that a change touches" if body.compares_rows else "what changed in its branches"
            yield Rule(depth, f"{body.operator.lower()}{every}", rule)
            yield from self.query(body.left, depth + 1)
            yield from self.query(body.right, depth + 1)
        elif (limited := self._limited(body)) is not None:
            yield Rule(depth, "limit", f"{ALL}: a change moves others among the first")
            yield from self.query(limited, depth + 1)
        else:
            yield Rule(depth, self._part(body), "; ".join(self._rules(query, body)))
            yield from self._below(body, depth + 1)

    def _limited(self, block: Block) -> Query | None:
        """The query of which the block has the first rows, if it stands for a LIMIT."""
        numbered = core(block.source.query)[1] if isinstance(block.source, Derived) else None
        if not isinstance(numbered, Block) or not isinstance(numbered.source, Derived):
            return None
        limits = (limit_of(self.analysed.text, call) for call in numbered.calls)
        return None if all(limit is None for limit in limits) else numbered.source.query

    def _below(self, block: Block, depth: int) -> Iterator[Rule]:
        for leaf in leaves(block.source):
            if isinstance(leaf, Derived) and leaf.query not in self.shown:
                self.shown.add(leaf.query)
                yield from self.query(leaf.query, depth)
        for subquery in block.subqueries:
            yield from self.query(subquery.query, depth)

    def _part(self, block: Block) -> str:
        """What the block does, and with which relations."""
        source = "".join(self._sources(block))
        kind = kind_of(block)
        if "GROUP" in block.more:
            keys = (self._text(key.part) for key in group_keys(block, self.analysed.names))
            return f"group by {_short(', '.join(keys))}{source}"
        if kind is KeyKind.KEYED:
            keys = (self._text(part) for part in block.windows[0].partition)
            return f"windows by {_short(', '.join(keys)) or 'nothing'}{source}"
        named = {KeyKind.DISTINCT: "distinct", KeyKind.WHOLE: "aggregates"}
        return f"{named.get(kind, 'select')}{source}"

    def _sources(self, block: Block) -> Iterator[str]:
        kinds = {id(leaf): join.kind for join in joins(block.source) for leaf in [*leaves(join.right)][:1]}
        for number, leaf in enumerate(leaves(block.source)):
            kind = kinds.get(id(leaf), "")
            joined = "," if kind == "comma" else f" {kind} join".replace(" inner", "")
            yield f"{joined if number else ' from'} {_name(leaf)}"

    def _rules(self, query: Query, block: Block) -> Iterator[str]:
        names, kind = self.analysed.names, kind_of(block)
        in_where = [each for each in block.subqueries if any(conjunct.has(each) for conjunct in block.where)]
        if len(in_where) < len(block.subqueries):
            yield f"{ALL}, if a subquery that is shown changed"
        if kind is KeyKind.PLAIN:
            yield from self._of_rows(block)
        elif kind is KeyKind.WHOLE:
            yield "its one row"
        elif kind is KeyKind.DISTINCT:
            yield "rows that a change touches"
        elif not keys_of(block, names):
            yield f"{ALL}: its windows share no key"
        else:
            yield f"{'groups' if 'GROUP' in block.more else 'partitions'} that a change touches"
        if query is core(self.analysed.tree)[0] and isinstance(sums_of(self.analysed), Sums):
            yield "or its sums, to which what changed is added"
        if in_where:
            yield "each row tested again, if a subquery in WHERE changed"
        if any(_marked(self.analysed, conjunct) for conjunct in block.where):
            yield "rows that enter or leave as time passes"

    def _of_rows(self, block: Block) -> Iterator[str]:
        yield "rows that changed"
        matching = [_name(leaf) for leaf in leaves(block.source) if any(deciding(block, leaf))]
        if matching:
            yield f"rows that match what changed in {' or '.join(dict.fromkeys(matching))}"
        if any(join.kind == "full" for join in joins(block.source)):
            yield "rows of the keys that changed in a full join"

    def _text(self, part: Fragment) -> str:
        return " ".join(part.of(self.analysed.text).split())


def _name(leaf: Leaf) -> str:
    """The name that people use for it."""
    if isinstance(leaf, Derived):
        alias = leaf.alias or ""
        return leaf.reference or ("(a subquery)" if brought(alias) else alias) or "(a query)"
    return last_part(leaf.name).strip("`") if isinstance(leaf, Relation) else leaf.function or "values"


def _short(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."


def _marked(analysed: Analysed, part: Fragment) -> bool:
    return any(part.has(start) for start, _ in analysed.marks)
