"""Spark starts once dbt has read the profile: for which commands, where, how often, and what
becomes of an error.
"""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink import connections
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
    monkeypatch.setattr(connections, "EMBEDDED", SimpleNamespace(start_early=begun.append))
    place = {"remote": "sc://h:15002", "shard_root": "/shards"} if method == "connect" else {}
    monkeypatch.setattr(connections, "project_of_dbt", lambda: "/p")
    read = MvsinkCredentials.from_dict({"method": method, "schema": "s", **place})
    assert begun == ([read] if starts and method == "session" else [])
    assert read.home == "/p/.mvsink" or not begun
