"""How Spark is made to list a table's files again, by what the connection can do."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.adapter.dbt_engine import AdapterEngine

TABLE = ["spark_catalog", "shop", "orders"]
NAME = "`spark_catalog`.`shop`.`orders`"
AGAIN = [f"uncache table {NAME}", f"cache lazy table {NAME}"]
PLANS = {"InMemoryTableScan [id]\n +- InMemoryRelation [id]": AGAIN, "FileScan parquet": []}


class Engine(AdapterEngine):
    """Over this connection; Spark explains every query by this ``plan``."""

    def __init__(self, handle: object, plan: str = ""):
        self.sent: list[str] = []
        self.handle, self.plan = handle, plan

    @property
    def _handle(self):
        return self.handle

    def execute(self, statement, what):
        self.sent.append(statement)

    def query(self, query, what):
        assert query == f"explain select * from {NAME}"
        return [(self.plan,)]


def relisted(handle: object, plan: str = "") -> list[str]:
    engine = Engine(handle, plan)
    engine.relist(TABLE)
    return engine.sent


@pytest.mark.parametrize(("forgets", "sent"), [(True, []), (False, [f"refresh table {NAME}"])])
def test_the_embedded_session_refreshes_what_it_has_cached(forgets, sent):
    assert relisted(SimpleNamespace(forget_files=lambda name: forgets)) == sent


@pytest.mark.parametrize(("cached", "sent"), [(True, AGAIN), (False, [])])
def test_rows_that_a_connect_server_has_cached_are_cached_again(cached, sent):
    handle = SimpleNamespace(caches_rows=lambda table: cached and table == NAME)
    assert relisted(handle) == [f"refresh table {NAME}", *sent]


@pytest.mark.parametrize(("plan", "sent"), PLANS.items())
def test_other_servers_are_asked_by_a_plan(plan, sent):
    assert relisted(SimpleNamespace(), plan) == [f"refresh table {NAME}", *sent]
