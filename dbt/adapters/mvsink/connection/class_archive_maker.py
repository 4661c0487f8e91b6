"""Makes an archive of Java's classes, in a process of its own that no run waits for.

It is run by its path and imports only the standard library, so that it costs nothing besides Java's
work. Two makers at once make one archive. The archive appears under its name when it is complete. A
later maker deletes what a killed one leaves behind.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

NEEDED = 2**30  # free bytes; an archive has 200 MB
UNUSED = 30 * 24 * 3600.0  # seconds after which an archive is deleted
KEPT = 4  # archives
LEFTOVER = 24 * 3600.0  # seconds after which unfinished files are deleted
TIMEOUT = 1800.0  # seconds


def make(java: str, options: Sequence[str], classes: str, archive: str, now: float) -> None:
    """Archive the classes that are listed in the file ``classes``, which is deleted.

    ``options`` are the class path and the modules of the JVM that listed them. ``now`` is in
    seconds since the epoch. The archive is left empty if Java refuses: no session has to try again.
    """
    target = Path(archive)
    made = target.with_suffix(f".{os.getpid()}.making")
    with open(target.parent / "lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            clean(target.parent, now)
            if target.exists() or not _has_space(target):
                return
            dump = ["-Xshare:dump", "-Xlog:disable", f"-XX:SharedClassListFile={classes}"]
            code = _run(java, *dump, f"-XX:SharedArchiveFile={made}", *options)
            check = ["-Xshare:on", f"-XX:SharedArchiveFile={made}"]
            code = code or _run(java, *check, *options, "-version")
            if code == 0:
                made.replace(target)
            elif code > 0 and _has_space(target):  # otherwise it was killed, or had no space
                target.touch()
        except (OSError, subprocess.TimeoutExpired):
            return  # another maker has the lock, or the disk is at fault
        finally:
            made.unlink(missing_ok=True)
            Path(classes).unlink(missing_ok=True)


def _has_space(target: Path) -> bool:
    return shutil.disk_usage(target.parent).free >= NEEDED


def _run(java: str, *arguments: str) -> int:
    """Java's exit code; this process has no output."""
    return subprocess.run([java, *arguments], timeout=TIMEOUT, check=False).returncode


def clean(directory: Path, now: float) -> None:
    """Delete archives that are no longer used, and what killed processes have left behind."""
    ages = {}
    for file in directory.iterdir():
        with suppress(FileNotFoundError):  # of a maker that has just ended
            ages[file] = now - file.stat().st_mtime
    archives = sorted((file for file in ages if file.suffix == ".jsa"), key=ages.__getitem__)
    unused = [file for file in archives if ages[file] > UNUSED or file in archives[KEPT:]]
    left = [file for file in ages if file.suffix in (".classes", ".making") and ages[file] > LEFTOVER]
    for file in (*unused, *left):
        file.unlink(missing_ok=True)


def main(task: dict[str, Any]) -> None:
    """Run `make` at the lowest priority."""
    os.nice(19)
    for variable in ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"):
        os.environ.pop(variable, None)
    make(**task)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
