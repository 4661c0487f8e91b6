"""What a continual task does, as a few lines of plain Python: what random tasks are held against.
It knows nothing of the package.

A statement is its text together with what it does to a list of rows. Rows are ``(key, val)``; both
may be None. The text has ``{i}`` for the input, ``{d}`` for the rows it lost, ``{t}`` for the
output, ``{r}`` for a reference, ``{w}`` for the whole input and ``{now}`` for the time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

Row = tuple[Any, Any]
Updates = dict[int, Counter[Any]]  # by time; a row is a tuple, an error a text


@dataclass
class World:
    """What a statement sees at one time."""

    gained: list[Row]
    lost: list[Row]
    reference: list[Row]
    now: int
    whole: list[Row]


@dataclass(frozen=True)
class Step:
    """One statement: its text, and the output after it."""

    text: str
    run: Callable[[list[Row], World], list[Row]]
    uses_deletes: bool = False
    uses_reference: bool = False
    uses_whole: bool = False


@dataclass
class Collection:
    """A collection by its updates, complete before ``upper``."""

    updates: Updates = field(default_factory=dict)
    upper: int = 0

    def add(self, time: int, thing: Any, diff: int) -> None:
        counted = self.updates.setdefault(time, Counter())
        counted[thing] += diff
        if not counted[thing]:
            del counted[thing]

    def at(self, time: int) -> Counter[Any]:
        counts: Counter[Any] = Counter()
        for then, updates in self.updates.items():
            if then <= time:
                counts.update(updates)
        return Counter({thing: count for thing, count in counts.items() if count})


def rows(counted: Counter[Any], sign: int = 1) -> list[Row]:
    """Its rows that came (or went), each as often as it did."""
    return [thing for thing, diff in counted.items() if isinstance(thing, tuple) for _ in range(sign * diff)]


@dataclass
class ModelTask:
    """The task's output, run by run."""

    steps: list[Step]
    initial_snapshot: bool = True
    output: Collection = field(default_factory=Collection)
    start: int | None = None

    def run(self, time: int, source: Collection, reference: Collection) -> None:
        """One run at ``time``."""
        if self.start is None:
            self.start = self.output.upper = min(time, source.upper - 1)
        if self.output.upper == self.start <= time:
            whole = source.at(self.start)
            kept = (
                whole
                if self.initial_snapshot
                else Counter({e: n for e, n in whole.items() if not isinstance(e, tuple)})
            )
            self._at(self.start, kept, reference, whole)
        if self.output.upper == self.start:
            return
        for now in self._changes(source, self.output.upper, min(time + 1, source.upper)):
            self._at(now, source.updates[now], reference, source.at(now))
        if self.output.upper < source.upper:
            later = self._changes(source, max(time + 1, self.output.upper), source.upper)
            goal = source.upper if source.upper <= time + 1 or not later else later[0]
            self.output.upper = max(goal, self.output.upper)

    def _runs(self, updates: Counter[Any]) -> bool:
        lost = any(step.uses_deletes for step in self.steps) and rows(updates, -1)
        return bool(rows(updates) or lost)

    def _changes(self, source: Collection, lower: int, upper: int) -> list[int]:
        def counts(updates: Counter[Any]) -> bool:
            return self._runs(updates) or any(not isinstance(thing, tuple) for thing in updates)

        return sorted(
            time for time, updates in source.updates.items() if lower <= time < upper and counts(updates)
        )

    def _at(self, now: int, updates: Counter[Any], reference: Collection, whole: Counter[Any]) -> None:
        before = rows(self.output.at(now))
        after = before
        if self._runs(updates):
            referenced = rows(reference.at(min(now, reference.upper - 1)))
            world = World(rows(updates), rows(updates, -1), referenced, now, rows(whole))
            for step in self.steps:
                after = step.run(after, world)
        change = Counter(after)
        change.subtract(Counter(before))
        change.update({thing: diff for thing, diff in updates.items() if not isinstance(thing, tuple)})
        for thing, diff in change.items():
            self.output.add(now, thing, diff)
        self.output.upper = now + 1


# SQL's comparisons: None is neither true nor false


def less(a: Any, b: Any) -> bool:
    return a is not None and b is not None and a < b


def same(a: Any, b: Any) -> bool:
    return a is not None and b is not None and a == b


def plus(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a + b


def most(values: Iterable[Any]) -> Any:
    return max((value for value in values if value is not None), default=None)


def grouped(rows: list[Row], function: Callable[[list[Any]], Any]) -> list[Row]:
    return [(key, function([val for k, val in rows if k == key])) for key in {key for key, _ in rows}]


def keys(rows: list[Row]) -> set[Any]:
    return {key for key, _ in rows if key is not None}


def insert(rng: Random) -> Step:
    c = rng.randint(0, 4)
    return rng.choice(
        [
            Step("insert into {t} select key, val from {i}", lambda t, w: t + w.gained),
            Step(f"insert into {{t}} select key, val + {c} from {{i}} where val > {c}",
                 lambda t, w: t + [(k, v + c) for k, v in w.gained if less(c, v)]),
            Step("insert into {t} (val, key) select x.val, x.key from {i} as x", lambda t, w: t + w.gained),
            Step(f"insert into {{t}} select key, val from {{i}} union all select val, {c} from {{i}} where key is not null",
                 lambda t, w: t + w.gained + [(v, c) for k, v in w.gained if k is not None]),
            Step("insert into {t} select key, max(val) from {i} group by key", lambda t, w: t + grouped(w.gained, most)),
            Step("insert into {t} (key) select count(*) from {i}", lambda t, w: [*t, (len(w.gained), None)]),
            Step("insert into {t} select distinct i.key, t.val from {i} as i join {t} as t on i.key = t.key",
                 lambda t, w: t + list({(k, v) for k, _ in w.gained for k2, v in t if same(k, k2)})),
            Step(f"insert into {{t}} select key, val from {{t}} where key = {c}",
                 lambda t, w: t + [(k, v) for k, v in t if same(k, c)]),
            Step("insert into {t} select key, {now} from {i}", lambda t, w: t + [(k, w.now) for k, _ in w.gained]),
            Step("insert into {t} select key, val from {d}", lambda t, w: t + w.lost, uses_deletes=True),
            Step("insert into {t} select i.key, r.val from {i} i left join {r} r on i.key = r.key",
                 lambda t, w: t + [(k, v) for k, _ in w.gained
                                   for v in [v for k2, v in w.reference if same(k, k2)] or [None]], uses_reference=True),
            Step("insert into {t} select i.key, w.val from {i} i join {w} w on i.key = w.key",
                 lambda t, w: t + [(k, v) for k, _ in w.gained for k2, v in w.whole if same(k, k2)], uses_whole=True),
            Step(f"insert into {{t}} with x as (select key, val from {{i}} where key < {c}) select x.key, y.val from x, x y",
                 lambda t, w: t + [(k, v) for k, _ in w.gained if less(k, c) for k2, v in w.gained if less(k2, c)]),
        ]
    )  # fmt: skip


def delete(rng: Random) -> Step:
    c = rng.randint(0, 4)
    return rng.choice(
        [
            Step("delete from {t} where key in (select key from {i})",
                 lambda t, w: [(k, v) for k, v in t if k is None or k not in keys(w.gained)]),
            Step(f"delete from {{t}} where val < {c}", lambda t, w: [(k, v) for k, v in t if not less(v, c)]),
            Step("delete from {t} as o where not exists (select 1 from {i} x where x.key = o.key)",
                 lambda t, w: [(k, v) for k, v in t if k in keys(w.gained)]),
            Step("delete from {t} where exists (select 1 from {d} x where x.key = {t}.key and x.val <=> {t}.val)",
                 lambda t, w: [(k, v) for k, v in t if k is None or (k, v) not in w.lost], uses_deletes=True),
            Step("delete from {t} where key not in (select key from {w} where key is not null)",
                 lambda t, w: [(k, v) for k, v in t if (k is None and keys(w.whole)) or k in keys(w.whole)], uses_whole=True),
            Step("delete from {t} where val < (select max(val) from {t})",
                 lambda t, w: [(k, v) for k, v in t if not less(v, most(v for _, v in t))]),
            Step("delete from {t} where val is null or key in (select key from {r})",
                 lambda t, w: [(k, v) for k, v in t if v is not None and (k is None or k not in keys(w.reference))],
                 uses_reference=True),
            Step("delete from {t}", lambda t, w: []),
        ]
    )  # fmt: skip


def update(rng: Random) -> Step:
    c = rng.randint(0, 4)
    return rng.choice(
        [
            Step(f"update {{t}} set val = val + {c} where key in (select key from {{i}})",
                 lambda t, w: [(k, plus(v, c) if k is not None and k in keys(w.gained) else v) for k, v in t]),
            Step("update {t} set key = val, val = key", lambda t, w: [(v, k) for k, v in t]),
            Step(f"update {{t}} as o set val = (select max(x.val) from {{i}} x) where o.key = {c}",
                 lambda t, w: [(k, most(v for _, v in w.gained) if same(k, c) else v) for k, v in t]),
            Step(f"update {{t}} set val = default where val = {c}",
                 lambda t, w: [(k, None if same(v, c) else v) for k, v in t]),
            Step(f"update {{t}} set val = {{now}} where key < {c}", lambda t, w: [(k, w.now if less(k, c) else v) for k, v in t]),
        ]
    )  # fmt: skip


def merge(rng: Random) -> Step:
    """Every source row has a key of its own, so no row of the output matches twice."""
    source, rows = rng.choice(
        [
            ("(select key, max(val) as val from {i} group by key)", lambda w: grouped(w.gained, most)),
            ("(select key, count(*) as val from {d} group by key)", lambda w: grouped(w.lost, len)),
        ]
    )
    c = rng.randint(0, 4)
    matched = rng.choice(
        [
            ("", lambda k, v, s: [(k, v)]),
            (" when matched then update set val = s.val", lambda k, v, s: [(k, s)]),
            (f" when matched and s.val > {c} then update set t.val = t.val + s.val", lambda k, v, s: [(k, plus(v, s) if less(c, s) else v)]),
            (f" when matched and t.val > {c} then delete when matched then update set *", lambda k, v, s: [] if less(c, v) else [(k, s)]),
            (" when matched then delete", lambda k, v, s: []),
        ]
    )  # fmt: skip
    absent = rng.choice(
        [
            ("", lambda k, s: []),
            (" when not matched then insert *", lambda k, s: [(k, s)]),
            (f" when not matched and s.key > {c} then insert (val) values (s.key)", lambda k, s: [(None, k)] if less(c, k) else []),
        ]
    )  # fmt: skip
    left = rng.choice(
        [
            ("", lambda k, v: [(k, v)]),
            (f" when not matched by source and t.val > {c} then delete", lambda k, v: [] if less(c, v) else [(k, v)]),
            (" when not matched by source then update set t.val = 9", lambda k, v: [(k, 9)]),
        ]
    )  # fmt: skip
    text = f"merge into {{t}} as t using {source} as s on t.key = s.key{matched[0]}{absent[0]}{left[0]}"
    if not (matched[0] or absent[0] or left[0]):
        return merge(rng)

    def run(t: list[Row], w: World) -> list[Row]:
        offered = dict(rows(w))
        after = []
        for k, v in t:
            after += matched[1](k, v, offered[k]) if k is not None and k in offered else left[1](k, v)
        return after + [row for k, s in offered.items() if k not in keys(t) for row in absent[1](k, s)]

    return Step(text, run, uses_deletes="{d}" in source)


def random_steps(rng: Random) -> list[Step]:
    """Up to three statements; a third of the tasks only insert, so that some can be computed for
    many times at once.
    """
    if rng.random() < 0.35:
        return [insert(rng) for _ in range(rng.randint(1, 2))]
    return [rng.choice([insert, insert, delete, update, merge])(rng) for _ in range(rng.randint(1, 3))]


def random_history(rng: Random, times: list[int], *, errors: bool) -> Updates:
    """Changes at these times of what is always a collection; few rows, so that they meet."""
    current: Counter[Any] = Counter()
    updates: Updates = {}
    for time in times:
        change: Counter[Any] = Counter()
        for _ in range(rng.randint(1, 4)):
            row = (rng.choice([0, 1, 2, 3, None]), rng.choice([0, 1, 2, 3, 4, None]))
            present = current[row] + change[row]
            change[row] += -rng.randint(1, present) if present and rng.random() < 0.5 else rng.randint(1, 2)
        if errors and rng.random() < 0.2:
            change["bad"] += -1 if current["bad"] else 1
        if rng.random() < 0.2:  # a time at which rows only went
            change = Counter(
                {thing: -count for thing, count in current.items() if count and rng.random() < 0.5}
            )
        change = Counter({thing: diff for thing, diff in change.items() if diff})
        current.update(change)
        if change:
            updates[time] = change
    return updates
