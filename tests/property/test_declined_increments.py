"""Why a query is evaluated although its change could be computed (`reasons`)."""

from __future__ import annotations

from collections import Counter

import pytest

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.sink import Outcome
from tests.property.test_increments import World, unlimited  # noqa: F401
from tests.support.seldom import often

pytestmark = pytest.mark.usefixtures("unlimited")


REPLACED = {  # of a thousand rows: few enough, and too many
    "select k, v from db.a where k > 0": (320, 350),
    "select a.k, a.v, b.v w from db.a a left join db.b b on a.k = b.k": (320, 350),
    "select k, v from db.a union all select k, v from db.b": (320, 350),
    "select k, max(v) v from db.a group by k": (50, 60),
    "select distinct k, v from db.a": (50, 60),
    "select k, v from db.a union select k, v from db.b": (50, 60),
    "select k, v, row_number() over (partition by k order by v) n from db.a": (50, 60),
    "select k, v from db.a where k in (select k from db.b)": (320, 350),
    "select k, v from db.a where k not in (select k from db.b)": (50, 60),
}
OFTEN = (
    "select a.k, a.v, b.v w from db.a a left join db.b b on a.k = b.k",
    "select k, max(v) v from db.a group by k",
    "select k, v, row_number() over (partition by k order by v) n from db.a",
    "select k, v from db.a where k in (select k from db.b)",
)


@pytest.mark.parametrize("query", often(REPLACED, *OFTEN))
def test_where_more_rows_of_an_input_were_replaced_the_query_is_evaluated(query, tmp_path, monkeypatch):
    """Of a thousand; a replaced row is two changes, which the shard then has, too."""
    monkeypatch.setattr(limits, "MAX_CHANGED", 0.1)
    monkeypatch.setattr(limits, "MAX_CHANGED_LINEAR", 0.4)

    def replaced(number: int) -> EvaluateFully:
        world = World(1, tmp_path / str(number), query)
        for values in (["x"] * 1000, ["y"] * number + ["x"] * (1000 - number)):
            world.time += 1000
            world.rows = {"a": Counter(enumerate(values)), "b": Counter({(1, "z"): 1})}
            world.write("a")
            full = world.ran().written.full
        return full

    few, many = map(replaced, REPLACED[query])
    assert few.text == ""
    assert many.text.startswith("db.a changed by ")


def test_the_input_with_the_fewest_changes_is_looked_at_first(tmp_path, monkeypatch):
    """Where it changed too much, the changes of the others are not staged."""
    monkeypatch.setattr(limits, "MAX_CHANGED", 0.1)
    query = "select a.k, max(b.v) v from db.a a join db.b b on a.k = b.k group by a.k"
    world = World(1, tmp_path, query)
    for value in ("x", "y"):
        world.time += 1000
        world.rows = {name: Counter({(k, value): 1 for k in range(n)}) for name, n in (("a", 100), ("b", 10))}
        world.write("a")
        world.write("b")
        reason = world.ran().written.full.text
    assert reason.startswith("db.b changed by ")


def test_after_two_runs_with_many_changes_as_many_are_not_looked_at(tmp_path, monkeypatch):
    """A run after few changes looks at them."""
    monkeypatch.setattr(limits, "MAX_CHANGED", 0.1)
    monkeypatch.setattr(limits, "WORTHWHILE", 1e9)
    world = World(1, tmp_path, "select k, max(v) v from db.a group by k")
    values = ["x"] * 1000

    def replaced(number: int) -> Why:
        world.time += 1000
        values[:number] = [f"x{world.time}"] * number
        world.rows["a"] = Counter(enumerate(values))
        world.write("a")
        return world.ran().written.full.why

    replaced(0)
    assert all(replaced(500) is Why.MUCH_CHANGED for _ in range(2))
    assert replaced(500) is Why.USUALLY_MUCH
    assert replaced(10) is Why.UNSAID
    assert replaced(500) is Why.MUCH_CHANGED


def test_where_most_keys_change_the_query_is_evaluated_and_soon_nothing_looks_for_them(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MAX_KEYS", 0.2)
    world = World(1, tmp_path, "select v, max(k) m from db.a group by v")

    def replace(number: int, *values: str) -> Outcome:
        world.time += 1000
        world.rows["a"] = Counter({(1 + number % 5, value): 1 for value in "abcdefghij"})
        world.rows["a"].update({(9, value): 1 for value in values})
        world.write("a")
        return world.ran()

    replace(0)
    reasons = [replace(number).written.full.why for number in range(1, 5)]
    assert reasons == [Why.MANY_KEYS, Why.MANY_KEYS, Why.USUALLY_MANY_KEYS, Why.USUALLY_MANY_KEYS]
    assert replace(4, "a").written.full.why is Why.USUALLY_MANY_KEYS
    monkeypatch.setattr(limits, "REMEMBERED", 3)  # the log forgets
    assert replace(4, "a", "b").written.incremental


@pytest.mark.parametrize(("many", "reason"), [(20, Why.UNSAID), (19, Why.ALL_ROWS)])
def test_where_all_of_many_rows_may_differ_the_query_is_evaluated(many, reason, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MANY_ROWS", many)
    world = World(1, tmp_path, "select k, rank() over (order by v) r from db.a")
    for number in (20, 21):
        world.time += 1000
        world.rows["a"] = Counter({(k, "x"): 1 for k in range(number)})
        world.write("a")
        outcome = world.ran()
    assert (outcome.written.incremental, outcome.written.full.why) == (reason is Why.UNSAID, reason)


def test_an_input_that_changes_while_it_is_read_has_the_query_evaluated(tmp_path):
    world = World(3, tmp_path)
    world.run()
    world.known.moves = True
    world.change()
    assert not world.run()
