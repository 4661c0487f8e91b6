"""The embedded metastore (Derby) belongs to one process at a time; the others wait, and say for
whom.

The lock is the kernel's (`flock`), so that a crash frees it. The file says who holds it. Spark's
JVM outlives a killed holder by a moment, with the metastore still open, so its process id stands
there too and the next holder waits for it to go.
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

from dbt_common.exceptions import DbtRuntimeError

ALTERNATIVES = (
    "Wait for it to end, raise `metastore_timeout` in the profile, or use a metastore that several processes can share "
    "(`server_side_parameters: spark.hadoop.hive.metastore.uris` or `spark.hadoop.javax.jdo.option.ConnectionURL`)"
)
POLL = 0.2  # seconds
SAY_EVERY = 10.0  # seconds

# What `note` keeps of a command line: its other words may hold secrets (--vars).
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
        "show",
        "snapshot",
        "source",
        "status",
        "test",
        "watch",
    ]
)

_interrupted = threading.Event()
_given_up: set[Path] = set()  # the locks that this invocation has waited for in vain


def notice_interrupts() -> None:
    """At the start of an invocation. Python tells Ctrl-C to the main thread, and dbt waits in
    another one, which the main thread then waits for: tell it too."""
    _interrupted.clear()
    _given_up.clear()
    before = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if not main or not callable(before) or getattr(before, "notices", False):
        return

    def handler(number: int, frame: FrameType | None) -> Any:
        _interrupted.set()
        return before(number, frame)

    handler.notices = True  # type: ignore[attr-defined]
    signal.signal(signal.SIGINT, handler)


class MetastoreLock:
    """Held from `acquire` until `release` or the end of the process."""

    def __init__(self, path: Path):
        self.path = path
        self._file: IO[str] | None = None

    def acquire(self, timeout: float, say: Callable[[str], None]) -> None:
        """Wait up to ``timeout`` seconds; ``say`` gets a line that names the holder.
        `DbtRuntimeError` naming it after that.

        An invocation waits once: dbt asks for another connection after the first one has failed.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = open(self.path, "a+", encoding="utf-8")  # noqa: SIM115 - it stays open while the lock is held
        started, said = time.monotonic(), -SAY_EVERY
        while not self._try(file):
            waited = time.monotonic() - started
            if waited >= timeout or self.path in _given_up:
                file.close()
                _given_up.add(self.path)
                raise DbtRuntimeError(
                    f"the embedded metastore {self.path.parent} is in use by {self.holder()}, after {timeout:.0f} s. {ALTERNATIVES}"
                )
            if waited - said >= SAY_EVERY:
                say(f"waiting for the embedded metastore, in use by {self.holder()}")
                said = waited
            if _interrupted.wait(POLL):
                file.close()
                raise DbtRuntimeError(
                    f"interrupted while waiting for the embedded metastore, in use by {self.holder()}"
                )
        self._file = file
        self.note(None)

    def _try(self, file: IO[str]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        told = self._told()
        jvm, here = told.get("jvm"), told.get("host") == socket.gethostname()
        # The number may belong to another process by now: only a Java can be the one that is meant.
        if here and isinstance(jvm, int) and _is_java(jvm):
            fcntl.flock(file, fcntl.LOCK_UN)
            return False
        return True

    def note(self, jvm: int | None) -> None:
        """Write down who holds the lock; ``jvm`` is the process id of its Spark."""
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
        """Give it up; harmless if it is not held."""
        if self._file is not None:
            self._file.seek(0)
            self._file.truncate()
            self._file.close()
            self._file = None

    def holder(self) -> str:
        """Who holds it, in words."""
        told = self._told()
        if "pid" not in told:
            return "another process"
        return f"process {told['pid']} on {told['host']} ({told['command']})"

    def _told(self) -> dict[str, object]:
        try:
            return dict(json.loads(self.path.read_text(encoding="utf-8") or "{}"))
        except (OSError, ValueError, TypeError):
            return {}


def command_of(arguments: Sequence[str]) -> str:
    """The program and its command, without anything else that was given.

    >>> command_of(["/usr/bin/dbt", "--log-level", "none", "run", "--vars", "{token: hunter2}"])
    'dbt run'
    """
    program, *words = arguments or ("python",)
    command = next((word for word in words if word in COMMANDS), "")
    return f"{os.path.basename(program)} {command}".strip()


def _is_java(pid: int) -> bool:
    """Is ``pid`` a living Java? Where processes cannot be looked at, any living one may be."""
    if not _is_alive(pid):
        return False
    command = Path(f"/proc/{pid}/cmdline")
    try:
        return b"java" in command.read_bytes()
    except (FileNotFoundError, ProcessLookupError):  # it has ended just now, or there is no /proc
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
