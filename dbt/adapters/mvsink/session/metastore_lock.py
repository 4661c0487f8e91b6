"""The embedded metastore (Derby) belongs to one process at a time; the others wait, and say for whom.

The lock is the kernel's (`flock`), so that a crash frees it. The file says who holds it. Spark's JVM outlives a killed holder by
a moment, with the metastore still open, so its process id stands there too and the next holder waits for it to go.
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
from collections.abc import Callable
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

_interrupted = threading.Event()


def notice_interrupts() -> None:
    """Python tells Ctrl-C to the main thread, and dbt waits in another one, which the main thread then waits for: tell it too."""
    _interrupted.clear()
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
        """Wait up to ``timeout`` seconds; ``say`` is told whom for. `DbtRuntimeError` naming the holder after that."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = open(self.path, "a+", encoding="utf-8")  # noqa: SIM115 - it stays open while the lock is held
        started, said = time.monotonic(), -SAY_EVERY
        while not self._try(file):
            waited = time.monotonic() - started
            if waited >= timeout:
                file.close()
                raise DbtRuntimeError(
                    f"the embedded metastore {self.path.parent} is in use by {self.holder()}, after {timeout:.0f} s. {ALTERNATIVES}"
                )
            if waited - said >= SAY_EVERY:
                say(f"waiting for the embedded metastore, in use by {self.holder()}")
                said = waited
            if _interrupted.wait(POLL):
                file.close()
                raise DbtRuntimeError(f"interrupted while waiting for the embedded metastore, in use by {self.holder()}")
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
        command = " ".join(os.path.basename(word) if i == 0 else word for i, word in enumerate(sys.argv))
        json.dump({"pid": os.getpid(), "host": socket.gethostname(), "command": command, "jvm": jvm}, self._file)
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


def _is_java(pid: int) -> bool:
    """Is ``pid`` a living Java? Where processes cannot be looked at, any living one may be."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    command = Path(f"/proc/{pid}/cmdline")
    return not command.exists() or b"java" in command.read_bytes()
