"""What clients and servers of warm sessions know of each other, without Spark."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.connection import warm_sessions
from dbt.adapters.mvsink.connection.warm_server import Sessions
from dbt.adapters.mvsink.connection.warm_sessions import (
    Presence,
    WarmPlace,
    WarmServer,
    clients,
    name_of,
    places,
    start,
    stop,
)
from dbt.adapters.mvsink.credentials import MvsinkCredentials


@pytest.fixture
def place(tmp_path) -> WarmPlace:
    made = WarmPlace(tmp_path / ".mvsink", "abc")
    made.path("json").parent.mkdir(parents=True)
    return made


@pytest.fixture
def lock(place):
    """Held, as by a server that runs."""
    with open(place.path("lock"), "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def server(place, **changed) -> WarmServer:
    values = {
        "name": place.name,
        "home": str(place.home),
        "host": socket.gethostname(),
        "process": os.getpid(),
        "port": 7,
        "token": "hush-hush",
        "pyspark": "4.1.4",
        "package": "1",
        "started": 5,
        "settings": ("spark.x",),
    }
    return WarmServer(**{**values, **changed})


def test_other_settings_and_versions_have_other_names(monkeypatch):
    names = [name_of({}), name_of({"a": "1"}), name_of({"a": "2"}), name_of({"a": "1", "b": "1"})]
    monkeypatch.setattr(warm_sessions, "version", "another")
    names.append(name_of({}))
    monkeypatch.setattr(warm_sessions, "version_of", lambda package: "4.9")
    assert len({*names, name_of({})}) == 6
    assert name_of({"a": "1", "b": "2"}) == name_of({"b": "2", "a": "1"})


@pytest.mark.parametrize(
    ("variable", "decides"),
    [
        ("TZ", True),
        ("AWS_PROFILE", True),
        ("SPARK_CONF_DIR", True),
        ("SPARK_CONNECT_MODE_ENABLED", False),  # which PySpark's client sets
        ("HOME", False),
    ],
)
def test_what_spark_reads_of_the_environment_has_to_be_equal(variable, decides):
    assert (name_of({}, {variable: "x"}) != name_of({}, {})) is decides


def test_a_server_is_found_while_it_lives(place, lock):
    assert place.running() is None and place.is_alive()  # it is starting
    place.written(server(place))
    assert place.running() == server(place)
    assert stat.S_IMODE(place.path("json").stat().st_mode) == 0o600
    assert [each.name for each in places(place.home)] == ["abc"]
    assert "hush" not in repr(place.running())


def test_what_a_killed_one_has_left_is_removed_and_said_once(place, monkeypatch):
    messages = []
    monkeypatch.setattr(warm_sessions.logger, "info", messages.append)
    place.path("lock").touch()
    place.written(server(place, process=4711))
    assert place.running() is None and not place.is_alive()
    assert place.running() is None
    [line] = messages
    assert "process 4711" in line and "has ended without a word" in line


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": "abc"}', '{"settings": null}'])
def test_a_file_that_says_nothing_is_no_server(place, lock, text):
    place.path("json").write_text(text)
    assert place.running() is None


def test_a_server_of_another_machine_is_not_used(place, lock):
    place.written(server(place, host="elsewhere"))
    assert place.running() is None


def test_a_process_is_a_client_until_it_ends(place):
    presence = Presence(place)
    presence.note("s1")
    presence.note("s2")
    [client] = clients(place)
    assert (client.process, client.sessions, client.gone) == (os.getpid(), ("s1", "s2"), False)
    presence._file.close()
    [client] = clients(place)
    assert client.gone


class Info:
    """What Spark says of a session."""

    def __init__(self, name: str, at: int):
        self.key = lambda: SimpleNamespace(sessionId=lambda: name)
        self.lastAccessTimeMs = lambda: at


class Service:
    """Spark's, with these sessions: their ids and the times of their last statements."""

    def __init__(self, **sessions: int):
        self.sessions = sessions
        self.busy = False

    def sessionManager(self):
        return self

    def listActiveExecutions(self):
        return SimpleNamespace(isRight=lambda: self.busy)

    def listActiveSessions(self):
        infos = [Info(*each) for each in self.sessions.items()]
        return SimpleNamespace(size=lambda: len(infos), apply=infos.__getitem__)

    def closeSession(self, key, may_come_back):
        del self.sessions[key.sessionId()]


def test_what_ended_processes_have_left_is_closed(place):
    ours, others = Presence(place), Presence(place)
    ours.note("a")
    others.note("b")
    sessions = Sessions(Service(a=1, b=1, ide=1))
    others._file.close()
    assert sessions.swept(place)
    assert sessions._service.sessions == {"a": 1, "ide": 1}
    assert [client.sessions for client in clients(place)] == [("a",)]


def test_it_is_in_use_while_a_client_is_there_or_a_session_has_statements(place):
    sessions = Sessions(Service(ide=1))
    assert [sessions.swept(place), sessions.swept(place)] == [True, False]
    sessions._service.sessions["ide"] = 2
    assert [sessions.swept(place), sessions.swept(place)] == [True, False]
    sessions._service.busy = True  # with a statement that began long ago
    assert [sessions.swept(place), sessions.swept(place)] == [True, True]
    sessions._service.busy = False
    presence = Presence(place)
    assert [sessions.swept(place), sessions.swept(place)] == [True, True]
    presence._file.close()
    assert not sessions.swept(place)


def test_one_process_at_a_time_starts_one(place):
    order = []

    def start(number):
        with warm_sessions._alone(place.path("starting")):
            order.append(("begins", number))
            order.append(("ends", number))

    threads = [threading.Thread(target=start, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [word for word, _ in order] == ["begins", "ends"] * 8
    assert all(first[1] == second[1] for first, second in zip(order[::2], order[1::2], strict=True))


HOLDS = """
import fcntl, signal, sys, time
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
if sys.argv[2] == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("held", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(("kind", "in_time"), [("willing", True), ("stubborn", False)])
def test_a_server_that_does_not_end_in_time_is_killed(place, monkeypatch, kind, in_time):
    monkeypatch.setattr(warm_sessions, "ENDS_IN", 600 if in_time else 0)
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(place.path("lock")), kind], stdout=subprocess.PIPE
    )
    assert process.stdout is not None and process.stdout.readline() == b"held\n"
    assert stop(place, server(place, process=process.pid)) is in_time
    assert process.wait() == (-15 if in_time else -9)


def test_files_that_cannot_be_read_are_no_server(place, monkeypatch):
    """Those of another user: here, directories in their places."""
    place.path("json").mkdir()
    place.path("lock").mkdir()
    assert place.running() is None and not place.is_alive()


def test_where_no_files_can_be_kept_none_starts(tmp_path):
    (tmp_path / ".mvsink").write_text("in the way")
    credentials = MvsinkCredentials(schema="s", progress=False)
    credentials.belong_to(str(tmp_path))
    with pytest.raises(DbtRuntimeError, match=r"keeps files in .*/\.mvsink/session: "):
        start(credentials, 1.0)


def test_a_wait_for_another_that_starts_one_can_be_interrupted(place, monkeypatch):
    monkeypatch.setattr(warm_sessions, "interrupted", lambda seconds: True)
    with (
        warm_sessions._alone(place.path("starting")),
        pytest.raises(DbtRuntimeError, match="interrupted while the warm session starts"),
        warm_sessions._alone(place.path("starting")),
    ):
        raise AssertionError("both have it")
