"""Groups in two steps: a query that adds up (`adding`), and a query that computes the model's
columns from its rows.

Most queries show columns that do not add up: averages, quotients of sums, sums without the number
of their values. `sums_of` splits such a query in two. The columns of the first are

| column | value |
|---|---|
| `k0`, `k1`, ... | the group keys |
| `n` | the number of rows |
| `c0`, `c1`, ... | the number of values, not NULL, of an expression |
| `s0`, `s1`, ... | their sum |

The second query reads these rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.incremental.adding import MAX_PRECISION, exact_sums
from dbt.adapters.mvsink.incremental.blocks import Changes
from dbt.adapters.mvsink.incremental.change_plan import Analysed
from dbt.adapters.mvsink.incremental.compose import Side
from dbt.adapters.mvsink.incremental.keys import KeyKind, canonical, group_keys, kind_of, owners_of
from dbt.adapters.mvsink.incremental.lineage import Exact, exact_argument
from dbt.adapters.mvsink.incremental.name_resolution import output_name
from dbt.adapters.mvsink.incremental.refuse import NotIncremental, outcome
from dbt.adapters.mvsink.user_sql.algebra import Block, Call, Fragment, Refused, core
from dbt.adapters.mvsink.user_sql.tokens import chains
from dbt.adapters.mvsink.user_sql.words import identity, words

MAX_COUNT = 10**12  # values of an average: beyond, its digits are not known to be Spark's
MAX_SCALE = 10  # of an averaged decimal, for the same reason
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_AVERAGES = ("avg", "mean")
_ALL_OR_ANY = {"bool_and": "= {every}", "every": "= {every}", "bool_or": "> 0", "some": "> 0"}
_BEHIND = frozenset({"FILTER", "WITHIN", "IGNORE", "RESPECT", "OVER"})


@dataclass(frozen=True)
class Average:
    """The average of an accumulated expression."""

    number: int
    decimal: bool


Pieces = tuple["str | Average", ...]


@dataclass(frozen=True)
class Sums:
    """``query`` adds up; `shown` gives the model's columns from its rows."""

    query: str
    items: tuple[tuple[str, Pieces], ...]
    having: Pieces

    def shown(self, relation: str, types: Mapping[str, str]) -> str | None:
        """The model's query over ``relation``, which holds the rows of `query`, in columns of these
        ``types``. None if sums of these types do not add up.
        """
        decimals = [match for kind in types.values() if (match := _DECIMAL.fullmatch(kind))]
        if not all(exact_sums(int(match[1]), int(match[2])) for match in decimals):
            return None
        try:
            listed = ", ".join(f"{_text(part, types)} as {sql.identifier(name)}" for name, part in self.items)
            kept = f" where {_text(self.having, types)}" if self.having else ""
        except ValueError:
            return None
        return f"select {listed} from {relation}{kept}"


def sums_of(analysed: Analysed) -> Sums | NotIncremental:
    """The query, split in two, or why it cannot be split."""
    query, block = core(analysed.tree)
    try:
        if not isinstance(block, Block) or kind_of(block) not in (KeyKind.WHOLE, KeyKind.KEYED):
            raise Refused("it has no groups", query.start)
        return _Split(analysed, block).sums()
    except Refused as refused:
        return outcome(refused, analysed.text)


@dataclass
class _Split:
    """Splits ``block``. ``arguments`` has the text of each accumulated expression, by its
    `identity`.
    """

    analysed: Analysed
    block: Block
    arguments: dict[tuple[str, ...], str] = field(default_factory=dict)
    summed: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        block, names = self.block, self.analysed.names
        if self.analysed.unrepeatable is not None:
            raise Refused(self.analysed.unrepeatable, block.start)
        if block.windows:
            raise Refused("windows over groups", block.start)
        self.words = words(self.analysed.text)
        self.keys = group_keys(block, names) if "GROUP" in block.more else ()
        self.key_of = {canonical(block, names, key.node): f"k{at}" for at, key in enumerate(self.keys)}

    def sums(self) -> Sums:
        block, names = self.block, self.analysed.names
        if any(item.star is not None for item in block.items):
            raise Refused("a star", block.start)
        items = []
        for item in block.items:
            node = names.nodes[item]
            if output_name(node) is None or self._marked(item):
                raise Refused("a column without a name, or of the time", item.start)
            aliased = isinstance(node, exp.Alias) and item.bare is not None
            part = item.bare if aliased and item.bare is not None else item
            items.append((node.alias_or_name, self._replaced(part, node.unalias(), {})))
        having: Pieces = ()
        if "HAVING" in block.more:
            part = block.more["HAVING"]
            if self._marked(part):
                raise Refused("mv_now() in HAVING", part.start)
            aliases = {name.lower(): pieces for name, pieces in items}
            having = self._replaced(part, names.nodes[part], aliases)
        return Sums(self._query(), tuple(items), having)

    def _marked(self, part: Fragment) -> bool:
        """Whether the part contains `mv_now()` or a subquery."""
        starts = [
            *(start for start, _ in self.analysed.marks),
            *(each.start for each in self.block.subqueries),
        ]
        return any(map(part.has, starts))

    def _query(self) -> str:
        """The query that adds up."""
        analysed, block = self.analysed, self.block
        writer = Changes(analysed.text, analysed.tree, analysed.marks, analysed.names, {}, None).writer
        keys = [f"({writer.cut(key.part, Side.NEW)})" for key in self.keys]
        listed = [f"{key} as k{at}" for at, key in enumerate(keys)] + ["count(*) as n"]
        for at, argument in enumerate(self.arguments.values()):
            listed.append(f"count({argument}) as c{at}")
            if at in self.summed:
                listed.append(f"sum({argument}) as s{at}")
        conditions = [writer.cut(each, Side.NEW) for each in block.where]
        selected = replace(block, listed=", ".join(listed))
        text = writer.select(selected, lambda leaf: Side.NEW, None, conditions, {})
        return f"{text}\ngroup by {', '.join(keys)}" if keys else text

    def _replaced(self, part: Fragment, node: exp.Expr, aliases: Mapping[str, Pieces]) -> Pieces:
        """The part, rewritten over the sums. ``aliases`` are those of items, which it may name."""
        if (key := self.key_of.get(canonical(self.block, self.analysed.names, node))) is not None:
            return (key,)
        calls = [*filter(part.has, self.block.calls)]
        edits = [(call.start, call.end, self._value(call)) for call in calls]
        outside = [each for each in node.find_all(exp.Column) if not _aggregated(each)]
        named = list(self._named(part, calls, aliases))
        if len(outside) != len(named):
            raise Refused("a value that is neither a group key nor a sum", part.start)
        pieces: list[str | Average] = []
        at = part.start
        for start, end, new in sorted([*edits, *named], key=lambda edit: edit[0]):
            pieces += [self.analysed.text[at:start], *new]
            at = end
        return ("(", *pieces, self.analysed.text[at : part.end], ")")

    def _named(
        self, part: Fragment, calls: list[Call], aliases: Mapping[str, Pieces]
    ) -> Iterator[tuple[int, int, Pieces]]:
        """The places outside of ``calls`` where the part names a group key or an item, with what
        replaces them.
        """
        inside = [
            word
            for word in self.words
            if part.has(word.start) and not any(call.has(word.start) for call in calls)
        ]
        for chain in chains(inside):
            pieces = self._named_by([word.text for word in chain], aliases)
            if pieces:
                yield chain[0].start, chain[-1].end, pieces

    def _named_by(self, chain: list[str], aliases: Mapping[str, Pieces]) -> Pieces:
        column = exp.column(chain[-1], chain[-2] if len(chain) > 1 else None, quoted=True)
        if len(chain) <= 2 and owners_of(self.block, self.analysed.names, column):
            key = self.key_of.get(canonical(self.block, self.analysed.names, column))
            return () if key is None else (key,)
        return aliases.get(chain[0].lower(), ()) if len(chain) == 1 else ()

    def _value(self, call: Call) -> Pieces:
        """An aggregate call, rewritten over the sums."""
        text = self.analysed.text
        behind = next((word.upper for word in self.words if word.start >= call.end), "")
        before = (word.upper for word in self.words if call.start <= word.start < self._first(call))
        if behind in _BEHIND or "DISTINCT" in before or len(call.arguments) != 1:
            raise Refused(f"{call.name}() does not add up here", call.start)
        argument = call.arguments[0].of(text)
        if call.name == "count":
            return ("n",) if argument.strip() == "*" else (self._counted(argument),)
        if call.name == "count_if":
            return (self._counted(f"case when {argument} then 1 end"),)
        if call.name in _ALL_OR_ANY:
            every, true = self._counted(argument), self._counted(f"case when {argument} then 1 end")
            return (f"case when {every} > 0 then {true} {_ALL_OR_ANY[call.name].format(every=every)} end",)
        kind = exact_argument(text, self.block, self.analysed.names, call)
        exactly = (Exact.INT, Exact.DECIMAL) if call.name in _AVERAGES else tuple(Exact)
        if call.name not in ("sum", *_AVERAGES) or kind not in exactly:
            raise Refused(f"{call.name}() does not add up", call.start)
        number = self._number(argument)
        self.summed.add(number)
        if call.name == "sum":
            return (f"s{number}",)
        return (Average(number, kind is Exact.DECIMAL),)

    def _first(self, call: Call) -> int:
        return call.arguments[0].start if call.arguments else call.end

    def _counted(self, argument: str) -> str:
        return f"c{self._number(argument)}"

    def _number(self, argument: str) -> int:
        key = identity(argument)
        self.arguments.setdefault(key, argument)
        return list(self.arguments).index(key)


def _aggregated(column: exp.Column) -> bool:
    """Whether the column is in an argument of an aggregate; sqlglot does not know all
    aggregates.
    """
    around = column.find_ancestor(exp.AggFunc, exp.Anonymous)
    while isinstance(around, exp.Anonymous) and around.name.lower() not in _ALL_OR_ANY:
        around = around.find_ancestor(exp.AggFunc, exp.Anonymous)
    return around is not None


def _text(pieces: Pieces, types: Mapping[str, str]) -> str:
    """Raises `ValueError` for an average whose digits would not be known."""
    return "".join(each if isinstance(each, str) else _average(each, types) for each in pieces)


def _average(average: Average, types: Mapping[str, str]) -> str:
    """The average as Spark computes it. For integers it is a quotient of doubles, which is exact
    below 2^53. For decimals it has four more digits than the values, rounded half up once: the
    quotient is split into its integer part, which is exact, and the rest, which then has enough
    digits.
    """
    number, value = f"c{average.number}", f"s{average.number}"
    if not average.decimal:
        exactly = f"abs({value}) < {2**53}L"
        quotient, refused = f"cast({value} as double) / cast({number} as double)", "the sum is too large"
    else:
        match = _DECIMAL.fullmatch(types[value])
        if match is None or int(match[1]) > MAX_PRECISION or int(match[2]) > MAX_SCALE:
            raise ValueError
        precision, scale = int(match[1]) - 10, int(match[2])  # of what is averaged
        count = f"cast({number} as decimal(20,0))"
        whole = f"cast(({value} - {value} % {count}) / {count} as decimal({max(precision - scale, 1)},0))"
        rest = f"cast({value} % {count} as decimal({12 + scale},{scale})) / {count}"
        rounded = f"cast({rest} as decimal({scale + 5},{scale + 4}))"
        quotient = f"cast({whole} + {rounded} as decimal({precision + 4},{scale + 4}))"
        exactly, refused = f"{number} <= {MAX_COUNT}L", "there are too many values"
    failure = f"raise_error('an average that cannot be computed exactly: {refused}')"
    return f"case when {number} > 0 then if({exactly}, {quotient}, {failure}) end"
