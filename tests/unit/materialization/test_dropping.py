"""Marking shards dropped, where a warning is an error: nothing is left half-done."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.adapter import models as module
from dbt.adapters.mvsink.adapter.dbt_engine import AdapterEngine
from dbt.adapters.mvsink.adapter.models import MaintainedAdapter
from dbt.adapters.mvsink.engine import EngineError


@pytest.fixture
def adapter(monkeypatch):
    """One whose schema `s` has three views; that of `broken` cannot be read. ``asked`` are those
    that were marked.
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
        if messages := list(warnings):
            raise DbtRuntimeError("; ".join(messages))

    monkeypatch.setattr(module, "warn_of_all", fail)
    return made


def test_a_view_warns_before_it_is_dropped(adapter):
    with pytest.raises(DbtRuntimeError, match="broken: could not be marked"):
        adapter.mv_mark_dropped(SimpleNamespace(identifier="broken"))
    adapter.mv_mark_dropped(SimpleNamespace(identifier="a"))


def test_a_schema_warns_after_it_is_dropped_and_tries_all_its_views(adapter):
    warnings = adapter.mv_mark_schema_dropped(SimpleNamespace(database=None, schema="s"))
    assert (adapter.asked, warnings) == (["a", "broken", "z"], ["broken: could not be marked"])
    with pytest.raises(DbtRuntimeError):
        adapter.mv_warn(warnings)


def test_a_missing_relation_gives_no_warning(adapter, monkeypatch):
    monkeypatch.delattr(adapter, "_mark_dropped")

    def gone(self, query, what):
        raise EngineError("not found", "42P01")

    monkeypatch.setattr(AdapterEngine, "query", gone)
    monkeypatch.setattr(AdapterEngine, "view_here", lambda self, view: None)
    relation = SimpleNamespace(schema="s", identifier="m", is_view=True, information=None)
    assert adapter._mark_dropped(relation) == []
