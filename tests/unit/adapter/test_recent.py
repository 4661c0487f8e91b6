"""What the catalog said a moment ago: how long it counts, and what ends that."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.adapter import dbt_engine
from dbt.adapters.mvsink.adapter.dbt_engine import RECENT, AdapterEngine
from dbt.adapters.mvsink.connections import MvsinkConnectionManager
from dbt.adapters.mvsink.engine import EngineError

QUERY = "describe table extended raw.orders as json"


@pytest.fixture
def asked():
    return []


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(dbt_engine, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.fixture
def adapter():
    changes = SimpleNamespace(user_changes=object())
    return SimpleNamespace(connections=changes, recent_answers={}, publications=object())


@pytest.fixture
def engine(adapter, asked, clock, monkeypatch):
    def query(self, text, what):
        asked.append(text)
        return [(len(asked),)]

    monkeypatch.setattr(AdapterEngine, "query", query)
    return AdapterEngine(adapter, "dev.m")


def test_it_counts_for_all_models(engine, adapter, asked):
    assert engine.recent(QUERY, "catalog", of_model=False) == AdapterEngine(adapter, "dev.n").recent(
        QUERY, "catalog", of_model=False
    )
    assert asked == [QUERY]


def test_another_relation_is_asked_for(engine):
    assert engine.recent(QUERY, "catalog", of_model=False) != engine.recent(
        QUERY + "s", "catalog", of_model=False
    )


def test_not_for_long(engine, clock):
    first = engine.recent(QUERY, "catalog", of_model=False)
    clock.now += RECENT
    assert engine.recent(QUERY, "catalog", of_model=False) == first
    clock.now += 0.1
    assert engine.recent(QUERY, "catalog", of_model=False) != first


def test_not_after_a_statement_of_the_user(engine, adapter):
    first = engine.recent(QUERY, "catalog", of_model=False)
    adapter.connections.user_changes = object()
    assert engine.recent(QUERY, "catalog", of_model=False) != first


def test_not_if_the_statement_ran_meanwhile(engine, adapter, monkeypatch):
    """The statement may have ended after the catalog gave its answer."""
    answer = AdapterEngine.query

    def query(self, text, what):
        adapter.connections.user_changes = object()
        return answer(self, text, what)

    monkeypatch.setattr(AdapterEngine, "query", query)
    assert engine.recent(QUERY, "catalog", of_model=False) != engine.recent(QUERY, "catalog", of_model=False)


def test_what_the_caller_does_to_the_rows_is_its_own(engine):
    engine.recent(QUERY, "catalog", of_model=False).clear()
    assert engine.recent(QUERY, "catalog", of_model=False) != []


@pytest.mark.parametrize("what", ["publish", "stage"])
@pytest.mark.parametrize("fails", [False, True])
def test_a_model_that_was_published_is_looked_up_again_a_source_is_not(engine, monkeypatch, what, fails):
    def sent(self, statement, what):
        if fails:
            raise EngineError("no")

    monkeypatch.setattr(AdapterEngine, "_cursor", sent)
    before = [engine.recent(QUERY, "catalog", of_model=each) for each in (False, True)]
    with suppress(EngineError):
        engine.execute("create or replace view dev.m as select 1", what)
    after = [engine.recent(QUERY, "catalog", of_model=each) for each in (False, True)]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, what != "publish"]


def test_a_view_is_asked_for_once_until_its_text_is_replaced(engine, monkeypatch):
    texts = []
    handle = SimpleNamespace(
        describe_view=lambda view: {"view_text": str(len(texts))},
        replace_view_text=lambda view, text, replaceable: texts.append(text) or True,
    )
    monkeypatch.setattr(AdapterEngine, "_handle", handle)
    known = [engine.recent_view("v", of_model=True)["view_text"]]
    assert engine.replace_view_text("v", "select 1", lambda text: True)
    known.append(engine.recent_view("v", of_model=True)["view_text"])
    assert known == ["0", "1"]


CHANGES = ("alter table raw.orders set location '/x'", "drop table raw.orders", "use raw", "/* c */ CALL x()")


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(
    ("statement", "changes"), [*((each, True) for each in CHANGES), ("show tables", False)]
)
def test_statements_of_hooks_and_macros(statement, changes, fails, monkeypatch):
    """Also one that failed may have changed something."""

    def execute(self, sql, *arguments, **options):
        if fails:
            raise ValueError("no")
        return None, None

    monkeypatch.setattr(MvsinkConnectionManager.__base__, "execute", execute)
    manager = MvsinkConnectionManager(SimpleNamespace(credentials=None), SimpleNamespace(RLock=lambda: None))
    before = manager.user_changes
    try:
        manager.execute(statement)
    except Exception:
        assert fails
    assert (manager.user_changes is not before) == changes
