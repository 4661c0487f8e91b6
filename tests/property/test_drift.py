"""Drift: contents that are wrong although nothing that changed explains it. A verification notices
and corrects it, and the model is evaluated in full until one finds none.
"""

from __future__ import annotations

from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from dbt.adapters.mvsink.sink import Incremental, Outcome, Suspended
from tests.property.test_increments import World, unlimited  # noqa: F401
from tests.support.seldom import often

MONTH = 100_000  # ms
QUERIES = (
    "select k, v from db.a",
    "select v, count(*) n, sum(k) s from db.a group by v",
    "select v, count(*) n, count(k) c, sum(k) s from db.a group by v",  # as the sums of a model
)


class Drifting(World):
    """A model of two shards, with known rows."""

    def __init__(self, root: Any, query: str):
        super().__init__(3, root)
        self.query = self.known.query = query
        self.rows["a"].update([(1, "x"), (2, "y"), (3, "y")])
        self.refresh()

    def refresh(self, after: int = 1000, **changes: Any) -> Outcome:
        """A run after another row has come."""
        self.time += after
        self.rows["a"][4, "z"] += 1
        self.write("a")
        return self.ran(**changes)

    def drift(self, after: int = 1000) -> Outcome:
        """A verification after a row was lost."""
        self.time += after
        self.lose_a_row(progress=True)
        return self.refresh(verify=True)


@pytest.fixture(params=often(QUERIES, QUERIES[0], QUERIES[2]))
def model(request, tmp_path, unlimited, monkeypatch) -> Drifting:  # noqa: F811
    monkeypatch.setattr("dbt.adapters.mvsink.limits.DRIFTS_AGAIN", MONTH)
    monkeypatch.setattr("dbt.adapters.mvsink.sink.decide._in_vain", lambda _: None)
    return Drifting(tmp_path, request.param)


def test_a_verification_without_drift_is_incremental(model):
    outcome = model.refresh(verify=True)
    assert (outcome.written.incremental, outcome.verified) == (True, True)
    assert outcome.written.drift is not None and outcome.written.drift.counts.nothing
    assert outcome.state.suspended == Suspended.NOT


def test_drift_is_counted_apart_from_the_changes_and_suspends_until_a_verification_finds_none(model):
    outcome = model.drift()
    assert outcome.written.drift is not None and outcome.written.drift.sample
    counts = outcome.written.drift.counts
    assert (counts.inserted, counts.deleted) == (1, 0)
    assert outcome.counts.inserted > 1 or outcome.counts.deleted
    assert (outcome.written.incremental, outcome.state.suspended) == (False, Suspended.UNTIL_VERIFIED)
    outcome = model.refresh()
    assert (outcome.written.incremental, outcome.written.full.usual) == (False, False)
    assert (
        outcome.written.full.text
        == "its contents had drifted, and no verification has found them correct since"
    )
    assert model.refresh(incremental=Incremental.ALWAYS).written.incremental
    assert model.refresh(verify=True).state.suspended == Suspended.NOT
    assert model.refresh().written.incremental


def test_a_second_drift_soon_suspends_until_another_definition(model):
    model.drift()
    model.refresh(verify=True)
    assert model.drift(MONTH - 5000).state.suspended == Suspended.UNTIL_REDEFINED
    assert model.refresh(verify=True).state.suspended == Suspended.UNTIL_REDEFINED
    outcome = model.refresh()
    assert outcome.written.full.text == "its contents drifted twice within 30 days"
    assert model.refresh(incremental=Incremental.ALWAYS).written.incremental
    model.known.plan = 2  # another definition
    assert model.refresh().state.suspended == Suspended.NOT
    assert model.refresh().written.incremental


def test_a_second_drift_later_is_the_first_again(model):
    model.drift()
    model.refresh(verify=True)
    assert model.drift(MONTH).state.suspended == Suspended.UNTIL_VERIFIED


def test_sums_of_doubles_may_differ_when_they_are_evaluated_again(tmp_path, unlimited):  # noqa: F811
    model = Drifting(tmp_path, "select v, sum(cast(k as double)) s from db.a group by v")
    outcome = model.drift()
    assert (outcome.written.incremental, outcome.written.drift, outcome.state.suspended) == (
        False,
        None,
        Suspended.NOT,
    )
    model.lose_a_row(progress=True)
    model.time += 1000
    outcome = model.ran(verify=True)
    assert outcome.written.drift is not None and not outcome.written.drift.counts.nothing
    assert outcome.state.suspended == Suspended.NOT


def test_an_input_that_changes_meanwhile_is_no_drift(model):
    model.known.moves = True
    outcome = model.drift()
    assert outcome.state.suspended == Suspended.NOT


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("statement", ["delete", "update", "insert"])
def test_what_another_tool_did_to_the_shard_is_drift_where_no_input_changed(statement, verify, model):
    table = DeltaTable(model.model.uri)
    if statement == "delete":
        table.delete("v = 'y'")
    elif statement == "update":
        table.update(predicate="v = 'y'", updates={"v": "'q'"})
    else:
        write_deltalake(model.model.uri, table.to_pyarrow_table().slice(0, 1), mode="append")
    model.time += 1000
    outcome = model.ran(verify=verify)
    assert outcome.written.drift is not None
    wrong = outcome.written.drift.counts
    assert (wrong.inserted > 0, wrong.deleted > 0) == {
        "delete": (True, False),
        "update": (True, True),
        "insert": (False, True),
    }[statement]
    assert outcome.state.suspended == Suspended.UNTIL_VERIFIED
