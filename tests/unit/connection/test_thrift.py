"""A Thrift server's errors in the engine's words, its values; no statement is sent twice."""

from __future__ import annotations

import datetime
from types import SimpleNamespace

import pytest
from dbt.adapters.spark.connections import PyhiveConnectionWrapper
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

from dbt.adapters.mvsink.adapter.dbt_engine import engine_error
from dbt.adapters.mvsink.connection.thrift import ThriftConnection, engine_words
from dbt.adapters.mvsink.credentials import MvsinkCredentials

SERVICE = "org.apache.hive.service.cli.HiveSQLException: Error running query: "
STACK = "\n\tat org.apache.spark.sql.hive.thriftserver.X$.y(X.scala:43)\nCaused by: java.lang.Error: SQLSTATE: 99999\n\t... 3 more\n"
ERRORS = {
    "analysis": (
        f"{SERVICE}[GONE] org.apache.spark.sql.AnalysisException: [GONE] `a` is gone.\nLook. SQLSTATE: 42P01; line 1 pos 14;\n'Project [*]\n+- 'X\n{STACK}",
        "[GONE] `a` is gone. Look. SQLSTATE: 42P01; line 1 pos 14",
    ),
    "parsing": (
        f"{SERVICE}[ODD] org.apache.spark.sql.catalyst.parser.ParseException: \n[ODD] Odd. SQLSTATE: 42601 (line 2, pos 0)\n\n== SQL ==\nx\n{STACK}",
        "[ODD] Odd. SQLSTATE: 42601 (line 2, pos 0)",
    ),
    "within dbt's words": (f"Database Error\n  {SERVICE}[X] a.B: [X] No. SQLSTATE: 22012{STACK}", "[X] No. SQLSTATE: 22012"),
    "without a condition": (f"{SERVICE}java.io.IOException: disk\nfull{STACK}", "java.io.IOException: disk full"),
    "a thread that waited": (
        f"{SERVICE}org.apache.spark.SparkException: Exception thrown in awaitResult: \n\tat a.B.c(D:1)\nCaused by: a.SparkRuntimeException: [USER_RAISED_EXCEPTION] no SQLSTATE: P0001{STACK}",
        "[USER_RAISED_EXCEPTION] no SQLSTATE: P0001",
    ),
    "a thread that waited, without a condition": (
        f"{SERVICE}org.apache.spark.SparkException: Exception thrown in awaitResult: \n\tat a.B.c(D:1)\nCaused by: java.io.IOException: disk full{STACK}",
        "java.io.IOException: disk full",
    ),
    "no stack": ("Query failed with status: CANCELED_STATE", "Query failed with status: CANCELED_STATE"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "words"), ERRORS.values(), ids=ERRORS)
def test_the_engine_s_words(text, words):
    assert engine_words(text) == words


class TTransportException(Exception):
    """Named as Thrift's own."""


class Cursor:
    """``answers``: the error of a statement, or its rows."""

    def __init__(self, answer, description=()):
        self.answer, self.description = answer, description
        self.executed = 0

    def execute(self, *_, **__):
        self.executed += 1
        if isinstance(self.answer, Exception):
            raise self.answer

    def poll(self):
        return SimpleNamespace(
            operationState=None, errorMessage=f"{SERVICE}[X] a.B: [X] 1/0. SQLSTATE: 22012{STACK}"
        )

    def fetchall(self):
        return self.answer

    def fetchmany(self, size):
        return self.answer[:size]


def connection(cursor, monkeypatch=None):
    credentials = MvsinkCredentials(schema="s")
    retries = {"poll_interval": credentials.poll_interval, "query_retries": credentials.query_retries}
    opened = PyhiveConnectionWrapper(SimpleNamespace(cursor=lambda: cursor), **retries)
    return ThriftConnection(opened, "host:10000", progress=False).cursor()


@pytest.fixture(autouse=True)
def states(monkeypatch):
    """As if PyHive were installed."""
    names = ("INITIALIZED_STATE", "RUNNING_STATE", "PENDING_STATE", "FINISHED_STATE")
    monkeypatch.setattr(
        "dbt.adapters.spark.connections.ThriftState", SimpleNamespace(**{name: name for name in names})
    )


@pytest.mark.parametrize("error", [TTransportException("read 0 bytes"), EOFError(), ConnectionResetError()])
def test_a_statement_whose_answer_is_lost_is_not_repeated(error):
    cursor = Cursor(error)
    with pytest.raises(
        DbtRuntimeError,
        match=r"the Thrift server host:10000 cannot be reached any more .*not repeated; run again$",
    ):
        connection(cursor).execute("insert into t values (1)")
    assert cursor.executed == 1


def test_an_error_has_one_line_and_its_state():
    with pytest.raises(DbtDatabaseError) as caught:
        connection(Cursor([])).execute("select 1/0")
    assert caught.value.msg == "[X] 1/0. SQLSTATE: 22012"
    assert (engine_error(caught.value).sqlstate, engine_error(caught.value).caused_by_data) == ("22012", True)


def test_dates_are_dates():
    columns = [("a", "DATE_TYPE"), ("b", "STRING_TYPE"), ("c", "DATE_TYPE")]
    rows = [("2026-01-02", "2026-01-02", None), ("+12026-01-01", "x", "0001-01-01")]
    first = (datetime.date(2026, 1, 2), "2026-01-02", None)
    reader = connection(Cursor(rows, columns))
    assert reader.fetchall() == [first, ("+12026-01-01", "x", datetime.date(1, 1, 1))]
    assert reader.fetchmany(1) == [first]
