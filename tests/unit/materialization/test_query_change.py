"""What a query's change is known from: the session that reads its text, and its inputs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.inputs.position import SHARD, Position
from dbt.adapters.mvsink.materialization.query_change import READ_WITH, QueryChange, read_otherwise
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.sink import Volume


@pytest.mark.parametrize("name", READ_WITH)
def test_settings_that_decide_what_a_text_means_have_the_query_evaluated(name):
    other = {"true": "false", "false": "true"}.get(READ_WITH[name], "LEGACY")
    assert read_otherwise({name: other}) == f"{name} = {other}"
    assert read_otherwise({name: READ_WITH[name].upper()}) is None


def test_other_settings_do_not():
    assert read_otherwise({"spark.sql.shuffle.partitions": "2", "spark.sql.ansi.enabled": "false"}) is None


def test_an_input_that_the_reading_does_not_have_has_the_query_evaluated(monkeypatch):
    """A second lock: its change would be left out without a word."""
    analysed = SimpleNamespace(relations={"shop.orders": ()})
    monkeypatch.setattr(QueryChange, "_read", lambda self: analysed)
    changed = [Position(f"cat.shop.{name}", SHARD) for name in ("Orders", "refunds")]
    inputs = SimpleNamespace(
        changed=changed, named_twice=lambda: None, why_unknown=lambda position: None, sides=lambda *_: ()
    )
    full = QueryChange(None, inputs, 1).increment(Volume(0, 0))  # type: ignore[arg-type]
    assert full == EvaluateFully(Why.NOT_READ_HERE, "cat.shop.refunds")
