"""Spark starts once dbt has read the profile: for which commands, where, how often, and what
becomes of an error.
"""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink import connections
from dbt.adapters.mvsink.connection import factory
from dbt.adapters.mvsink.connection.embedded import EmbeddedSpark
from dbt.adapters.mvsink.credentials import MvsinkCredentials

CREDENTIALS = object()


@pytest.fixture
def no_context(monkeypatch):
    """As in a process that has no Spark."""
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)


@pytest.fixture
def started(monkeypatch, no_context):
    """What the session was started with, once the threads have ended."""
    asked, threads = [], []
    monkeypatch.setattr(EmbeddedSpark, "profile_session", lambda self, credentials: asked.append(credentials))

    def thread(**options):
        threads.append(threading.Thread(**options))
        return threads[-1]

    monkeypatch.setattr(
        "dbt.adapters.mvsink.connection.embedded.threading",
        SimpleNamespace(Thread=thread, Lock=threading.Lock),
    )

    def ended():
        for each in threads:
            each.join()
        return asked

    return ended


def test_once(started):
    spark = EmbeddedSpark()
    spark.start_early(CREDENTIALS)
    spark.start_early(CREDENTIALS)
    assert started() == [CREDENTIALS]


def test_not_beside_a_session(started):
    spark = EmbeddedSpark()
    spark._session = object()
    spark.start_early(CREDENTIALS)
    assert started() == []


def test_an_error_is_for_a_caller_that_needs_the_session(started, monkeypatch):
    def refused(self, credentials):
        raise DbtRuntimeError("no Java")

    monkeypatch.setattr(EmbeddedSpark, "profile_session", refused)
    spark = EmbeddedSpark()
    spark.start_early(CREDENTIALS)
    assert started() == []
    with pytest.raises(DbtRuntimeError, match="no Java"):
        spark.profile_session(CREDENTIALS)


COMMANDS = {
    "run": True,
    "build": True,
    "generate": True,
    "parse": False,
    "list": False,
    "deps": False,
    "": False,
}


@pytest.mark.parametrize(("command", "starts"), COMMANDS.items())
@pytest.mark.parametrize("method", ["session", "connect"])
def test_which_commands(command, starts, method, monkeypatch):
    begun = []
    monkeypatch.setattr(connections, "command_of_dbt", lambda: command)
    monkeypatch.setattr(connections, "start_session_early", begun.append)
    place = {"remote": "sc://h:15002", "shard_root": "/shards"} if method == "connect" else {}
    monkeypatch.setattr(connections, "project_of_dbt", lambda: "/p")
    read = MvsinkCredentials.from_dict({"method": method, "schema": "s", **place})
    assert begun == ([read] if starts and method == "session" else [])
    assert read.home == "/p/.mvsink" or not begun


@pytest.fixture
def begun(monkeypatch, tmp_path):
    """What starts for a profile with these keys, in a project that has had a warm session or
    not, and in which ``server`` is there or none.
    """

    def of(server: object = None, had_one: bool = True, **keys: object) -> list[str]:
        happened: list[str] = []
        threads: list[threading.Thread] = []

        def thread(**options: object) -> threading.Thread:
            threads.append(threading.Thread(**options))  # type: ignore[arg-type]
            return threads[-1]

        embedded = SimpleNamespace(is_here=lambda: False, start_early=lambda _: happened.append("embedded"))
        monkeypatch.setattr(factory, "EMBEDDED", embedded)

        def look(_: object) -> object:
            happened.append("looked")
            return server

        monkeypatch.setattr(factory, "warm_server", look)
        monkeypatch.setattr(factory, "check_connect", lambda: happened.append("imported"))
        monkeypatch.setattr(factory, "threading", SimpleNamespace(Thread=thread))
        if had_one:
            (tmp_path / ".mvsink" / "session").mkdir(parents=True, exist_ok=True)
        credentials = MvsinkCredentials(schema="s", **keys)  # type: ignore[arg-type]
        credentials.belong_to(str(tmp_path))
        factory.start_session_early(credentials)
        for each in threads:
            each.join()
        return happened

    return of


def test_the_embedded_spark_starts_early_unless_a_warm_session_is_there(begun):
    assert begun(had_one=False) == ["embedded"]
    assert begun() == ["looked", "embedded"]
    assert begun(server=object()) == ["looked", "imported"]
    assert begun(session="own") == ["embedded"]
    assert begun(had_one=False, session="warm", server=object()) == ["looked", "imported"]


def test_a_warm_session_that_does_not_start_early_is_an_error_of_a_connection_only(begun, monkeypatch):
    def refused(_):
        raise DbtRuntimeError("no memory")

    assert begun(session="warm", server=object()) == ["looked", "imported"]
    monkeypatch.setattr(factory, "warm_server", refused)
    factory._warm_early(CREDENTIALS)


def test_a_connection_is_to_the_warm_session_unless_this_process_has_a_spark(monkeypatch):
    opened = []
    monkeypatch.setattr(factory, "open_session", lambda spark, _: opened.append("embedded"))
    monkeypatch.setattr(factory, "open_warm", lambda _, server: opened.append(server))
    for here, server in ((True, "warm"), (False, "warm"), (False, None)):
        monkeypatch.setattr(factory, "EMBEDDED", SimpleNamespace(is_here=lambda here=here: here))
        monkeypatch.setattr(factory, "warm_server", lambda _, server=server: server)
        factory.open_embedded_or_warm(CREDENTIALS)
    assert opened == ["embedded", "warm", "embedded"]
