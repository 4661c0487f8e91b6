"""The columns of leaves and of queries, the names that mean them, and the columns that a query
uses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dbt.adapters.mvsink.user_sql.algebra import (
    Block,
    Constant,
    Derived,
    Fragment,
    Item,
    LateralView,
    Leaf,
    Named,
    Query,
    Refused,
    Relation,
    SetOp,
    Source,
    blocks,
    bodies,
    every_block,
    joins,
    leaves,
)
from dbt.adapters.mvsink.user_sql.functions import GENERATED, GENERATORS
from dbt.adapters.mvsink.user_sql.trees import Nodes
from dbt.adapters.mvsink.user_sql.words import parts

# Name (as written) of a relation -> its columns and their types, as Spark's DESCRIBE has them; None
# if the relation is not known.
ColumnsOf = Callable[[str], Sequence[tuple[str, str]] | None]
Owned = tuple[Leaf | LateralView, str | None]  # a column, and what has it


def output_name(node: exp.Expr) -> str | None:
    """The name under which an item is read, in lower case; None if only Spark knows.

    This differs from sqlglot's `alias_or_name`, which takes `*` as the name of `count(*)` and `x`
    as the name of `lower('x')`.
    """
    named = node.this if isinstance(node, exp.Cast) else node
    if isinstance(node, exp.Alias):
        return node.alias.lower()
    return named.name.lower() if isinstance(named, exp.Column) else None


def item_columns(node: exp.Expr) -> list[exp.Expr]:
    """The columns of an item other than a star: of a generator, as many as it has names."""
    if isinstance(node, exp.Aliases):
        names = [each.name for each in node.expressions]
    elif isinstance(node, exp.Posexplode):
        names = ["pos", "col"]
    else:
        return [node]
    return [
        exp.Alias(this=exp.Tuple(expressions=[node.unalias().copy(), exp.Literal.number(at)]), alias=name)
        for at, name in enumerate(names)
    ]


def generator_of(node: exp.Expr) -> exp.Expr | None:
    """The generator that an item is; None if it is none."""
    node = node.this if isinstance(node, (exp.Alias, exp.Aliases)) else node
    called = isinstance(node, exp.Anonymous) and node.name.lower() in GENERATORS
    return node if called or isinstance(node, (exp.Explode, exp.Inline, exp.Stack)) else None


@dataclass(frozen=True)
class Names:
    """Resolves the names of one query. A column without a known name is None.

    By `Relation.parts`, ``relations`` has the columns in lower case and ``types`` their types.
    ``outer`` maps the blocks of a subquery to the block whose columns they may also name.
    """

    nodes: Nodes
    relations: Mapping[tuple[str, ...], tuple[str, ...]]
    types: Mapping[tuple[str, ...], tuple[str, ...]]
    outer: Mapping[Block, Block]

    def columns_of(self, name: str) -> list[tuple[str, str]]:
        """A relation's columns and their types, in order."""
        key = parts(name)
        return [*zip(self.relations[key], self.types[key], strict=True)]

    def of_leaf(self, leaf: Named) -> tuple[str | None, ...]:
        """A leaf's columns in lower case."""
        if leaf.columns:
            return tuple(column.lower() for column in leaf.columns)
        if isinstance(leaf, Relation):
            return self.relations[leaf.parts]
        if isinstance(leaf, Derived):
            return self.of_query(leaf.query)
        assert isinstance(leaf, Constant)
        if not leaf.function:
            [first, *_] = self.nodes[leaf.call].expressions
            width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
            return tuple(f"col{number}" for number in range(1, width + 1))
        return self._default(leaf, leaf.function)

    def of_lateral(self, view: LateralView) -> tuple[str | None, ...]:
        return tuple(column.lower() for column in view.columns) or self._default(view, view.function)

    def _default(self, part: Fragment, function: str) -> tuple[str | None, ...]:
        names = GENERATED.get(function)
        if names is None:
            raise Refused(f"the columns of {function}() have no names", part.start)
        return names

    def of_query(self, query: Query) -> tuple[str | None, ...]:
        """The query's columns in lower case, which are those of its first block."""
        shown = self.shown(next(blocks(query)))
        return tuple(output_name(each) if isinstance(each, exp.Expr) else each[1] for each in shown)

    def shown(self, block: Block) -> list[exp.Expr | Owned]:
        """The block's columns in order: the trees of its items, and the columns that stars stand
        for.
        """
        columns: list[exp.Expr | Owned] = []
        for item in block.items:
            columns += item_columns(self.nodes[item]) if item.star is None else self.of_star(block, item)
        return columns

    def of_star(self, block: Block, item: Item) -> list[Owned]:
        """The columns that a star stands for. A column that USING or NATURAL merges is there
        twice.
        """
        assert item.star is not None
        node, scope = self.nodes[item], self.scope(block)
        if item.star and not any(_means(owner, item.star) for owner, _ in scope):
            raise Refused("a star over a struct", item.start)
        star = node.this if isinstance(node, exp.Column) else node
        without = {each.name.lower() for each in star.args.get("except_") or star.args.get("except") or []}
        visible = {id(leaf) for leaf in visible_leaves(block.source)} | {id(view) for view in block.laterals}
        return [
            (owner, name)
            for owner, names in scope
            if (_means(owner, item.star) if item.star else id(owner) in visible)
            for name in names
            if name not in without
        ]

    def scope(self, block: Block) -> list[tuple[Leaf | LateralView, tuple[str | None, ...]]]:
        """Everything that has columns in the block, and its columns."""
        return [
            *((leaf, self.of_leaf(leaf)) for leaf in leaves(block.source)),
            *((view, self.of_lateral(view)) for view in block.laterals),
        ]

    def columns(self, block: Block) -> set[str | None]:
        """The columns that the block may name outside ON."""
        owners = {id(owner) for owner in (*visible_leaves(block.source), *block.laterals)}
        return {name for owner, names in self.scope(block) if id(owner) in owners for name in names}

    def _in_on_alone(self, block: Block) -> set[str | None]:
        """The names that only ON may use: columns and aliases of leaves on the right of a semi or
        anti join that no other leaf has.
        """
        visible = list(visible_leaves(block.source))
        hidden = [leaf for leaf in leaves(block.source) if leaf not in visible]
        names = _aliases(hidden).union(*map(self.of_leaf, hidden))
        return names - self.columns(block) - _aliases([*visible, *block.laterals])

    def check(self, block: Block, part: Fragment, later: Collection[str] = ()) -> None:
        """Refuse ``part`` of the block if it names what is not a column of the block's leaves.

        ``later`` are the aliases of items before this one. Any other name could be a column of an
        outer query, a variable of the session, or a function without parentheses. Spark takes it
        for one of these, except in ON, even if a leaf on the right of a semi or anti join has it.
        """
        scope = [*self.scope(block)]
        of_on = any(join.on is part for join in joins(block.source))
        hidden = set() if of_on else self._in_on_alone(block)
        around = self.outer.get(block)
        while around is not None:
            scope += self.scope(around)
            around = self.outer.get(around)
        columns = {name for _, names in scope for name in names} | set(later)
        for column in own_columns(self.nodes[part]):
            first = tuple(piece.name.lower() for piece in column.parts)
            if first[0] in hidden and not (part in block.keys and first[0] in later):
                raise Refused(f"{'.'.join(first)} is a column behind a semi or anti join", part.start)
            if not (_names(column, [owner for owner, _ in scope], columns) or _bound(column)):
                raise Refused(f"{'.'.join(first)} is not a column of what the block reads", part.start)

    def reaches_out(self, query: Query) -> bool:
        """Whether a derived table of a subquery may name a column of the blocks around ``query``.
        It would mean another one if it were read elsewhere.
        """
        outermost, every = [*blocks(query)], [*every_block(query)]
        for block in _read_by(query):
            if block in outermost:
                continue
            scope = self.scope(block)
            columns = {name for _, names in scope for name in names}
            below = [each for each in every if each is not block and block.has(each)]
            for part, node in self.nodes.items():
                if block.has(part) and not any(each.has(part) for each in below):
                    for column in own_columns(node):
                        if not (_names(column, [owner for owner, _ in scope], columns) or _bound(column)):
                            return True
        return False

    def names_others(self, query: Query, node: exp.Expr) -> bool:
        """Whether the query ``node`` may name columns of something that is not read inside it."""
        scopes = [*map(self.scope, every_block(query))]
        owners = [owner for scope in scopes for owner, _ in scope]
        names = {name for scope in scopes for _, columns in scope for name in columns} | _aliases(owners)
        return any(column.parts[0].name.lower() not in names for column in node.find_all(exp.Column))

    def used(self, query: Query, mentioned: Collection[str]) -> dict[tuple[str, ...], frozenset[str]]:
        """The columns of each relation that the query may use. ``mentioned`` are all names in the
        query.
        """
        whole = _Whole(self)
        whole.query(query, everything=True)
        for block in every_block(query):
            whole.natural(block)
            for subquery in block.subqueries:
                whole.query(subquery.query, everything=True)
        return {
            parts: frozenset(columns)
            if parts in whole.relations
            else frozenset(columns) & frozenset(mentioned)
            for parts, columns in self.relations.items()
        }


@dataclass
class _Whole:
    """Collects the relations of which every column may be used, because of a star or NATURAL."""

    names: Names

    def __post_init__(self) -> None:
        self.relations: set[tuple[str, ...]] = set()

    def query(self, query: Query, everything: bool) -> None:
        """With ``everything``, each column that the query gives is used, not only those that are
        named.
        """
        everything = everything or any(
            isinstance(body, SetOp) and body.compares_rows for body in bodies(query)
        )
        for number, block in enumerate(blocks(query)):
            everything = everything or "DISTINCT" in block.more
            for leaf in leaves(block.source):
                starred = any(
                    item.star is not None and (not item.star or _means(leaf, item.star))
                    for item in block.items
                )
                # Behind the first branch of a set operator the columns have other names outside.
                self.leaf(leaf, starred and (everything or number > 0))

    def leaf(self, leaf: Leaf, everything: bool) -> None:
        if isinstance(leaf, Relation) and (everything or leaf.columns):
            self.relations.add(leaf.parts)
        elif isinstance(leaf, Derived):
            self.query(leaf.query, everything or bool(leaf.columns))

    def natural(self, block: Block) -> None:
        for join in joins(block.source):
            if join.natural:
                for leaf in leaves(join):
                    self.leaf(leaf, True)


def visible_leaves(source: Source | None) -> Iterator[Leaf]:
    """The leaves whose columns a star includes: all except those on the right of a semi or anti
    join.
    """
    hidden = {
        id(leaf) for join in joins(source) if join.kind in ("semi", "anti") for leaf in leaves(join.right)
    }
    return (leaf for leaf in leaves(source) if id(leaf) not in hidden)


def _aliases(owners: Iterable[Leaf | LateralView]) -> set[str | None]:
    return {owner.alias.lower() for owner in owners if owner.alias is not None}


def _means(owner: Leaf | LateralView, qualifier: tuple[str, ...]) -> bool:
    """Whether the qualifier (lower case) is the owner's alias."""
    return owner.alias is not None and qualifier == (owner.alias.lower(),)


def outer_blocks(tree: Query) -> dict[Block, Block]:
    """See `Names.outer`."""
    return {
        inner: block
        for block in every_block(tree)
        for subquery in block.subqueries
        for inner in _read_by(subquery.query)
    }


def _read_by(query: Query) -> Iterator[Block]:
    """The blocks of the query and of its derived tables, which may name the same outer columns. A
    CTE may name none.
    """
    for block in blocks(query):
        yield block
        for leaf in leaves(block.source):
            if isinstance(leaf, Derived) and leaf.reference is None:
                yield from _read_by(leaf.query)


def own_columns(node: exp.Expr) -> Iterator[exp.Column]:
    """The columns that an expression names, not counting its subqueries."""
    for each in node.walk(prune=lambda each: isinstance(each, exp.Query)):
        if isinstance(each, exp.Column):
            yield each


def _names(column: exp.Column, owners: Iterable[Leaf | LateralView], columns: Collection[str | None]) -> bool:
    """Whether the name is one of the ``columns``, which ``owners`` have, or a star."""
    first = tuple(piece.name.lower() for piece in column.parts)
    qualified = len(first) > 1 and any(_means(owner, first[:1]) for owner in owners)
    return first[0] in columns or qualified or isinstance(column.this, exp.Star)


def _bound(column: exp.Column) -> bool:
    """Whether the name is a variable of a lambda around it."""
    name = column.parts[0].name.lower()
    around = column.find_ancestor(exp.Lambda)
    while around is not None:
        if name in {each.name.lower() for each in around.expressions}:
            return True
        around = around.find_ancestor(exp.Lambda)
    return False
