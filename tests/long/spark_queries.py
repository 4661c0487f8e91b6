"""Random queries of what only Spark has: maps, structs, generators, column lists, NaN and -0.0,
decimals, texts with escapes, far dates, two schemas with tables of one name.

Results do not depend on the order of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

Column = tuple[str, str]  # an expression and its kind: see `VALUES`

VALUES = {
    "int": ["0", "1", "1", "2", "3", "-1", "2147483647"],
    "string": [
        "'a'", "'A'", "'a '", "''", "'1'", r"'it\'s'", r"'back\\slash'", r"'two\nlines'", "'--x'", "'/* y'", "'%_'", "'ü'", "'null'",
    ],
    "decimal": ["0.000", "1.500", "-1.500", "99999999.999", "0.001"],
    "wide": ["0", "12345678901234567890.0123456789", "-0.0000000001", "1"],
    "double": [
        "double('NaN')", "-0.0D", "0.0D", "double('Infinity')", "1.5D", "1e300D", "-1.5D",
    ],
    "timestamp": [
        "timestamp'2024-01-01 00:00:00.123456'", "timestamp'2024-01-01 00:00:00.123457'", "timestamp'1969-12-31 23:59:59.999999'",
        "timestamp'1582-10-04 12:00:00'", "timestamp'9999-12-30 23:59:59.999999'", "timestamp'2024-01-01 00:00:00'",
    ],
    "date": ["date'0001-01-01'", "date'1582-10-04'", "date'9999-12-31'", "date'2024-02-29'", "date'1970-01-01'"],
    "map": ["map('a', 1, 'b', 2)", "map('a', 2)", "map('A', cast(null as int))", "cast(map() as map<string,int>)"],
    "struct": [
        "named_struct('x', 1, 'y', 'a')", "named_struct('x', 2, 'y', 'A')", "named_struct('x', cast(null as int), 'y', 'a')",
    ],
    "array": ["array(1, 2)", "array(1, 1, cast(null as int))", "cast(array() as array<int>)"],
    "pairs": ["array(named_struct('t', 'a', 'n', 1), named_struct('t', 'b', 'n', 2))", "array(named_struct('t', 'a', 'n', 3))"],
}  # fmt: skip
TYPES = {
    "decimal": "decimal(12,3)", "wide": "decimal(38,10)", "map": "map<string,int>", "struct": "struct<x:int,y:string>", "array": "array<int>",
    "pairs": "array<struct<t:string,n:int>>",
}  # fmt: skip
RELATIONS: dict[str, dict[str, str]] = {
    "{one}.p": {"k": "int", "v": "int", "`order`": "string", "m": "map", "d": "decimal", "at": "timestamp"},
    "{two}.p": {"k": "int", "s": "struct", "day": "date", "v": "int", "f": "double"},
    "{one}.q": {"k": "int", "`Ünï cöde`": "string", "xs": "array", "w": "wide", "at": "timestamp"},
    "{two}.r": {"v": "int", "k": "int", "ps": "pairs", "`select`": "string", "f": "double"},
}
ORDERED = ("int", "string", "decimal", "wide", "timestamp", "date", "double")
COMMENTS = [" /* -- */ ", " -- it's\n", " /* ; */ ", "\n", " "]


def relation(random: Random, columns: dict[str, str], rows: int = 10) -> str:
    """Random rows, as a query."""
    lines = []
    for _ in range(rows):
        values = (
            f"cast(null as {TYPES.get(kind, kind)})"
            if random.random() < 0.12
            else f"cast({random.choice(VALUES[kind])} as {TYPES.get(kind, kind)})"
            for kind in columns.values()
        )
        lines.append(f"({', '.join(values)})")
    return f"select * from values {', '.join(lines)} as t({', '.join(columns)})"


@dataclass
class SparkQueries:
    """Draws queries over `RELATIONS`, whose schemas are to be filled in."""

    random: Random
    aliases: int = 0
    ctes: dict[str, list[Column]] = field(default_factory=dict)

    def query(self) -> str:
        ctes = []
        for number in range(self.random.choice([0, 0, 0, 1, 2])):
            text, columns = self.body(1)
            names = [f"n{n}" for n in range(len(columns))]
            listed = f"({', '.join(names)})" if self._often(0.5) else ""
            ctes.append(f"c{number}{listed} as ({text})")
            kinds = [kind for _, kind in columns]
            self.ctes[f"c{number}"] = list(zip(names, kinds, strict=True)) if listed else columns
        text, _ = self.body(2)
        return (f"with {', '.join(ctes)}\n" if ctes else "") + text

    def body(self, depth: int) -> tuple[str, list[Column]]:
        text, columns = self.block(depth)
        if self._often(0.15) and not any(kind in ("map", "struct", "array", "pairs") for _, kind in columns):
            other, _ = self.block(0, [kind for _, kind in columns])
            operator = self.random.choice(
                ["union all", "union all", "union", "except", "intersect", "except all"]
            )
            return f"{text}\n{operator}\n{other}", columns
        return text, columns

    def block(self, depth: int, kinds: Sequence[str] | None = None) -> tuple[str, list[Column]]:
        source, scope, star = self.source(depth)
        where = f"\nwhere {self.condition(scope)}" if self._often(0.5) else ""
        draw = self.random.random()
        if draw < 0.35:
            items, columns, tail = self.grouped(scope, kinds)
        elif draw < 0.5 and star and kinds is None:
            items, columns, tail = "*", star, ""
            if self._often(0.3):
                items, columns = f"*, {self.expression(scope, 'int')} as x9", [*star, ("x9", "int")]
        else:
            items, columns = self.items(scope, kinds)
            tail, flat = "", all(kind in ORDERED for _, kind in columns)
            if self._often(0.25) and flat:
                items = f"distinct {items}"
            elif self._often(0.15):
                window = f"count(*) over (partition by {self.expression(scope, 'int')})"
                if kinds is None:
                    items, columns = f"{items}, cast({window} as int) as x8", [*columns, ("x8", "int")]
        comment = self.random.choice(COMMENTS)
        return (
            f"select{comment if comment.isspace() or self._often(0.3) else ' '}{items}\nfrom {source}{where}{tail}",
            columns,
        )

    def items(self, scope: list[Column], kinds: Sequence[str] | None) -> tuple[str, list[Column]]:
        wanted = kinds or [
            "int",
            *self.random.choices([kind for _, kind in scope], k=self.random.randint(1, 3)),
        ]
        items = [f"{self.expression(scope, kind)} as x{n}" for n, kind in enumerate(wanted)]
        return ", ".join(items), [(f"x{n}", kind) for n, kind in enumerate(wanted)]

    def grouped(self, scope: list[Column], kinds: Sequence[str] | None) -> tuple[str, list[Column], str]:
        """Keys of which some are not shown, in any order."""
        keys = [
            (self.expression(scope, kind), kind)
            for kind in self.random.choices(["int", *self._kinds(scope)], k=self.random.randint(1, 3))
        ]
        wanted = list(kinds or ["int", self.random.choice(self._kinds(scope))])
        items = []
        shown = [key for key in keys if self._often(0.6)]
        for number, kind in enumerate(wanted):
            fitting = [key for key, each in shown if each == kind]
            text = (
                self.random.choice(fitting) if fitting and self._often(0.7) else self.aggregate(scope, kind)
            )
            items.append(f"{text} as x{number}")
        columns = [(f"x{n}", kind) for n, kind in enumerate(wanted)]
        if kinds is None:
            for key, kind in shown:
                items.append(f"{key} as x{len(columns)}")
                columns.append((f"x{len(columns)}", kind))
        order = self.random.sample(range(len(items)), len(items)) if kinds is None else range(len(items))
        having = self.random.choice(
            ["", "", "\nhaving count(*) > 1", f"\nhaving max({self.expression(scope, 'int')}) > 0"]
        )
        tail = f"\ngroup by {', '.join(dict.fromkeys(key for key, _ in keys))}{having}"
        return ", ".join(items[n] for n in order), [columns[n] for n in order], tail

    def aggregate(self, scope: list[Column], kind: str) -> str:
        if kind == "int":
            one, text = self.expression(scope, "int"), self.expression(scope, "string")
            return self.random.choice(
                [
                    "cast(count(*) as int)",
                    f"max({one})",
                    f"cast(count({one}) as int)",
                    f"cast(sum(cast(pmod({one}, 7) as bigint)) as int)",
                    f"cast(count_if({text} = 'a') as int)",
                    f"cast(count_if({text} = 'A') as int)",
                    f"cast(count(distinct {text}) as int)",
                    f"cast(sum(distinct pmod({one}, 5)) as int)",
                ]
            )
        if kind == "decimal":
            return f"cast(sum(pmod({self.expression(scope, kind)}, 10.0)) as decimal(12,3))"
        return f"{self.random.choice(['min', 'max'])}({self.expression(scope, kind)})"

    def expression(self, scope: list[Column], kind: str) -> str:
        fitting = [text for text, each in scope if each == kind]
        if kind == "int":
            fitting += [f"{text}['a']" for text, each in scope if each == "map"]
            fitting += [f"{text}.x" for text, each in scope if each == "struct"]
            fitting += [f"size({text})" for text, each in scope if each in ("array", "map", "pairs")]
            fitting += [f"length({text})" for text, each in scope if each == "string"]
            fitting += [f"coalesce({text}, 7)" for text, each in scope if each == kind]
        if kind == "string":
            fitting += [f"{text}.y" for text, each in scope if each == "struct"]
            fitting += [
                f"concat({text}, {self.random.choice(VALUES[kind])})" for text, each in scope if each == kind
            ]
            fitting += [f"cast({text} as string)" for text, each in scope if each in ("timestamp", "decimal")]
        if kind == "date":
            fitting += [f"cast({text} as date)" for text, each in scope if each == "timestamp"]
        constant = f"cast({self.random.choice(VALUES[kind])} as {TYPES.get(kind, kind)})"
        return self.random.choice(fitting) if fitting and self._often(0.93) else constant

    def condition(self, scope: list[Column]) -> str:
        kind = self.random.choice(self._kinds(scope))
        one, other = self.expression(scope, kind), self.expression(scope, kind)
        constant = self.random.choice(VALUES[kind])
        inner = self.random.choice(list(RELATIONS))
        alias, key = self.alias(), self.expression(scope, "int")
        narrowed = self.random.choice(["", f" and {alias}.k > 0"])
        return self.random.choice(
            [
                f"{one} = {constant}",
                f"{one} >= {constant}",
                f"({one} is null or {other} <> {constant})",
                f"{one} <=> {other}",
                f"{one} in ({constant}, {self.random.choice(VALUES[kind])})",
                f"exists (select 1 from {inner} {alias} where {alias}.k = {key}{narrowed})",
                f"not exists (select * from {inner} as {alias} where {alias}.k = {key}{narrowed})",
                f"{key} in (select {alias}.k from {inner} {alias})",
                f"{key} > (select min({alias}.k) from {inner} {alias} where {alias}.k = {key})",
            ]
        )

    def source(self, depth: int) -> tuple[str, list[Column], list[Column]]:
        """Text, columns in scope, and what `*` gives; nothing if two have one name."""
        text, scope, star = self.leaf(depth)
        draw = self.random.random()
        if draw < 0.35:
            more, right, other = self.leaf(0)
            kind = self.random.choice(
                ["join", "left join", "left semi join", "left anti join", "full join", "right join"]
            )
            one, two = self.column(scope), self.column(right)
            if one and two:
                text = f"{text}\n{kind} {more} on {one} = {two}"
                if "semi" not in kind and "anti" not in kind:
                    scope, star = [*scope, *right], [*star, *other]
        elif draw < 0.45 and scope and text.endswith("_u"):
            return text, scope, star
        scope, star, text = self.generator(text, scope, star)
        names = [name.lower() for name, _ in star]
        return text, scope, star if len({*names}) == len(names) else []

    def generator(
        self, text: str, scope: list[Column], star: list[Column]
    ) -> tuple[list[Column], list[Column], str]:
        chosen = [(each, kind) for each, kind in scope if kind in ("map", "array", "pairs")]
        if not chosen or self._often(0.4):
            return scope, star, text
        (each, kind), alias = self.random.choice(chosen), self.alias()
        outer = self.random.choice(["", "outer "])
        made: list[Column] = {
            "map": [(f"key{alias}", "string"), (f"value{alias}", "int")],
            "array": [(f"e{alias}", "int")],
            "pairs": [(f"t{alias}", "string"), (f"n{alias}", "int")],
        }[kind]
        call = "inline" if kind == "pairs" else "explode"
        if kind == "array" and self._often(0.4):
            call, made = "posexplode", [(f"p{alias}", "int"), *made]
        names = ", ".join(name for name, _ in made)
        text = f"{text}\nlateral view {outer}{call}({each}) {alias} as {names}"
        return [*scope, *((f"{alias}.{name}", kind) for name, kind in made)], [*star, *made], text

    def column(self, scope: list[Column]) -> str:
        fitting = [text for text, kind in scope if kind == "int"]
        return self.random.choice(fitting) if fitting else ""

    def leaf(self, depth: int) -> tuple[str, list[Column], list[Column]]:
        alias, draw = self.alias(), self.random.random()
        if self.ctes and draw < 0.3:
            name = self.random.choice(list(self.ctes))
            return f"{name} as {alias}", _qualified(alias, self.ctes[name]), self.ctes[name]
        if depth > 0 and draw < 0.6:
            text, columns = self._exploded() if self._often(0.2) else self.body(depth - 1)
            if self._often(0.5):
                columns = [(f"y{n}", kind) for n, (_, kind) in enumerate(columns)]
                names = ", ".join(name for name, _ in columns)
                return f"(\n{text}\n) as {alias}({names})", _qualified(alias, columns), columns
            return f"(\n{text}\n) {alias}", _qualified(alias, columns), columns
        name = self.random.choice(list(RELATIONS))
        columns = list(RELATIONS[name].items())
        if self._often(0.2):
            return name, _qualified(self.random.choice([name, name]), columns), columns
        return f"{name} {alias}", _qualified(alias, columns), columns

    def _exploded(self) -> tuple[str, list[Column]]:
        """A generator as an item, which gives a map's two columns."""
        name, column, made = self.random.choice(
            [
                ("{one}.p", "explode(m)", [("key", "string"), ("value", "int")]),
                ("{one}.q", "explode(xs)", [("col", "int")]),
                ("{two}.r", "inline(ps)", [("t", "string"), ("n", "int")]),
            ]
        )
        items, columns = [column], list(made)
        if self._often(0.6):
            columns = [*columns, ("k", "int")]
            items = [*items, "k"]
        return f"select {', '.join(items)} from {name}", columns

    def alias(self) -> str:
        self.aliases += 1
        return f"a{self.aliases}"

    def _kinds(self, scope: list[Column]) -> list[str]:
        return [kind for _, kind in scope if kind in ORDERED] or ["int"]

    def _often(self, share: float) -> bool:
        return self.random.random() < share


def _qualified(alias: str, columns: Sequence[Column]) -> list[Column]:
    return [(f"{alias}.{name}", kind) for name, kind in columns]
