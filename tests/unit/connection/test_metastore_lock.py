"""Who holds the embedded metastore, who waits, and when it is free. `flock` distinguishes
two holders in one process as well.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.connection import metastore
from dbt.adapters.mvsink.connection.metastore import MetastoreLock, notice_interrupts

HERE = socket.gethostname()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "home" / "metastore.lock"


@pytest.fixture
def first(path):
    lock = MetastoreLock(path)
    lock.acquire(0, pytest.fail)
    yield lock
    lock.release()


@pytest.fixture(autouse=True)
def interrupts():
    """Each test begins without one and leaves Ctrl-C as it found it."""
    before = signal.getsignal(signal.SIGINT)
    metastore._interrupted.clear()
    yield
    metastore._interrupted.clear()
    signal.signal(signal.SIGINT, before)


def test_a_free_lock_is_taken_without_a_word_and_says_who_has_it(first, path):
    assert first.holder().startswith(f"process {os.getpid()} on {HERE} (")
    assert json.loads(path.read_text())["jvm"] is None


def test_a_second_one_gives_up_naming_the_holder_and_the_alternatives(first, path):
    messages = []
    with pytest.raises(DbtRuntimeError) as raised:
        MetastoreLock(path).acquire(0.3, messages.append)
    assert messages == [f"waiting for the embedded metastore, in use by {first.holder()}"]
    for part in (first.holder(), str(path.parent), "`metastore_timeout`", URIS, JDBC):
        assert part in str(raised.value)
    assert first.holder().startswith(f"process {os.getpid()}")  # the file is the holder's still


URIS, JDBC = "spark.hadoop.hive.metastore.uris", "spark.hadoop.javax.jdo.option.ConnectionURL"


def test_a_timeout_of_zero_does_not_wait(first, path):
    messages = []
    with pytest.raises(DbtRuntimeError, match="after 0 s"):
        MetastoreLock(path).acquire(0, messages.append)
    assert messages == []


def test_an_invocation_waits_once_and_the_next_one_again(first, path):
    """dbt asks for another connection when the first could not be had: it waited twice as long as
    the profile says.
    """
    messages = []
    for invocation in (1, 2):
        notice_interrupts()
        for _ in range(3):
            with pytest.raises(DbtRuntimeError, match="in use by process"):
                MetastoreLock(path).acquire(0.1, messages.append)
        assert len(messages) == invocation


@pytest.mark.parametrize(
    ("argv", "kept"),
    [
        (["/venv/bin/dbt", "run", "--vars", "{token: hunter2}", "-s", "a"], "dbt run"),
        (["dbt", "--log-level", "none", "build", "--vars={token: hunter2}"], "dbt build"),
        (["/a/my_job.py", "--password", "hunter2"], "my_job.py"),
        (["-c"], "-c"),
        ([], "python"),
    ],
)
def test_of_the_holder_s_command_line_nothing_is_kept_that_may_be_secret(path, monkeypatch, argv, kept):
    monkeypatch.setattr(sys, "argv", argv)
    lock = MetastoreLock(path)
    lock.acquire(0, pytest.fail)
    assert json.loads(path.read_text())["command"] == kept
    lock.release()


def test_a_process_that_ends_while_it_is_looked_up_does_not_hold_the_lock(path, monkeypatch):
    path.parent.mkdir()
    path.write_text(json.dumps({"pid": 1, "host": HERE, "command": "dbt run", "jvm": 2**22 - 1}))
    monkeypatch.setattr(os, "kill", lambda pid, number: None)  # it was there a moment ago
    for ends in (FileNotFoundError, ProcessLookupError):
        with monkeypatch.context() as patch:
            patch.setattr(metastore.Path, "exists", lambda self: True)
            patch.setattr(metastore.Path, "read_bytes", _raising(ends))
            lock = MetastoreLock(path)
            lock.acquire(0, pytest.fail)
            lock.release()


def _raising(error):
    def read(self):
        raise error(str(self))

    return read


def test_a_second_one_gets_it_when_the_first_lets_go(first, path):
    waiting, second = threading.Event(), MetastoreLock(path)
    worker = threading.Thread(target=second.acquire, args=(60, lambda _: waiting.set()))
    worker.start()
    assert waiting.wait(60)
    first.release()
    worker.join(60)
    assert second._file is not None
    second.release()


def test_releasing_what_is_not_held_is_harmless(path):
    lock = MetastoreLock(path)
    lock.release()
    lock.acquire(0, pytest.fail)
    lock.release()
    lock.release()
    MetastoreLock(path).acquire(0, pytest.fail)


def other_java(seconds=60):
    """A living process whose command line is a Java's."""
    return subprocess.Popen(["java", str(seconds)], executable="/bin/sleep")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "not json",
        "[1]",
        json.dumps({"pid": 1, "host": HERE, "command": "dbt run", "jvm": None}),
        # no such process
        json.dumps({"pid": 1, "host": HERE, "command": "dbt run", "jvm": 2**22 - 1}),
        # its number belongs to another process now
        json.dumps({"pid": 1, "host": HERE, "command": "dbt run", "jvm": os.getpid()}),
    ],
    ids=["empty", "not json", "no mapping", "no jvm", "a dead jvm", "a reused number"],
)
def test_what_a_dead_holder_left_does_not_block(path, content):
    path.parent.mkdir()
    path.write_text(content)
    lock = MetastoreLock(path)
    lock.acquire(0, pytest.fail)
    assert lock.holder().startswith(f"process {os.getpid()}")
    lock.release()


def test_another_machine_s_java_is_not_looked_for_here(path):
    java = other_java()
    try:
        path.parent.mkdir()
        path.write_text(json.dumps({"pid": 1, "host": "elsewhere", "command": "dbt run", "jvm": java.pid}))
        MetastoreLock(path).acquire(0, pytest.fail)
    finally:
        java.kill()
        java.wait()


def test_a_killed_holder_s_java_keeps_it_until_it_is_gone(path):
    java = other_java()
    try:
        holder = f"""
import os, signal, pathlib
from dbt.adapters.mvsink.connection.metastore import MetastoreLock
lock = MetastoreLock(pathlib.Path({str(path)!r}))
lock.acquire(0, print)
lock.note({java.pid})
os.kill(os.getpid(), signal.SIGKILL)
"""
        killed = subprocess.run([sys.executable, "-c", holder], timeout=60, check=False)
        assert killed.returncode == -signal.SIGKILL
        with pytest.raises(DbtRuntimeError, match="in use by process"):
            MetastoreLock(path).acquire(0, pytest.fail)
    finally:
        java.kill()
        java.wait()
    MetastoreLock(path).acquire(0, pytest.fail)


def test_ctrl_c_ends_a_wait_in_another_thread(first, path):
    """Python interrupts the main thread only, and dbt's main thread then waits for the one that
    waits for the lock.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    notice_interrupts()
    notice_interrupts()  # once is enough
    waiting, errors = threading.Event(), []

    def wait_for_it():
        try:
            MetastoreLock(path).acquire(300, lambda _: waiting.set())
        except DbtRuntimeError as error:
            errors.append(str(error))

    worker = threading.Thread(target=wait_for_it)
    worker.start()
    assert waiting.wait(60)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    worker.join(60)
    assert not worker.is_alive()
    assert len(errors) == 1 and "interrupted while waiting" in errors[0] and first.holder() in errors[0]


def test_an_interrupt_of_an_earlier_invocation_is_forgotten(path):
    metastore._interrupted.set()
    notice_interrupts()
    assert not metastore._interrupted.is_set()


def test_a_warm_session_is_not_waited_for_but_one_that_ends_is(path, monkeypatch):
    monkeypatch.setattr(metastore, "ENDING", 0)
    monkeypatch.setattr(sys, "argv", ["mvsink", "session"])
    session = MetastoreLock(path)
    session.acquire(0, pytest.fail)
    with pytest.raises(
        DbtRuntimeError, match="by a warm session of other settings .* `mvsink session stop --all`"
    ):
        MetastoreLock(path).acquire(60, pytest.fail)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = {**json.loads(path.read_text()), "pid": ended.pid}
    path.write_text(json.dumps(left))
    with pytest.raises(DbtRuntimeError, match="after 0 s"):  # what is left of one is waited for
        MetastoreLock(path).acquire(0, pytest.fail)
    session.release()
