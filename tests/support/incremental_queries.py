"""Random queries in the scope of `incremental`, and random databases with changes for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from tests.support.incremental_database import Millis, Table
from tests.support.incremental_shapes import Shape, Source, grouped, numbered, over_groups, whole, windowed
from tests.support.incremental_sources import (
    MAPS,
    SCHEMA,
    Column,
    Leaf,
    below,
    chain,
    first_key,
    full_chain,
    in_another_order,
    joined_sums,
    looked_up,
)

NOW = "timestamp_millis(5000L) /* mv_now */"
MAP = "map<string,int>"
_JOINS = [
    "join",
    "inner join",
    "left join",
    "left outer join",
    "right join",
    "left semi join",
    "left anti join",
    "cross join",
]


def tables(random: Random) -> dict[str, Table]:
    """Contents with NULLs and duplicates; changes with pairs that cancel; tables that are or get
    empty."""
    return {name: _table(random, columns) for name, columns in {**SCHEMA, **MAPS}.items()}


def _table(random: Random, columns: dict[str, str]) -> Table:
    old = [_row(random, columns) for _ in range(random.choice([0, 1, 3, 4, 6]))]
    old += random.choices(old, k=random.randint(0, 2)) if old else []
    if random.random() < 0.25:
        return Table(columns, old)
    gone = old if random.random() < 0.15 else random.sample(old, random.randint(0, len(old) // 2))
    come = [_row(random, columns) for _ in range(random.randint(0, 3))]
    idle = [_row(random, columns) for _ in range(random.randint(0, 2))]
    change = [*((row, -1) for row in gone), *((row, 1) for row in come)]
    if MAP in columns.values():  # equal rows, of which inputs have no change
        idle = [tuple(in_another_order(value) for value in row) for row in old if row not in gone]
    change += [pair for row in idle for pair in ((row, 2), (row, -1), (row, -1))]
    random.shuffle(change)
    return Table(columns, old, change or [(_row(random, columns), 1)])


def _row(random: Random, columns: dict[str, str]) -> tuple[object, ...]:
    return tuple(_value(random, kind) for kind in columns.values())


def _value(random: Random, kind: str) -> object:
    if random.random() < 0.15:
        return None
    if kind == "timestamp":
        return Millis(random.randint(0, 10) * 1000)
    if kind == "array<int>":
        return [_value(random, "int") for _ in range(random.randint(0, 2))]
    if kind == MAP:
        return {key: _value(random, "int") for key in random.sample("abc", random.randint(0, 3))}
    return random.randint(0, 3)


@dataclass
class Queries:
    """Draws queries. ``focus``: a kind of join that is drawn often, or of block (`group`, `window`,
    `distinct`), or `clock`, `union`, `set`, `top rows`, `lateral`, `maps` (some uses of which are
    refused). ``equalities``: most conditions compare two columns. ``plain``: blocks without groups,
    windows and comparisons of rows.
    """

    random: Random
    focus: str = ""
    equalities: bool = False
    plain: bool = False
    ctes: dict[str, list[Column]] = field(default_factory=dict)
    aliases: int = 0

    def query(self) -> str:
        texts = []
        for number in range(self.random.choice([0, 0, 1, 2])):
            text, columns = self.body(self.random.choice([0, 0, 1]))
            texts.append(f"c{number} as ({text})")
            self.ctes[f"c{number}"] = columns
        text, _ = self.body(self.random.choice([0, 1, 1, 1, 2]))
        order = self.random.choice(["", "", " order by 1"]) if " limit " not in text[-20:] else ""
        return (f"with {', '.join(texts)}\n" if texts else "") + text + order

    def body(self, depth: int) -> tuple[str, list[Column]]:
        text, columns = self.rows(depth)
        if self.focus != "top rows" or self.random.random() < 0.4:
            return text, columns
        direction = ("", " desc", " nulls last", " desc nulls first")
        order = ", ".join(f"{name}{self.random.choice(direction)}" for name, _ in columns)
        offset = self.random.choice(["", " offset 1"])
        text = f"select * from (\n{text}\n) {self.alias()} order by {order} limit {self.random.randint(0, 3)}{offset}"
        return text, columns

    def rows(self, depth: int) -> tuple[str, list[Column]]:
        union = self.random.random() < (0.5 if self.focus in ("union", "set") else 0.2)
        if not union:
            return self.block(depth)
        first, columns = self.block(depth - 1, plain=True)
        kinds = [kind for _, kind in columns]
        second, _ = self.block(depth - 1, kinds)
        if self.random.random() < 0.3:
            third, _ = self.block(0, kinds)
            second = f"({second} {self.operator()} {third})"
        return f"{first} {self.operator()} {second}", columns

    def operator(self) -> str:
        if self.plain or self.random.random() < (0.1 if self.focus == "set" else 0.6):
            return "union all"
        return self.random.choice(["union", "except", "except all", "intersect", "intersect all"])

    def block(
        self, depth: int, kinds: Sequence[str] | None = None, plain: bool = False
    ) -> tuple[str, list[Column]]:
        if self.focus == "sums" and kinds is None and not plain and self.random.random() < 0.5:
            return joined_sums(self)
        source, scope = self.tree(depth)
        shape = self.shape(scope, kinds)
        if shape is None:
            text, columns = self.items(scope, kinds, plain)
            focused = 0.6 if self.focus == "distinct" else 0.1
            distinct = "distinct " if not self.plain and self.random.random() < focused else ""
            shape = Shape(distinct + text, columns)
        elif self.random.random() < (0.3 if self.focus == "distinct" else 0.05):
            shape = shape._replace(items=f"distinct {shape.items}")
        most = 1 if self.equalities else 2
        where = [self.conjunct(scope) for _ in range(self.random.choice([0, 0, 1, most]))]
        if self.focus == "clock" and self.random.random() < 0.6:
            where.append(self.time(scope))
        if self.focus == "subquery" and not self.equalities and self.random.random() < 0.6:
            where.append(self.subquery(scope))
        condition = f"\nwhere {' and '.join(where)}" if where else ""
        return f"select {shape.items}\nfrom {source}{condition}{shape.tail}", shape.columns

    def shape(self, scope: list[Leaf], kinds: Sequence[str] | None) -> Shape | None:
        """A block that is more than its source, or None."""
        draw = self.random.random()
        often = {"group": 0.6, "window": 0.6, "subquery": 0.3}.get(self.focus, 0.0)
        focused = self.random.random() < often
        if self.plain or (draw > 0.35 and not focused) or MAP in (kinds or ()):
            return None
        columns: dict[str, list[str]] = {}
        for leaf in scope:
            for name, kind in leaf.columns:
                columns.setdefault(kind, []).append(f"{leaf.alias}.{name}")
                if kind == MAP:
                    columns.setdefault("int", []).append(f"{leaf.alias}.{name}['a']")
        scalar = self.scalar if self.focus == "subquery" and not self.equalities else None
        source, free = Source(self.random, columns, self.equalities, scalar), kinds is None
        wanted = kinds or ["int", *self.random.choices(["int", "int", "timestamp", "string"], k=2)]
        if free and (self.focus == "window" if focused else draw > 0.22):
            draw = self.random.random()
            if draw < 0.4:
                return numbered(source) if draw < 0.2 else over_groups(source)
            return windowed(source, wanted)
        return whole(source, wanted) if self.random.random() < 0.15 else grouped(source, wanted)

    def items(self, scope: list[Leaf], kinds: Sequence[str] | None, plain: bool) -> tuple[str, list[Column]]:
        names = [name for leaf in scope for name, _ in leaf.columns]
        if kinds is None and not plain and self.random.random() < 0.3 and len(set(names)) == len(names):
            columns = [column for leaf in scope for column in leaf.columns]
            return "*", columns
        if kinds is None and not plain and not scope[0].merged and self.random.random() < 0.15:
            leaf = self.random.choice(scope)
            return f"{leaf.alias}.*", leaf.columns
        arrays = [
            f"{leaf.alias}.{name}" for leaf in scope for name, kind in leaf.columns if kind == "array<int>"
        ]
        if kinds is None and arrays and not self.equalities and self.random.random() < 0.25:
            names = self.random.choice(["c0, c1", "c1, c0"])
            text = f"posexplode({self.random.choice(arrays)}) as ({names}), {self.column(scope, 'int')} as c2"
            return text, [(name, "int") for name in ("c0", "c1", "c2")]
        wanted = kinds or [
            "int",
            *self.random.choices(["int", "int", "timestamp", "string"], k=self.random.randint(0, 2)),
        ]
        if kinds is None and self.focus == "maps":
            wanted = [*wanted, *self.random.choice([[], [MAP]])]
        items = [f"{self.expression(scope, kind)} as c{number}" for number, kind in enumerate(wanted)]
        if wanted[-1] == MAP and kinds is None and self.random.random() < 0.1:
            alias, shown = self.alias(), self.column(scope, MAP)
            items += [f"{shown} as {alias}m", f"{first_key(f'{alias}m')} as {alias}k"]
            columns = [(f"c{number}", kind) for number, kind in enumerate(wanted)]
            return ", ".join(items), [*columns, (f"{alias}m", MAP), (f"{alias}k", "int")]
        return ", ".join(items), [(f"c{number}", kind) for number, kind in enumerate(wanted)]

    def expression(self, scope: list[Leaf], kind: str) -> str:
        one = self.column(scope, "int")
        free = self.focus == "subquery" and not (self.plain or self.equalities)
        if free and kind == "int" and self.random.random() < 0.3:
            return self.scalar(scope)
        if kind == "string":
            return f"cast({one} as string)"
        if kind == MAP:
            return self.column(scope, MAP)
        if kind == "timestamp":
            return self.column(scope, "timestamp")
        other = self.column(scope, "int")
        return self.random.choice(
            [
                one,
                one,
                f"{one} + 1",
                f"coalesce({one}, {other})",
                f"case when {one} > 1 then {other} end",
                "2",
                f"cast({one} as double)",
            ]
        )

    def column(self, scope: list[Leaf], kind: str) -> str:
        fitting = [f"{leaf.alias}.{name}" for leaf in scope for name, each in leaf.columns if each == kind]
        if kind == "int" and self.focus == "maps":
            maps = [f"{leaf.alias}.{name}" for leaf in scope for name, each in leaf.columns if each == MAP]
            fitting += [looked_up(self.random, each) for each in maps]
        empty = {"timestamp": "cast(null as timestamp)", MAP: "map('b', 1, 'a', 2)"}.get(kind, "1")
        return self.random.choice(fitting) if fitting else empty

    def tree(self, depth: int) -> tuple[str, list[Leaf]]:
        if not (self.equalities or self.plain or self.focus == "maps") and self.random.random() < (
            0.3 if self.focus == "full join" else 0.01
        ):
            return full_chain(self)
        if self.equalities and self.random.random() < 0.3:
            return chain(self)
        text, scope = self.joined(depth, self.random.choice([0, 0, 1] if self.equalities else [0, 1, 1, 2]))
        if self.random.random() < 0.12:
            # In parentheses: translated for DuckDB, a comma would bind as tightly as a join.
            more, right = self._one(depth) if self.random.random() < 0.6 else self.nest(0)
            text, scope = f"{text}, {more}", [*scope, *right]
        arrays = [leaf for leaf in scope if any(kind == "array<int>" for _, kind in leaf.columns)]
        if self.focus == "top rows":
            return text, scope  # a sum of elements has no known type, so no LIMIT may be above it
        while arrays and self.random.random() < (0.6 if self.focus == "lateral" else 0.3):
            text, scope = self.exploded(text, scope, self.random.choice(arrays))
            if "lateral view" in text:
                break  # is behind all joins
        return text, scope

    def exploded(self, text: str, scope: list[Leaf], leaf: Leaf) -> tuple[str, list[Leaf]]:
        alias, array = self.alias(), self.column([leaf], "array<int>")
        name = f"e{alias}"
        call, made = f"explode({array})", Leaf("", alias, [(name, "int")])
        forms = [
            f"lateral view {call} {alias} as {name}",
            f"cross join lateral {call} {alias}({name})",
            f", lateral {call} as {alias}({name})",
        ]
        if leaf.text.split(" ")[0] in SCHEMA:  # its types are known
            on = self.random.choice(["true", self.condition(scope, [made])])
            kinds = ["join", "left join", "left outer join"]
            forms += [f"{kind} lateral {call} as {alias}({name}) on {on}" for kind in kinds]
        return f"{text}\n{self.random.choice(forms)}", [*scope, made]

    def joined(self, depth: int, joins: int) -> tuple[str, list[Leaf]]:
        first = self.leaf(depth)
        text, scope = first.text, [first]
        if joins and self.random.random() < 0.1:
            # A comma in front binds as tightly as the joins behind it: what is before it is part of
            # their left side. For DuckDB it is translated to a cross join.
            before = self.leaf(0)
            text, scope = f"{before.text}, {text}", [before, *scope]
        for _ in range(joins):
            text, scope = self.join(text, scope, depth)
        return text, scope

    def join(self, text: str, scope: list[Leaf], depth: int) -> tuple[str, list[Leaf]]:
        full = self.focus == "full join" and (self.equalities or self.plain)
        focused = self.focus.endswith("join") and not full and self.random.random() < 0.6
        kind = self.focus if focused else self.random.choice(_JOINS)
        if not (self.equalities or self.plain) and (kind == "full join" or self.random.random() < 0.05):
            return self.full_join(text, scope, depth)
        right_text, right_scope = self.nest(depth) if self.random.random() < 0.2 else self._one(depth)
        on = "" if kind == "cross join" else f" on {self.condition(scope, right_scope)}"
        joined = f"{text}\n{kind} {right_text}{on}"
        return joined, scope if "semi" in kind or "anti" in kind else [*scope, *right_scope]

    def full_join(self, text: str, scope: list[Leaf], depth: int) -> tuple[str, list[Leaf]]:
        """Its keys are columns whose types are known: of relations."""
        first = self.relation(self.alias())
        text, scope = self.random.choice([(text, scope), (first.text, [first])])
        right = self.relation(self.alias())
        right_text, right_scope = right.text, [right]
        if self.random.random() < 0.3:
            more, columns = self.join(right.text, [right], 0)
            right_text, right_scope = f"({more})", columns
        sides = [
            [leaf for leaf in side if leaf.text.split(" ")[0] in SCHEMA] for side in (scope, right_scope)
        ]
        if not all(sides):
            return text, scope
        one, other = (self.column(side, "int") for side in sides)
        more = self.random.choice(
            ["", "", f" and {other} > 0", f" and {one} = 1", f" and {self.condition(scope, right_scope)}"]
        )
        return f"{text}\nfull join {right_text} on {one} = {other}{more}", [*scope, *right_scope]

    def _one(self, depth: int) -> tuple[str, list[Leaf]]:
        leaf = self.leaf(depth)
        return leaf.text, [leaf]

    def nest(self, depth: int) -> tuple[str, list[Leaf]]:
        first = self.leaf(depth)
        text, scope = self.join(first.text, [first], 0)
        return f"({text})", scope

    def condition(self, left: list[Leaf], right: list[Leaf]) -> str:
        one, other = self.column(left, "int"), self.column(right, "int")
        if self.equalities and self.random.random() < 0.8:
            more = f" and {self.column(left, 'int')} = {other}" if self.random.random() < 0.3 else ""
            return f"{one} = {other}{more}"
        return self.random.choice(
            [f"{one} = {other}"] * 5
            + [
                f"{one} <=> {other}",
                f"{one} > {other}",
                f"{one} = {other} and {other} > 0",
                f"({one} = {other} or {other} is null)",
                "true",
            ]
        )

    def conjunct(self, scope: list[Leaf]) -> str:
        one, other = self.column(scope, "int"), self.column(scope, "int")
        if self.equalities:
            return f"{one} = {other}" if self.random.random() < 0.7 else self.comparison(scope)
        if not self.plain and self.random.random() < (0.6 if self.focus == "subquery" else 0.1):
            return self.subquery(scope)
        if self.random.random() < 0.3:
            return self.time(scope)
        return self.random.choice(
            [
                f"{one} > 0",
                f"{one} is null",
                f"({one} = {other} or {other} < 2)",
                f"{one} between 0 and 2",
                f"not {one} = 1",
            ]
        )

    def comparison(self, scope: list[Leaf]) -> str:
        """Of a column with constants."""
        one = self.column(scope, "int")
        return self.random.choice(
            [f"{one} > 0", f"{one} between 0 and 2", f"2 > {one}", f"{one} <> 1", f"{one} in (1, 3)"]
        )

    def subquery(self, scope: list[Leaf]) -> str:
        """Of a relation, a CTE or a join, most with a column of the block around it."""
        source, inner = self.joined(0, self.random.choice([0, 0, 1]))
        one, other, value = self.column(inner, "int"), self.column(scope, "int"), self.column(scope, "int")
        where = self.random.choice(
            [f" where {one} = {other}", f" where {one} = {other}", f" where {one} > 1", ""]
        )
        if where and self.random.random() < 0.3:
            where += f" and {self.time(inner)}"
        column = self.column(inner, "int")
        negated = self.random.choice(["", "", "not "])
        if self.random.random() < 0.15:
            return below(self, column, source, one, value, negated)
        return self.random.choice(
            [
                f"{negated}exists (select 1 from {source}{where})",
                f"{negated}exists (select * from {source}{where})",
                f"{value} {negated}in (select {column} from {source}{where})",
                f"{value} {negated}in (select {column} from {source} group by {column} having count(*) > 1)",
                f"({value} {negated}in (select {column} from {source}) or {other} = 1)",
                f"({negated}exists (select 1 from {source}{where}) or {other} is null)",
                f"{value} {self.random.choice(['<', '=', '<=>'])} (select max({column}) from {source}{where})",
                f"{value} < (select count(*) from {source}{where})",
            ]
        )

    def scalar(self, scope: list[Leaf] | None = None) -> str:
        """A subquery of one value, with a column of ``scope`` if there is one."""
        source, inner = self.joined(0, self.random.choice([0, 0, 1]))
        call = self.random.choice(["count(*)", f"max({self.column(inner, 'int')})"])
        outer = "1" if scope is None else self.column(scope, "int")
        where = self.random.choice([f" where {self.column(inner, 'int')} = {outer}", ""])
        return f"(select {call} from {source}{where})"

    def time(self, scope: list[Leaf]) -> str:
        at = self.column(scope, "timestamp")
        return self.random.choice(
            [
                f"{at} > {NOW} - interval 3 seconds",
                f"{at} <= {NOW}",
                f"{at} between {NOW} - interval 4 seconds and {NOW}",
                f"({at} > {NOW} or {self.column(scope, 'int')} = 1)",
                f"not {at} < {NOW} - interval 2 seconds",
                f"case when {NOW} > timestamp_millis(4000L) then {self.column(scope, 'int')} > 0 end",
            ]
        )

    def leaf(self, depth: int) -> Leaf:
        alias, draw = self.alias(), self.random.random()
        if self.ctes and draw < 0.3:
            name = self.random.choice(list(self.ctes))
            return Leaf(f"{name} as {alias}", alias, self.ctes[name])
        if depth > 0 and draw < 0.55:
            text, columns = self.body(depth - 1)
            if self.random.random() < 0.3:
                renamed = [(f"d{number}", kind) for number, (_, kind) in enumerate(columns)]
                return Leaf(f"({text}) as {alias}({', '.join(name for name, _ in renamed)})", alias, renamed)
            return Leaf(f"({text}) {alias}", alias, columns)
        if draw > 0.94:
            values = self.random.choice(
                [
                    f"(select * from values (1), (3) as {alias}(one)) {alias}",
                    f"(values (1), (3), (3)) as {alias}(one)",
                ]
            )
            return Leaf(values, alias, [("one", "int")])
        return self.relation(alias)

    def relation(self, alias: str) -> Leaf:
        schema = MAPS if self.focus == "maps" and self.random.random() < 0.7 else SCHEMA
        name = self.random.choice(list(schema))
        return Leaf(f"{name} as {alias}", alias, list(schema[name].items()))

    def alias(self) -> str:
        self.aliases += 1
        return f"q{self.aliases}"
