"""The embedded metastore (Derby) of this process's Spark, and its lock: one process uses it at a
time, the others wait.

The lock is held while the database is open. `release` closes the database between two runs of one
process and frees the lock; `reclaim` takes the lock again, and Spark reopens the database by
itself.

The lock is the kernel's (`flock`), so that a crash frees it. The file names the holder. Spark's JVM
outlives a killed holder for a moment, with the metastore still open. Therefore the file has its
process id too, and the next holder waits until that process has ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any

from dbt.adapters.events.logging import AdapterLogger

from dbt.adapters.mvsink.connection import jvm
from dbt.adapters.mvsink.connection.errors import Interrupted, MetastoreInUse

logger = AdapterLogger("mvsink")
DERBY_CLOSED = ("08006", "XJ004")  # SQL states: closed by this call; it was not open


class EmbeddedMetastore:
    """Not thread-safe: `EmbeddedSpark` serializes the calls."""

    def __init__(self) -> None:
        self._lock: MetastoreLock | None = None
        self._url: str | None = None
        self._is_released = False

    def acquire(self, lock: MetastoreLock | None, url: str | None, timeout: float) -> None:
        """Take ``lock``, if one is needed, before a session opens the database at ``url`` (JDBC).

        A session that is started again keeps the lock it has, because its JVM still has the
        database open. `DbtRuntimeError` if another process holds the lock for ``timeout`` seconds.
        """
        self._url = url
        if self._lock is not None and lock is not None and lock.path == self._lock.path:
            self.reclaim(timeout)
            return
        self.free()
        if lock is not None:
            lock.acquire(timeout, logger.info)
        self._lock, self._is_released = lock, False

    def free(self) -> None:
        """Free the lock for good; the JVM has ended, or did not start."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def record_jvm(self) -> None:
        """Write the JVM's process id into the lock's file: it may outlive this process."""
        if self._lock is not None:
            self._lock.note(jvm.pid())

    def release(self) -> bool:
        """Close the database, free the lock until `reclaim`. False if not open, or still open."""
        if self._lock is None or self._url is None or self._is_released or not _close(self._url):
            return False
        self._is_released = True
        self._lock.release()
        return True

    def reclaim(self, timeout: float) -> None:
        """After `release`, take the lock again; otherwise do nothing."""
        if self._is_released and self._lock is not None:
            self._lock.acquire(timeout, logger.info)
            self.record_jvm()
            self._is_released = False


def _close(url: str) -> bool:
    """Have Derby close the database, which it confirms by an exception."""
    from pyspark import SparkContext

    assert SparkContext._gateway is not None
    try:
        SparkContext._gateway.jvm.java.sql.DriverManager.getConnection(_shutdown(url))
    except Exception as error:
        java = getattr(error, "java_exception", None)
        if java is not None and str(java.getSQLState()) in DERBY_CLOSED:
            return True
        logger.debug(f"the metastore stays open: {error}")
    return False


def _shutdown(url: str) -> str:
    """
    >>> _shutdown("jdbc:derby:;databaseName=/a b/metastore;create=true")
    'jdbc:derby:;databaseName=/a b/metastore;shutdown=true'
    """
    kept = [part for part in url.split(";") if not part.startswith("create=")]
    return ";".join([*kept, "shutdown=true"])


ALTERNATIVES = (
    "Wait for it to end, raise `metastore_timeout` in the profile, work in a warm session (`mvsink session start`), or use a metastore that several processes can share "
    "(`server_side_parameters: spark.hadoop.hive.metastore.uris` or `spark.hadoop.javax.jdo.option.ConnectionURL`)"
)
WARM_SESSION = "mvsink session"  # which stays, so that no process waits for it ...
ENDING = 3.0  # ... for more seconds than one takes that is ending
POLL = 0.2  # seconds
REPORT_EVERY = 10.0  # seconds

# The words of a command line that `note` keeps: others may be secret (--vars).
COMMANDS = frozenset(
    [
        "build",
        "clean",
        "clone",
        "compile",
        "debug",
        "deps",
        "docs",
        "generate",
        "init",
        "list",
        "ls",
        "parse",
        "plan",
        "retry",
        "run",
        "run-operation",
        "seed",
        "serve",
        "session",
        "show",
        "snapshot",
        "source",
        "status",
        "test",
        "watch",
    ]
)

_interrupted = threading.Event()
_timed_out: set[Path] = set()  # locks that this invocation has waited for in vain


def notice_interrupts() -> None:
    """Lets a thread that waits for the lock notice Ctrl-C; called at the start of an invocation.

    Python delivers Ctrl-C to the main thread only, and dbt waits for the lock in another one.
    """
    _interrupted.clear()
    _timed_out.clear()
    before = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if not main or not callable(before) or getattr(before, "notices", False):
        return

    def handler(number: int, frame: FrameType | None) -> Any:
        _interrupted.set()
        return before(number, frame)

    handler.notices = True  # type: ignore[attr-defined]
    signal.signal(signal.SIGINT, handler)


def interrupted(seconds: float) -> bool:
    """Wait so long; whether this invocation was interrupted meanwhile, or before."""
    return _interrupted.wait(seconds)


class MetastoreLock:
    """Held from `acquire` until `release` or the end of the process."""

    def __init__(self, path: Path):
        self.path = path
        self._file: IO[str] | None = None

    def acquire(self, timeout: float, report: Callable[[str], None]) -> None:
        """Wait up to ``timeout`` seconds; ``report`` gets a line that names the holder. After that,
        `DbtRuntimeError`, which names it too.

        An invocation waits only once, although dbt tries another connection after the first failed.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = open(self.path, "a+", encoding="utf-8")  # noqa: SIM115 - it stays open while the lock is held
        started, reported = time.monotonic(), -REPORT_EVERY
        while not self._try(file):
            waited = time.monotonic() - started
            if waited >= ENDING and self._is_warm():
                file.close()
                raise MetastoreInUse(
                    f"the embedded metastore {self.path.parent} is in use by a warm session of other settings or versions, "
                    f"{self.holder()}: `mvsink session stop --all` ends it"
                )
            if waited >= timeout or self.path in _timed_out:
                file.close()
                _timed_out.add(self.path)
                raise MetastoreInUse(
                    f"the embedded metastore {self.path.parent} is in use by {self.holder()}; gave up after {timeout:.0f} s. {ALTERNATIVES}"
                )
            if waited - reported >= REPORT_EVERY:
                report(f"waiting for the embedded metastore, in use by {self.holder()}")
                reported = waited
            if interrupted(POLL):
                file.close()
                raise Interrupted(
                    f"interrupted while waiting for the embedded metastore, in use by {self.holder()}"
                )
        self._file = file
        self.note(None)

    def _is_warm(self) -> bool:
        """Whether a warm session holds it, and not only what is left of one."""
        holder = self._stored()
        process = holder.get("pid")
        return holder.get("command") == WARM_SESSION and isinstance(process, int) and _is_alive(process)

    def _try(self, file: IO[str]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        holder = self._stored()
        jvm, here = holder.get("jvm"), holder.get("host") == socket.gethostname()
        # The number may have been reused by another process, unless that is a Java.
        if here and isinstance(jvm, int) and _is_java(jvm):
            fcntl.flock(file, fcntl.LOCK_UN)
            return False
        return True

    def note(self, jvm: int | None) -> None:
        """Write this process into the file; ``jvm`` is the process id of its Spark."""
        assert self._file is not None
        self._file.seek(0)
        self._file.truncate()
        holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "command": command_of(sys.argv),
            "jvm": jvm,
        }
        json.dump(holder, self._file)
        self._file.flush()

    def release(self) -> None:
        """Release the lock; harmless if it is not held."""
        if self._file is not None:
            self._file.seek(0)
            self._file.truncate()
            self._file.close()
            self._file = None

    def holder(self) -> str:
        """The holder, in words."""
        holder = self._stored()
        if "pid" not in holder:
            return "another process"
        return f"process {holder['pid']} on {holder['host']} ({holder['command']})"

    def _stored(self) -> dict[str, object]:
        try:
            return dict(json.loads(self.path.read_text(encoding="utf-8") or "{}"))
        except (OSError, ValueError, TypeError):
            return {}


def command_of(arguments: Sequence[str]) -> str:
    """The program and its command, without any other argument.

    >>> command_of(["/usr/bin/dbt", "--log-level", "none", "run", "--vars", "{token: hunter2}"])
    'dbt run'
    """
    program, *words = arguments or ("python",)
    command = next((word for word in words if word in COMMANDS), "")
    return f"{os.path.basename(program)} {command}".strip()


def _is_java(pid: int) -> bool:
    """Whether ``pid`` is a running Java; without /proc, whether it is running at all."""
    if not _is_alive(pid):
        return False
    command = Path(f"/proc/{pid}/cmdline")
    try:
        return b"java" in command.read_bytes()
    except (FileNotFoundError, ProcessLookupError):  # it has just ended, or there is no /proc
        return not Path("/proc/self").exists() and _is_alive(pid)
    except PermissionError:
        return True


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
