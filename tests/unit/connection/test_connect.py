"""Spark Connect without a server: profiles, addresses, errors, and what is never shown."""

from __future__ import annotations

from multiprocessing import get_context
from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.connection.connect import ConnectConnection, address, first_line
from dbt.adapters.mvsink.connections import MvsinkConnectionManager
from dbt.adapters.mvsink.credentials import MvsinkCredentials
from dbt.adapters.mvsink.masking import masked

REMOTE = "sc://spark.example.com:15002"


def profile(**options: Any) -> MvsinkCredentials:
    """As dbt reads a profile: checked, then made."""
    written = {"schema": "s", "method": "connect", "remote": REMOTE, "shard_root": "/shards", **options}
    data = MvsinkCredentials.translate_aliases({key: value for key, value in written.items() if value})
    MvsinkCredentials.validate(data)
    return MvsinkCredentials.from_dict(data)


def test_a_profile_needs_a_remote_and_a_shard_root():
    made = profile()
    assert (made.method, made.remote, made.host, made.unique_field) == ("connect", REMOTE, None, REMOTE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"remote": None}, "Expected: sc://host:port"),
        ({"remote": "http://host:15002"}, "Expected: sc://host:port"),
        ({"remote": "sc://host/path"}, "Expected: sc://host:port"),
        ({"remote": "sc://host/;user_id"}, "Expected: sc://host:port"),
        ({"remote": "sc://host:port"}, "Expected: sc://host:port"),
        ({"remote": "sc://host:65536"}, "Expected: sc://host:port"),
        ({"headers": ["x"]}, "a mapping of names of gRPC headers"),
        ({"headers": {"X-Team": "north-by-north"}}, "Got: 'X-Team'"),
        ({"headers": {"token": "north-by-north"}}, "other than token, use_ssl"),
        ({"shard_root": None}, "method connect needs `shard_root`"),
        ({"formats": ["delta"]}, "formats is for method session"),
        ({"method": "session"}, "profile: remote is for method connect"),
        ({"method": "session", "remote": None, "headers": {"x": "north-by-north"}}, "headers is for method"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(DbtRuntimeError) as raised:
        profile(**options)
    assert message in str(raised.value)
    assert "north-by-north" not in str(raised.value)


def test_token_and_headers_are_never_shown():
    made = profile(
        remote=f"{REMOTE}/;user_id=ann;x-key=tulip%20bulb", token="daffodil", headers={"x-team": "hyacinth"}
    )
    shown = masked(f"{made!r} {made.token} {made.headers} tulip bulb")
    for secret in ("daffodil", "hyacinth", "tulip%20bulb", "tulip bulb"):
        assert secret not in shown
    assert "ann" in shown


def test_a_missing_client_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyspark.sql.connect.session", None)
    with pytest.raises(DbtRuntimeError, match=r"pip install 'dbt-mvsink\[connect\]'"):
        profile()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((REMOTE, None, False, {}), REMOTE),
        ((REMOTE, None, True, {}), f"{REMOTE}/;use_ssl=true"),
        ((f"{REMOTE}/", "a;b", False, {}), f"{REMOTE}/;token=a%3Bb"),
        ((f"{REMOTE}/;user_id=ann", None, False, {"x-a": "b c"}), f"{REMOTE}/;user_id=ann;x-a=b%20c"),
    ],
)
def test_the_address(arguments, expected):
    assert address(*arguments) == expected


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('<_MultiThreadedRendezvous of RPC that terminated with:\n  status = StatusCode.UNAVAILABLE\n  details = "Socket closed"\n', "Socket closed"),
        ("[TABLE_OR_VIEW_NOT_FOUND] no t. SQLSTATE: 42P01\n\nJVM stacktrace:\nat x", "[TABLE_OR_VIEW_NOT_FOUND] no t. SQLSTATE: 42P01"),
        ("", "Exception"),
    ],
)  # fmt: skip
def test_an_error_is_one_line(text, line):
    assert first_line(Exception(text)) == line


class Frame:
    """Ten rows, or an error."""

    def __init__(self, error: Exception | None = None, rows: int = 10):
        self.error, self.rows = error, rows

    def limit(self, rows: int) -> Frame:
        return Frame(self.error, min(rows, self.rows))

    def collect(self) -> list[int]:
        if self.error:
            raise self.error
        return list(range(self.rows))


class Session:
    """A session whose statements have this frame; remembers its tags."""

    def __init__(self, frame: Frame):
        self.frame, self.tags, self.stopped = frame, [], False

    def sql(self, statement: str) -> Frame:
        return self.frame

    def addTag(self, tag: str) -> None:
        self.tags.append(tag)

    def removeTag(self, tag: str) -> None:
        self.tags.remove(tag)

    def registerProgressHandler(self, handler: Any) -> None:
        self.handler = handler

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def connected(monkeypatch):
    def open_with(frame: Frame) -> tuple[ConnectConnection, Session]:
        session = Session(frame)
        server = f"the Spark Connect server {REMOTE}"
        return ConnectConnection(session, server, progress=False), session

    return open_with


def test_rows_are_fetched_once_and_no_more_than_asked_for(connected):
    connection, session = connected(Frame())
    cursor = connection.cursor()
    cursor.execute("select 1")
    assert cursor.fetchmany(3) == [0, 1, 2]
    for fetch in (cursor.fetchall, cursor.fetchone):
        with pytest.raises(DbtRuntimeError, match="only once"):
            fetch()
    cursor.execute("select 1")
    assert cursor.fetchall() == list(range(10))
    assert (cursor.fetchall(), cursor.fetchone()) == ([], None)
    cursor.execute("select 1")
    assert cursor.fetchmany(11) == list(range(10))
    assert (cursor.fetchall(), cursor.fetchone()) == ([], None)
    connection.close()
    assert session.tags == [] and session.stopped


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        ("StatusCode.UNAVAILABLE: Socket closed", True),
        ("[INVALID_HANDLE.SESSION_CHANGED] The handle is invalid", True),
        ("[NO_ACTIVE_SESSION] No active Spark session found. Please create a new Spark session", True),
        ("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012", False),
    ],
)
def test_a_lost_session_reads_otherwise_than_an_error_of_the_query(connected, error, lost):
    connection, _ = connected(Frame(RuntimeError(error)))
    connection.execute("select 1")
    with pytest.raises(Exception, match="not repeated; run again" if lost else "DIVIDE_BY_ZERO"):
        connection.fetchall()


def test_progress_is_that_of_the_newest_message(connected):
    connection, session = connected(Frame())
    stage = SimpleNamespace(stage_id=1, num_tasks=8, num_completed_tasks=8)
    session.handler([stage, SimpleNamespace(stage_id=2, num_tasks=4, num_completed_tasks=1)], 1, "x", False)
    assert connection._details(0.0) == "stage 2, 9 of 12 tasks"
    session.handler(None, 0, "x", True)
    assert connection._details(0.0) == ""


def test_a_statement_that_may_change_the_session_makes_what_was_read_of_it_old(connected):
    connection, _ = connected(Frame())
    before = connection.session_changes
    connection.execute("select 1")
    assert connection.session_changes == before
    connection.execute("set a = 1")
    assert connection.session_changes != before


def test_the_end_of_a_run_opens_no_connection(monkeypatch):
    """dbt clears a transaction before hooks, which opens one, and rolls that back the next time."""
    opened = []
    monkeypatch.setattr(MvsinkConnectionManager, "open", lambda connection: opened.append(connection))
    config = SimpleNamespace(credentials=profile(), query_comment=SimpleNamespace(comment=None))
    manager = MvsinkConnectionManager(config, get_context("spawn"))
    for _ in range(2):
        manager.set_connection_name("master")
        manager.clear_transaction()
        manager.release()
    assert not opened
