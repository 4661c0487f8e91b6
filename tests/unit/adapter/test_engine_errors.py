"""What is shown of an engine's error: its own message, never Java's stack."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from dbt.adapters.spark.connections import SparkConnectionManager
from dbt_common.exceptions import DbtDatabaseError

from dbt.adapters.mvsink.adapter.dbt_engine import AdapterEngine
from dbt.adapters.mvsink.connections import MvsinkConnectionManager
from dbt.adapters.mvsink.engine import EngineError

ROOT = "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"
STACK = "".join(f"\n\tat org.apache.spark.Frame{n}.run(Frame.java:{n})" for n in range(300))


class Java:
    def __init__(self, message, cause=None):
        self.getMessage = lambda: message
        self.getCause = lambda: cause


class Py4JError(Exception):
    """As one that PySpark does not translate: raised while rows are fetched one partition after the
    other.
    """

    def __init__(self):
        super().__init__(
            f"An error occurred while calling o45.getResult.\n: org.apache.spark.SparkException: Exception thrown{STACK}"
        )
        self.java_exception = Java(
            "Exception thrown in awaitResult: ", Java("Job aborted due to stage failure", Java(ROOT))
        )


def failing(*_, **__):
    raise Py4JError


@pytest.fixture
def connections():
    return MvsinkConnectionManager.__new__(MvsinkConnectionManager)


def test_an_error_while_rows_are_fetched_is_dbts_without_javas_stack(connections, monkeypatch):
    monkeypatch.setattr(SparkConnectionManager, "execute", failing)
    with pytest.raises(DbtDatabaseError) as raised:
        connections.execute("select 1", fetch=True, limit=5)
    assert (
        ROOT in raised.value.msg and "\tat" not in raised.value.msg and len(raised.value.msg.splitlines()) < 5
    )


def test_the_engine_reports_the_sqlstate_of_such_an_error(connections, monkeypatch):
    cursor = SimpleNamespace(fetchall=failing)
    monkeypatch.setattr(
        connections, "get_thread_connection", lambda: SimpleNamespace(handle=None), raising=False
    )
    monkeypatch.setattr(connections, "_add_query_comment", lambda text: text, raising=False)
    monkeypatch.setattr(connections, "add_query", lambda text, auto_begin: (None, cursor), raising=False)
    with pytest.raises(EngineError) as raised:
        AdapterEngine(SimpleNamespace(connections=connections), "s.m").query("select 1 div 0", "count")
    assert (raised.value.sqlstate, raised.value.message) == ("22012", ROOT)
