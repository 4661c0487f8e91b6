"""The explicit text of a query: it spells out what this package takes the query to mean, so that
Spark can compare it with the query itself.

    select *, o.amount * 2 as twice from shop.orders o join shop.customers using (id) -- all of them

is read as

    select `id`, _mv_q0.`amount`, _mv_q1.`name`, _mv_q0.`amount` * 2 as `twice`
    from shop.orders as _mv_q0 join shop.customers as _mv_q1 using (`id`)

Every relation has an alias of its own, every column is qualified by the alias of the leaf that it
was resolved to, and every star is replaced by its columns. GROUP BY has the expressions of its
ordinals, aliases and ALL. Expressions that count as equal have one text, and comments are gone.
Spark analyzes both texts. If their plans differ, something was misread. The explicit text is never
run.

It is rendered with the functions that the rules use (`Names.of_leaf`, `Names.of_star`, `owners_of`,
`group_keys`, `canonical`), so that their mistakes show in it. What only Spark can resolve stays as
it was written and claims nothing: aliases of items in HAVING and in later items, and variables of
lambdas.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from sqlglot import exp

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.incremental.change_plan import Analysed
from dbt.adapters.mvsink.incremental.keys import canonical, group_keys, outputs, owners_of
from dbt.adapters.mvsink.incremental.name_resolution import Names, own_columns, visible_leaves
from dbt.adapters.mvsink.user_sql.algebra import (
    Block,
    Constant,
    Cte,
    Fragment,
    Item,
    Join,
    LateralView,
    Leaf,
    Nest,
    Query,
    Refused,
    Relation,
    SetOp,
    Source,
    every_query,
    joins,
    leaves,
)
from dbt.adapters.mvsink.user_sql.inline_tables import SELECT, as_written
from dbt.adapters.mvsink.user_sql.splice import replace_relations
from dbt.adapters.mvsink.user_sql.words import Word, parts, words

_JOINS = {
    "comma": ",",
    "cross": "cross join",
    "inner": "join",
    "left": "left join",
    "right": "right join",
    "full": "full join",
    "semi": "left semi join",
    "anti": "left anti join",
}
_WORD = re.compile(r"`[^`]*`|\w+")


_STAND_IN = "_mv_w"


@dataclass(frozen=True)
class Claim:
    """The claim that ``text`` means what ``explicit`` says. Both name stand-ins in place of
    relations; ``stand_ins`` has the relations' columns and types by the stand-ins' names.
    """

    text: str
    explicit: str
    stand_ins: Mapping[str, Sequence[tuple[str, str]]]


def claims(query: str, analysed: Analysed) -> list[Claim]:
    """What is claimed by reading ``query`` as ``analysed``: the reading of the query, with its
    references replaced as in every run, and the reading of the query with joins for its subqueries.

    Raises `Refused` where a column that would have to be named has no name.
    """
    if analysed.written is None:
        return [_claim(query, analysed)]
    return [_claim(query, analysed.written), _claim(analysed.text, analysed)]


def pieces(analysed: Analysed) -> Iterator[tuple[int, Claim]]:
    """The claims of the queries inside a query, with their lines, innermost first."""
    for query in [*every_query(analysed.tree)][:0:-1]:
        with suppress(Refused, KeyError):  # a part that names a CTE outside it
            claim = _claim(query.of(analysed.text), analysed, query)
            yield analysed.text.count("\n", 0, query.start) + 1, claim


def _claim(query: str, analysed: Analysed, tree: Query | None = None) -> Claim:
    names = {parts(name): f"{_STAND_IN}{number}" for number, name in enumerate(analysed.relations)}
    text = _Text(analysed.text, analysed.names, words(analysed.text), names)
    tables = {name: f"table {names[parts(name)]}" for name in analysed.relations}
    described = {names[parts(name)]: analysed.names.columns_of(name) for name in analysed.relations}
    return Claim(replace_relations(as_written(query), tables), text.query(tree or analysed.tree), described)


Outputs = list[tuple[str, str]]  # of a FROM tree: a column's name, and its text


@dataclass
class _Text:
    text: str
    names: Names
    stream: tuple[Word, ...]
    stand_ins: Mapping[tuple[str, ...], str]
    aliases: dict[int, str] = field(default_factory=dict)  # by the id of a leaf or lateral view
    ctes: dict[int, tuple[str, Cte]] = field(default_factory=dict)  # by the id of their query
    known: dict[tuple[int, str], str] = field(default_factory=dict)  # by block: `canonical` -> text

    def alias(self, owner: Leaf | LateralView) -> str:
        return self.aliases.setdefault(id(owner), f"_mv_q{len(self.aliases)}")

    def query(self, query: Query) -> str:
        listed = [self._cte(cte) for cte in query.ctes]
        body = query.body
        if isinstance(body, Query):
            text = f"({self.query(body)})"
        elif isinstance(body, SetOp):
            every = " all" if body.all else ""
            text = f"({self.query(body.left)}) {body.operator.lower()}{every} ({self.query(body.right)})"
        else:
            text = self._block(body)
        return (f"with {', '.join(listed)} " if listed else "") + text + self._behind(query)

    def _cte(self, cte: Cte) -> str:
        name, columns = f"_mv_c{len(self.ctes)}", f"({sql.columns(cte.columns)})" if cte.columns else ""
        self.ctes[id(cte.query)] = (name, cte)
        return f"{name}{columns} as ({self.query(cte.query)})"

    def _behind(self, query: Query) -> str:
        """ORDER BY and the like, in which names mean outputs first, then columns that the block
        reads.
        """
        if not query.ordered:
            return ""
        inside = [word for word in self.stream if query.body.end <= word.start < query.end]
        while inside and inside[0].upper == ")":
            inside = inside[1:]
        body = query.body
        if not isinstance(body, Block):
            return " " + self._tokens(inside, lambda chain: None)
        shown = {name for name, _ in outputs(body, self.names)}

        def column(chain: list[Word]) -> str | None:
            path = [word.text.lower() for word in chain]
            return None if len(path) == 1 and path[0] in shown else self._resolved(body, None, chain)

        return " " + self._tokens(inside, column)

    def _block(self, block: Block) -> str:
        if block.source is not None and self.text.startswith(SELECT, block.start):
            return self._source(block, block.source)[0]
        source = "" if block.source is None else f" from {self._source(block, block.source)[0]}"
        views = "".join(f" {self._lateral(block, view)}" for view in block.laterals)
        items = ", ".join(each for item in block.items for each in self._item(block, item))
        where = " and ".join(f"({self._expression(block, part)})" for part in block.where)
        text = f"select{self._hint(block)}{' distinct' if 'DISTINCT' in block.more else ''} {items}"
        text += source + views + (f" where {where}" if where else "")
        if "GROUP" in block.more:
            keys = (self._interned(block, key.part, key.node) for key in group_keys(block, self.names))
            text += f" group by {', '.join(keys)}"
        for name in ("HAVING", "WINDOW"):
            if name in block.more:
                text += f" {name.lower()} {self._clause(block, block.more[name])}"
        return text

    def _hint(self, block: Block) -> str:
        """The block's hint, with the new aliases."""
        if block.hint is None:
            return ""
        by_name = {leaf.alias.lower(): self.alias(leaf) for leaf in leaves(block.source) if leaf.alias}
        hint = block.hint.of(self.text)
        return " " + _WORD.sub(lambda match: by_name.get(match[0].strip("`").lower(), match[0]), hint)

    def _item(self, block: Block, item: Item) -> Iterator[str]:
        if item.star is not None:
            yield from self._star(block, item)
            return
        node = self.names.nodes[item]
        if isinstance(node, exp.Aliases):
            yield self._generator(block, item, node)
        elif not isinstance(node, exp.Alias):
            yield self._interned(block, item, node)
        elif item.bare is not None and isinstance(node, exp.Alias):
            yield f"{self._interned(block, item.bare, node.this)} as {sql.identifier(node.alias)}"
        else:
            yield self._expression(block, item)

    def _generator(self, block: Block, item: Item, node: exp.Aliases) -> str:
        """A generator with the names of its columns, which may be those of what it reads."""
        stream = [word for word in self.stream if item.has(word.start)]
        named = max(index for index, word in enumerate(stream) if word.upper == "(")
        behind = named - (stream[named - 1].upper == "AS")
        call = self._with_columns(block, Fragment(item.start, stream[behind - 1].end), [node.this])
        return f"{call} as ({sql.columns([each.name for each in node.expressions])})"

    def _star(self, block: Block, item: Item) -> Iterator[str]:
        meant = self.names.of_star(block, item)
        merged = any(join.using or join.natural for join in joins(block.source))
        if item.star or not merged or block.source is None:
            for owner, name in meant:
                yield self._of(owner, name, item)
            return
        kept = {name for _, name in meant}
        yield from (text for name, text in self._source(block, block.source)[1] if name in kept)
        yield from (self._of(owner, name, item) for owner, name in meant if isinstance(owner, LateralView))

    def _of(self, owner: Leaf | LateralView, name: str | None, part: Fragment) -> str:
        if name is None:
            raise Refused("a column without a name", part.start)
        return f"{self.alias(owner)}.{sql.identifier(name)}"

    def _interned(self, block: Block, part: Fragment, node: exp.Expr) -> str:
        """The one text for all expressions that count as equal to ``node``."""
        if node.find(exp.Query):
            return self._with_columns(block, part, [node])
        key = (id(block), canonical(block, self.names, node))
        if key not in self.known:
            self.known[key] = self._with_columns(block, part, [node])
        return self.known[key]

    def _source(self, block: Block, source: Source) -> tuple[str, Outputs]:
        """The text of a FROM tree, and the columns that a star over it stands for."""
        if isinstance(source, Nest):
            text, columns = self._source(block, source.inner)
            return f"({text})", columns
        if not isinstance(source, Join):
            named = [(name or "", f"{self.alias(source)}.{sql.identifier(name or '')}")
                     for name in self.names.of_leaf(source)]  # fmt: skip
            return self._leaf(source), named
        (left, of_left), (right, of_right) = (
            self._source(block, side) for side in (source.left, source.right)
        )
        criteria, columns = self._criteria(block, source, of_left, of_right)
        return f"{left} {_JOINS[source.kind]} {right}{criteria}", columns

    def _criteria(self, block: Block, join: Join, left: Outputs, right: Outputs) -> tuple[str, Outputs]:
        """The condition of a join, and the join's columns. USING stays: a column that it merges has
        no qualifier.
        """
        both = left if join.kind in ("semi", "anti") else [*left, *right]
        if join.on is not None:
            return f" on {self._expression(block, join.on, join)}", both
        names = [name.lower() for name in join.using]
        if join.natural:
            names = [name for name, _ in left if name in dict(right)]
        if not names:
            return "", both
        merged = [(name, sql.identifier(name)) for name in names]
        rest = [each for each in both if each[0] not in names]
        return f" using ({sql.columns(names)})", [*merged, *rest]

    def _leaf(self, leaf: Leaf) -> str:
        columns = leaf.columns
        if isinstance(leaf, Relation):
            text = self.stand_ins[leaf.parts]
        elif isinstance(leaf, Constant):
            text = self._tokens(self._inside(leaf.call), lambda chain: None)
        elif leaf.reference is None:
            text = f"({self.query(leaf.query)})"
        else:
            text, cte = self.ctes[id(leaf.query)]
            columns = () if columns == cte.columns else columns
        return f"{text} as {self.alias(leaf)}" + (f"({sql.columns(columns)})" if columns else "")

    def _lateral(self, block: Block, view: LateralView) -> str:
        names = sql.columns(view.columns)
        call = f"{self._expression(block, view.call)} {self.alias(view)}"
        if view.join is None:
            outer = " outer" if view.outer else ""
            return f"lateral view{outer} {call}" + (f" as {names}" if names else "")
        on = "" if view.on is None else f" on {self._expression(block, view.on)}"
        join = "left join" if view.outer else _JOINS[view.join]
        return f"{join} lateral {call}" + (f"({names})" if names else "") + on

    def _inside(self, part: Fragment) -> list[Word]:
        return [word for word in self.stream if part.has(word.start)]

    def _clause(self, block: Block, part: Fragment) -> str:
        """The text of a clause. HAVING has a tree of its own; WINDOW has the trees of its parts."""
        nodes = [self.names.nodes[part]] if part in self.names.nodes else []
        nodes += [
            self.names.nodes[each]
            for window in block.windows
            for each in (*window.partition, *window.order)
            if part.has(each) and part not in self.names.nodes
        ]
        aliases = {self.names.nodes[item].alias.lower() for item in block.items if item.star is None}
        return self._with_columns(block, part, nodes, kept=aliases)

    def _expression(self, block: Block, part: Fragment, on: Join | None = None) -> str:
        return self._with_columns(block, part, [self.names.nodes[part]], on)

    def _with_columns(
        self,
        block: Block,
        part: Fragment,
        nodes: list[exp.Expr],
        on: Join | None = None,
        kept: Collection[str] = (),
    ) -> str:
        """The words of the part, with its columns qualified and its subqueries made explicit. The
        names ``kept`` stay as they are.
        """
        named = {
            tuple(piece.name.lower() for piece in column.parts)
            for node in nodes
            for column in own_columns(node)
        }
        named -= {(alias,) for alias in kept}

        def column(chain: list[Word]) -> str | None:
            path = tuple(word.text.lower() for word in chain)
            known = any(path[:size] in named for size in range(len(path), 0, -1))
            return self._resolved(block, on, chain) if known else None

        pieces: list[str] = []
        at = part.start
        for below in block.subqueries:
            if part.has(below):
                pieces += [
                    self._tokens(self._inside(Fragment(at, below.start)), column),
                    self.query(below.query),
                ]
                at = below.end
        return " ".join([*pieces, self._tokens(self._inside(Fragment(at, part.end)), column)])

    def _resolved(self, block: Block, on: Join | None, chain: list[Word]) -> str | None:
        """``chain``, qualified by the alias of the leaf whose column it is; None if it stays as it
        is.
        """
        around: Block | None = block
        while around is not None:
            for size in range(min(len(chain), 2), 0, -1):  # the rest are fields of a struct
                each = exp.column(*(word.text for word in chain[:size][::-1]))
                if (text := self._owned(around, on, each)) is not None:
                    fields = "".join(f".{sql.identifier(word.text)}" for word in chain[size:])
                    return text + fields
            around, on = self.names.outer.get(around), None
        return None

    def _owned(self, block: Block, on: Join | None, column: exp.Column) -> str | None:
        scope, name = self.names.scope(block), column.name.lower()
        owners = [scope[number][0] for number in owners_of(block, self.names, column)]
        if len(owners) > 1:
            here: list[Leaf | LateralView] = (
                [*leaves(on)] if on is not None else [*visible_leaves(block.source), *block.laterals]
            )
            owners = [owner for owner in owners if owner in here]
        if len(owners) == 1:
            return f"{self.alias(owners[0])}.{sql.identifier(name)}"
        return None

    def _tokens(self, inside: list[Word], column: Callable[[list[Word]], str | None]) -> str:
        """The words without comments, where chains of names are replaced by the text that
        ``column`` has for them.
        """
        pieces: list[str] = []
        index = 0
        while index < len(inside):
            chain, behind = [inside[index]], index + 1
            if chain[0].is_name:
                while behind + 1 < len(inside) and inside[behind].upper == "." and inside[behind + 1].is_name:
                    chain.append(inside[behind + 1])
                    behind += 2
            before = inside[index - 1] if index else None
            text = None
            if chain[0].is_name and _may_be_column(before, inside[behind] if behind < len(inside) else None):
                text = column(chain)
            if text is None:
                text = self.text[chain[0].start : chain[-1].end] if len(chain) == 1 else ".".join(
                    self.text[word.start : word.end] for word in chain
                )  # fmt: skip
            glued = before is not None and before.end == inside[index].start
            pieces.append(text if glued or not pieces else f" {text}")
            index = behind
        return "".join(pieces)


def _may_be_column(before: Word | None, behind: Word | None) -> bool:
    """Whether a name between these words can be a column, rather than a type, unit, function or
    field.
    """
    if behind is not None and (behind.upper == "(" or behind.literal):
        return False
    return before is None or not (before.upper in ("AS", ".") or before.literal or before.text.isdigit())
