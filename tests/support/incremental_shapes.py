"""Random blocks that group, have windows or compare rows, for `incremental_queries`.

Their values are the same whenever they are evaluated: what is not (sums of doubles) is exact for
small numbers, and rows are numbered only by all that is shown of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

Column = tuple[str, str]  # an expression and its type
ALL = "all having count(*) >= 0"  # sqlglot does not read `GROUP BY ALL UNION (`


class Shape(NamedTuple):
    """A block: ``select {items} from ... where ... {tail}``."""

    items: str
    columns: list[Column]
    tail: str = ""


class Source(NamedTuple):
    """What can be drawn over leaves; ``columns`` of a type. ``simple``: keys are columns.
    ``scalar`` draws a subquery of one value.
    """

    random: Random
    columns: dict[str, list[str]]
    simple: bool = False
    scalar: Callable[[], str] | None = None

    def column(self, kind: str = "int") -> str:
        fitting = self.columns.get(kind)
        return self.random.choice(fitting) if fitting else f"cast(null as {kind})"

    def named(self, name: str) -> list[str]:
        """The columns of that name, of any type."""
        return [each for columns in self.columns.values() for each in columns if each.split(".")[-1] == name]

    def key(self) -> str:
        one, other = self.column(), self.column()
        return self.random.choice(
            [
                one,
                one,
                one,
                f"{one} + 1",
                f"coalesce({one}, {other})",
                f"case when {one} > 1 then {other} end",
            ]
        )

    def aggregate(self, kind: str) -> str:
        if kind == "timestamp":
            return f"max({self.column(kind)})"
        if kind == "string":
            return f"cast(min({self.column()}) as string)"
        one, other = self.column(), self.column()
        if self.scalar is not None and self.random.random() < 0.2:
            return f"count({one}) + coalesce({self.scalar()}, 0)"
        return self.random.choice(
            [
                "count(*)",
                f"count({one})",
                f"sum({one})",
                f"min({one})",
                f"max({one}) - min({other})",
                f"count(distinct {one})",
                f"sum(case when {one} > 1 then {other} end)",
                f"avg({one})",
                f"sum(cast({one} as double))",
                f"count(*) filter (where {one} > 0)",
                f"max_by({one}, struct({other} as o, {one} as p))",
            ]
        )

    def having(self) -> str:
        if self.scalar is not None and self.random.random() < 0.6:
            return f"{self.random.choice(['count(*)', f'max({self.column()})'])} <= {self.scalar()}"
        return self.random.choice(
            [
                "count(*) > 1",
                f"max({self.column()}) > 1",
                f"min({self.column()}) is not null",
                f"count({self.column()}) = 0",
            ]
        )


def grouped(source: Source, kinds: Sequence[str]) -> Shape:
    """Keys that are shown, by themselves, by ordinal or alias, and keys that are not."""
    random, items, keys = source.random, [], []
    for number, kind in enumerate(kinds):
        name = f"c{number}"
        if kind == "string" or random.random() < 0.5:
            items.append(f"{source.aggregate(kind)} as {name}")
            continue
        key = source.column(kind) if kind == "timestamp" else source.key()
        homonyms = source.named(name)
        if (
            len(homonyms) == 1 and homonyms[0] in source.columns.get(kind, []) and random.random() < 0.7
        ):  # GROUP BY means the column, not the alias
            items.append(
                f"coalesce({homonyms[0]}, 0) + 1 as {name}" if kind == "int" else f"{homonyms[0]} as {name}"
            )
            keys.append(name)
            continue
        items.append(f"{key} as {name}")
        keys.append(random.choice([key, str(number + 1), key if homonyms else name]))
    if not keys or random.random() < 0.4:  # several groups may show the same row
        for _ in range(random.choice([1, 1, 2])):
            hidden = source.column() if source.simple and random.random() < 0.7 else source.key()
            keys.insert(random.randint(0, len(keys)), hidden)
        tail = f"\ngroup by {', '.join(keys)}"
    else:
        listed = ", ".join(keys)
        # DuckDB's ALL leaves out constants, and without any key there is always a group
        ways = [listed, listed, ALL] if any("." in item for item in items if "(" not in item) else [listed]
        tail = f"\ngroup by {random.choice(ways)}"
    if ALL not in tail and random.random() < 0.3:
        tail += f" having {source.having()}"
    return Shape(", ".join(items), _columns(kinds), tail)


def whole(source: Source, kinds: Sequence[str]) -> Shape:
    """Aggregates without GROUP BY."""
    items = [f"{source.aggregate(kind)} as c{number}" for number, kind in enumerate(kinds)]
    tail = f"\nhaving {source.having()}" if source.random.random() < 0.2 else ""
    return Shape(", ".join(items), _columns(kinds), tail)


def windowed(source: Source, kinds: Sequence[str]) -> Shape:
    """Windows that share a key, of which rows that are equal in ORDER BY have the same value."""
    random, key, items = source.random, source.key(), []
    shared = key if random.random() < 0.8 else source.key()
    named = f"partition by {shared}, {source.key()} order by {source.column()}"
    for number, kind in enumerate(kinds):
        value = source.column(kind) if kind != "string" else f"cast({source.column()} as string)"
        if kind == "int" and random.random() < 0.3:
            value = key
        elif kind == "int" and random.random() < 0.8:
            more = random.choice(["", f", {source.key()}", f", {source.column()}"])
            order = random.choice(["", f" order by {source.column()}", f" order by {source.column()} desc"])
            call = random.choice(["count(*)", f"sum({source.column()})", f"max({source.column()})"])
            call = random.choice([call, "rank()", "dense_rank()"]) if order else call
            value = f"{call} over (partition by {key}{more}{order})"
            value = random.choice([value, value, "rank() over w"])
        items.append(f"{value} as c{number}")
    items.append(f"count(*) over w as c{len(kinds)}")
    return Shape(", ".join(items), _columns([*kinds, "int"]), f"\nwindow w as ({named})")


def numbered(source: Source) -> Shape:
    """Rows in an order of all that is shown of them."""
    one, other = source.column(), source.column()
    call = source.random.choice(["row_number()", f"lag({other})", f"sum({other})", f"first_value({other})"])
    frame = " rows between 1 preceding and current row" if "sum" in call else ""
    window = f"{call} over (partition by {one} order by {other}{frame})"
    return Shape(f"{one} as c0, {other} as c1, {window} as c2", _columns(["int"] * 3))


def over_groups(source: Source) -> Shape:
    one, other = source.column(), source.column()
    windows = [
        f"sum(count(*)) over (partition by {one})",
        f"rank() over (partition by {one} order by count(*))",
    ]
    items = f"{one} as c0, {other} as c1, {source.random.choice(windows)} as c2, max({source.column()}) as c3"
    return Shape(items, _columns(["int"] * 4), f"\ngroup by {one}, {other}")


def _columns(kinds: Sequence[str]) -> list[Column]:
    return [(f"c{number}", kind) for number, kind in enumerate(kinds)]
