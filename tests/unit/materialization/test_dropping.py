"""Marking shards dropped, where a warning is an error: nothing is left half-done."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.adapter import models as module
from dbt.adapters.mvsink.adapter.models import MaintainedAdapter
from dbt.adapters.mvsink.engine import EngineError


@pytest.fixture
def adapter(monkeypatch):
    """One whose schema `s` has three views; that of `broken` cannot be read. ``asked`` are those
    that were looked at.
    """
    made = MaintainedAdapter.__new__(MaintainedAdapter)
    made.asked = []

    def mark(relation):
        made.asked.append(relation.identifier)
        return [f"{relation.identifier}: could not be marked"] if relation.identifier == "broken" else []

    made._mark_dropped = mark
    made.check_schema_exists = lambda *_: True
    made.list_relations = lambda *_: [SimpleNamespace(identifier=name) for name in ("a", "broken", "z")]

    def fail(warnings):
        if found := list(warnings):
            raise DbtRuntimeError("; ".join(found))

    monkeypatch.setattr(module, "warn_of_all", fail)
    return made


def test_of_a_view_before_it_is_dropped(adapter):
    with pytest.raises(DbtRuntimeError, match="broken: could not be marked"):
        adapter.mv_mark_dropped(SimpleNamespace(identifier="broken"))
    adapter.mv_mark_dropped(SimpleNamespace(identifier="a"))


def test_of_a_schema_after_it_is_dropped_with_all_its_views_looked_at(adapter):
    warnings = adapter.mv_mark_schema_dropped(SimpleNamespace(database=None, schema="s"))
    assert (adapter.asked, warnings) == (["a", "broken", "z"], ["broken: could not be marked"])
    with pytest.raises(DbtRuntimeError):
        adapter.mv_warn(warnings)


def test_a_relation_that_is_not_there_is_no_warning(adapter, monkeypatch):
    monkeypatch.delattr(adapter, "_mark_dropped")

    def gone(relation):
        raise EngineError("not found", module.NOT_FOUND)

    adapter._read_published = gone
    assert adapter._mark_dropped(SimpleNamespace(schema="s", identifier="m")) == []
