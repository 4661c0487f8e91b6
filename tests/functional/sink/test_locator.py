"""docs/design/sink.md, *How Spark computes the correction*, on a large shard: the query's second
evaluation is asked for the values that may differ.
"""

from __future__ import annotations

import re

import pytest

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.shard_sql import layout
from dbt.adapters.mvsink.sink import Driver, RunHistory, correction, not_null
from dbt.adapters.mvsink.sink.detection import Buckets
from tests.support.seldom import often, often_of, often_rows
from tests.support.session_engine import Model, SessionEngine

ROWS = 3_000


@pytest.fixture
def model(quick, tmp_path, monkeypatch):
    """A model for which every shard is a large one, and no change too large for buckets."""
    monkeypatch.setattr(limits, "LOCATED_ROWS", 1)
    monkeypatch.setattr(limits, "COMPARED_WHOLE", 0)
    monkeypatch.setattr(Buckets, "nearly_all", 10**9)
    return Model(quick, tmp_path)


def ran(model, query, **changes):
    engine = SessionEngine(model.session)
    with model.open(query) as handle:
        outcome = Driver(model.request(query, **changes), handle, engine).run()
    return outcome, dict(engine.ran)


def numbered(items):
    return f"select {items} from range({ROWS})"


# A query with {key}, the locator, which `n` turns into other rows: some change, some go, some come,
# some are there twice.
CHANGED = "if({n} > 0 and id % 700 = 1, id + 10000, id)"
KEYS = {
    "bigint": "id",
    "smallint": "cast(id - 20000 as smallint)",
    "int": "cast(id as int)",
    "string": "concat('key ''', id, if(id % 2 = 0, '\\\\', ''))",
    "date": "date_add(date'2000-01-01', cast(id as int))",
    "timestamp": "timestamp_millis(id * 3600000)",
    "timestamp_ntz": "cast(timestamp_millis(id * 3600000) as timestamp_ntz)",
    "decimal(20,4)": "cast(id * 1.5 as decimal(20, 4))",
}


@pytest.mark.parametrize("kind", often(KEYS, "string", "decimal(20,4)"))
def test_keys_of_every_type(model, kind):
    key = KEYS[kind]

    def query(n):
        rows = numbered(f"{CHANGED.format(n=n)} id, if(id % 500 = {n}, 'x', 'y') note")
        return f"select {key} k, note from ({rows}) union all select null, 'no key' from range({n + 1})"

    for n in range(2):
        outcome, statements = ran(model, query(n))
        assert not outcome.written.evaluated_once
        assert n == 0 or len(re.findall(r"null (?:and|or) shiftright\(array\(", statements["write"])) == 1
    model.assert_holds(query(1))
    assert dict(model.engine().columns(query(0)))["k"] == kind


SHAPES = {
    "a join": "select a.id, b.id % 7 seven, if(a.id % 500 < {n}, 1, 0) c from range(3000) a join range(3000) b on a.id = b.id",
    "a grouping": "select id % 2500 k, sum(if(id % 500 < {n}, id, 1)) s from range(3000) group by 1",
    "a grouping by a column after an aggregate": "select count(*) + max(id) c, id % 2500 k from range(3000) where id >= {n} group by 2",
    "the last of each key": "select k, v from (select id % 2000 k, id + {n} * (id % 9) v, row_number() over (partition by id % 2000 "
    "order by id desc) r from range(3000)) where r = 1",
    "a limit": "select id + {n} id from range(3000) order by id limit 2000",
    "duplicates": "select id div 3 k, if(id % 400 = {n}, 'b', 'a') v from range(3000)",
    "a random order is none of the contents": "select id, if(id = {n}, 0, 1) v from range(3000) order by rand()",
    "columns that are called as ours are": "select id b, id % 3 h, -id x, if(id % 400 < {n}, 1, 0) s from range(3000)",
    "all gone but one": "select id from range(3000) where {n} = 0 or id = 5",
}


@pytest.mark.parametrize("shape", **often_of(SHAPES, "a join", "the last of each key"))
def test_the_contents_are_right_wherever_the_optimizer_puts_the_condition(model, shape):
    for n in range(3):
        outcome, _ = ran(model, shape.format(n=n))
        assert not outcome.written.evaluated_once
        if n > 0:  # the first load compares nothing
            model.assert_holds(shape.format(n=n))


@pytest.fixture
def by_hashes(model, monkeypatch):
    """A model that compares all hashes."""
    monkeypatch.setattr(RunHistory, "comparison", lambda *_: "hashes")
    return model


@pytest.mark.parametrize("shape", **often_of(SHAPES, "duplicates", "columns that are called as ours are"))
def test_the_contents_are_right_if_hashes_are_compared(by_hashes, shape):
    for n in range(3):
        outcome, _ = ran(by_hashes, shape.format(n=n))
        if n > 0:
            by_hashes.assert_holds(shape.format(n=n))
            assert not outcome.written.evaluated_once or outcome.counts.deleted > ROWS // 2


NARROWED = {
    "a key that changes": ("select if(id % 500 = {n}, id + 10000, id) k from range(3000)", True),
    "a row that changes": ("select date_add(date'2000-01-01', cast(id as int)) k, id % 500 = {n} v from range(3000)", True),
    "no key in a row that changes": ("select if(id % 500 = 7 * {n}, null, id) k, {n} = id v from range(3000)", False),
    "no key in a row that stays": ("select if(id % 500 = 7, null, id) k, id % 500 = {n} v from range(3000)", True),
    "a text": ("select concat('k', id) k, id % 500 = {n} v from range(3000)", False),
}  # fmt: skip


@pytest.mark.parametrize(
    ("query", "narrowed"),
    **often_rows(
        NARROWED, "a row that changes", "no key in a row that changes", "no key in a row that stays"
    ),
)
def test_hashes_limit_the_query_to_values_of_a_column_of_fixed_width(by_hashes, query, narrowed):
    for n in range(2):
        outcome, statements = ran(by_hashes, query.format(n=n))
    assert not outcome.written.evaluated_once and outcome.counts.deleted > 0
    assert (" in (select k from" in statements["write"]) is narrowed
    by_hashes.assert_holds(query.format(n=1))


def test_a_hash_with_two_values_limits_nothing(by_hashes, monkeypatch):
    for module in (correction, layout):
        monkeypatch.setattr(module, "row_hash", lambda columns, salt, error=None: "xxhash64(`k` div 2)")
    query = "select id k from range(3000) where {n} = 0 or id <> 11"
    for n in (0, 1):
        outcome, statements = ran(by_hashes, query.format(n=n))
    assert outcome.counts.deleted == 1 and " in (select k from" not in statements["write"]
    by_hashes.assert_holds(query.format(n=1))


class Planning(SessionEngine):
    """Remembers how Spark would run what is written."""

    plan = ""

    def execute(self, statement, what):
        if what == "write":
            query = statement.split("\n", 1)[1]
            self.plan = self.session.sql(query)._jdf.queryExecution().optimizedPlan().toString()
        super().execute(statement, what)


def test_the_condition_reaches_both_sides_of_a_join(model):
    query = SHAPES["a join"]
    ran(model, query.format(n=0))
    engine = Planning(model.session)
    with model.open(query.format(n=1)) as handle:
        Driver(model.request(query.format(n=1)), handle, engine).run()
    assert len(re.findall(r"Filter [^\n]*xxhash64[^\n]*\n[ :+|-]*Range", engine.plan)) == 2, engine.plan


def test_rows_that_break_an_assertion(model):
    """They have no key any more, wherever the query says they are."""
    query = "select id, if(id % 1000 = {n}, null, 'v') v, 'x' w from range(3000)"
    asserted = {"assertions": (not_null("v"),)}
    for n in range(3):
        outcome, _ = ran(model, query.format(n=n), **asserted)
        assert not outcome.written.evaluated_once
        assert outcome.counts.errors_inserted == (3 if n == 0 else 0)
    outcome, _ = ran(model, query.format(n=5000), **asserted)
    assert outcome.counts.errors_deleted == 3
    model.assert_holds(query.format(n=5000))


def test_damage_by_another_engine_is_repaired(model):
    from deltalake import DeltaTable

    query = numbered("id, id % 10 v")
    ran(model, query)
    DeltaTable(model.uri).delete("id % 100 = 3")
    DeltaTable(model.uri).update(predicate="id % 100 = 4", updates={"v": "v + 1"})
    ran(model, query)
    model.assert_holds(query)


ONE_CHANGES = "select id, if(id between 5 and 4 + {n}, 'changed', 'as it was') v from range(3000)"
TWO_GO = "select id, 'v' v from range(3000) where {n} = 0 or id not in (6 + {n}, 1508 + {n})"
COLLIDING = {
    "in one bucket": ("id div 32 * 16 + id % 16", ONE_CHANGES, (1, 1)),
    "in two buckets": ("id % 1500", ONE_CHANGES, (1, 1)),
    "in two buckets that both differ by other rows": ("id % 1500", TWO_GO, None),
}


@pytest.mark.parametrize(("alike", "query", "counts"), **often_rows(COLLIDING, "in two buckets"))
def test_a_hash_that_two_rows_share_is_stored_for_neither(model, monkeypatch, alike, query, counts):
    """Where one of two rows that collide changes, readers must not lose the other."""

    def weak(columns, salt, error=None):
        return f"xxhash64({salt}L, {alike}, v{'' if error is None else f', {error}'})"

    for module in (correction, layout):
        monkeypatch.setattr(module, "row_hash", weak)
    for n in range(3):
        outcome, _ = ran(model, query.format(n=n))
        model.assert_holds(query.format(n=n))
        assert n == 0 or counts in (None, (outcome.counts.inserted, outcome.counts.deleted))


def test_two_evaluations_that_differ_are_detected(model):
    query = "select id, if(id % 100 = 1, rand(), 0) v from range(3000)"
    ran(model, query)
    outcome, _ = ran(model, query)
    assert outcome.written.evaluated_once and outcome.counts.inserted == 30
