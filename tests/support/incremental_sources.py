"""Random FROM trees and subqueries of particular shapes, for `incremental_queries`."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Protocol

SCHEMA = {
    "t0": {"k": "int", "v": "int", "ts": "timestamp"},
    "t1": {"k": "int", "w": "int", "ts": "timestamp", "xs": "array<int>"},
    "t2": {"k": "int", "u": "int"},
}
MAPS = {"t3": {"k": "int", "m": "map<string,int>"}}  # that are drawn with the focus `maps`
Column = tuple[str, str]  # an expression and its type


@dataclass
class Leaf:
    text: str
    alias: str
    columns: list[Column]
    merged: bool = False  # a join has made one of its columns and one of another leaf's


class Draws(Protocol):
    """What draws queries."""

    random: Random

    def alias(self) -> str: ...
    def relation(self, alias: str) -> Leaf: ...


def chain(queries: Draws) -> tuple[str, list[Leaf]]:
    """Two columns of one leaf, equal only where an outer, semi or anti join matches, and a
    relation joined to each.
    """
    first, second, *others = (queries.relation(queries.alias()) for _ in range(4))
    (one, _), (two, _) = [column for column in first.columns if column[1] == "int"]
    key = queries.random.choice(
        ["k", queries.random.choice([n for n, kind in second.columns if kind == "int"])]
    )
    tie = queries.random.choice(
        [f"{first.alias}.{two} = {second.alias}.{key}", f"{first.alias}.{one} = {first.alias}.{two}"]
    )
    kind = queries.random.choice(["left join", "left semi join", "left anti join"])
    text = f"{first.text} {kind} {second.text} on {first.alias}.{one} = {second.alias}.{key} and {tie}"
    for column, other in zip((one, two), others, strict=True):
        text += f" {queries.random.choice(['join', 'left join'])} {other.text} on {first.alias}.{column} = {other.alias}.k"
    return text, [first, *others]


def full_chain(queries: Draws) -> tuple[str, list[Leaf]]:
    """Full joins with a key that the first of them has made of two columns."""
    leaves = [queries.relation(queries.alias()) for _ in range(3)]
    if queries.random.random() < 0.2:  # `t2` shares no other column with one
        names = [queries.random.choice(["t0", "t1"]), "t2", "t2"]
        leaves = [Leaf(f"{name} as {leaf.alias}", leaf.alias, [*SCHEMA[name].items()])
                  for name, leaf in zip(names, leaves, strict=True)]  # fmt: skip
        one, two, three = leaves
        first = f"{one.text} natural full join {two.text}"
    else:
        one, two, three = leaves
        inner = queries.random.choice(["full join", "full join", "right join", "join"])
        first = f"{one.text} {inner} {two.text} using (k)"
    ways = [f"{first} full join {three.text} using (k)"]
    coalesced = f"coalesce({one.alias}.k, {two.alias}.k)"
    ways.append(
        f"{one.text} full join {two.text} on {one.alias}.k = {two.alias}.k full join {three.text} on {coalesced} = {three.alias}.k"
    )
    ways.append(f"{first} full join {three.text} on {three.alias}.k = {coalesced}")
    ways.append(f"{three.text} full join ({first}) on {coalesced} = {three.alias}.k")
    text = queries.random.choice(ways)
    if queries.random.random() < 0.5:
        return text, [Leaf(leaf.text, leaf.alias, leaf.columns, merged=True) for leaf in leaves]
    alias, key = (
        queries.alias(),
        "k" if text.endswith("using (k)") else f"coalesce({coalesced}, {three.alias}.k)",
    )
    shown = [f"{leaf.alias}.{name} as c{number}" for number, leaf in enumerate(leaves)
             for name, kind in leaf.columns if kind == "int" and name != "k"]  # fmt: skip
    columns = [("k", "int"), *((each.rsplit(" ", 1)[1], "int") for each in shown)]
    return f"(select {key} as k, {', '.join(shown)} from {text}) as {alias}", [Leaf("", alias, columns)]


def joined_sums(queries: Draws) -> tuple[str, list[Column]]:
    """A join of groups whose sums cannot be repeated, unless the numbers are small."""
    one, other, random = queries.alias(), queries.alias(), queries.random
    texts = []
    for alias in (one, other):
        table = random.choice(list(SCHEMA))
        value = random.choice([name for name, kind in SCHEMA[table].items() if kind == "int"])
        key = random.choice(["k", "k", value])
        sums = (
            f"select {key} as k, count(*) as n, sum(cast({value} as double)) as s from {table} group by {key}"
        )
        texts.append(f"({sums}) as {alias}")
    kind = random.choice(["join", "left join", "right join", "left semi join", "left anti join"])
    second = one if "semi" in kind or "anti" in kind else other
    shown = [
        f"{one}.k as c0",
        f"{second}.k as c1",
        f"{one}.s as c2",
        f"{second}.s + {one}.n as c3",
        f"{second}.n as c4",
    ]
    kept = [shown[0], *random.sample(shown[1:], random.randint(1, 4))]
    where = random.choice(["", "", f" where {one}.k > 0"])
    text = f"select {', '.join(kept)} from {texts[0]} {kind} {texts[1]} on {one}.k = {other}.k{where}"
    doubles = ("c2", "c3")
    names = [each.rsplit(" ", 1)[1] for each in kept]
    return text, [(name, "double" if name in doubles else "int") for name in names]


def below(queries: Draws, column: str, source: str, one: str, value: str, negated: str) -> str:
    """A subquery that names the ``value`` of the block around it two levels down."""
    alias = queries.alias()
    rows = f"(select {column} as c from {source} where {one} = {value}) as {alias}"
    return queries.random.choice(
        [
            f"{negated}exists (select 1 from {rows} where {alias}.c > 1)",
            f"{value} {negated}in (select {alias}.c from {rows})",
            f"{value} <= (select count(*) from {rows})",
            f"exists (select {alias}.c from {rows} group by {alias}.c having count(*) > 1)",
        ]
    )


def looked_up(random: Random, column: str) -> str:
    """An INT of a map, seldom one that differs for equal maps."""
    key = random.choice("abc")
    if random.random() < 0.1:
        return first_key(column)
    return random.choice(
        [
            f"{column}['{key}']",
            f"element_at({column}, '{key}')",
            f"try_element_at({column}, '{key}')",
            f"cast({column} is null as int)",
        ]
    )


def first_key(column: str) -> str:
    """An INT that differs for equal maps."""
    return f"case when map_keys({column})[0] = 'a' then 1 end"


def in_another_order(value: object) -> object:
    """An equal map."""
    return dict([*value.items()][::-1]) if isinstance(value, dict) else value
