"""The Java that the embedded Spark needs, checked beforehand because Spark itself would answer with
a page of errors; and archives of Java's classes (class-data sharing), with which Spark starts
faster.

A JVM with Spark spends half of its first ten seconds reading and verifying classes. A session that
finds no archive records the names of the classes that it loads. When it has ended, a process of low
priority (`class_archive_maker`) makes an archive of them. Later sessions map that into memory.

An archive fits one combination of Java, PySpark and jars, which is its key. Archives are best
effort: a failure is a debug message, and Spark starts without an archive. An archive that Java
cannot use is emptied, which keeps later sessions from trying again; the maker deletes what has not
been used for a month.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.connection import class_archive_maker
from dbt.adapters.mvsink.connection.class_archive_maker import UNUSED
from dbt.adapters.mvsink.connection.errors import NoJava

OPTION_VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
OPTION_SETTINGS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
# options of users who arrange archives themselves
ARRANGED = re.compile(r"-Xshare|SharedArchiveFile|ArchiveClassesAtExit|LoadedClassList|AOT(Cache|Mode)")
JARS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
# Java does without an archive that does not fit or whose checksums are wrong, and says nothing.
QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
CHECKED = (*QUIET, "-XX:+UnlockDiagnosticVMOptions", "-XX:+VerifySharedSpaces")
# Java's second compiler takes a third of the CPU of a cold run, for methods that run some thousand
# times. What runs for each of many rows is still compiled by it, within a fraction of a second.
COMPILE_LATER = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
LIST_COMPLETE = 0  # the JVM's exit code if it ended by itself
CRASHES = {-signal.SIGABRT, -signal.SIGBUS, -signal.SIGILL, -signal.SIGSEGV}
log = logging.getLogger("mvsink.connection")


@dataclass(frozen=True)
class JavaCommand:
    """The program of a running JVM, and its options that an archive depends on."""

    program: str
    options: tuple[str, ...]


class ClassArchive:
    """The archive for one JVM, which uses it or records classes for it."""

    def __init__(self, path: Path):
        self.path = path
        self._recorded = path.with_suffix(f".{os.getpid()}.classes")

    def options(self) -> list[str]:
        """Java's options to use the archive, or to record for it; none if neither is possible."""
        try:
            if self._size():
                with suppress(OSError):
                    os.utime(self.path)  # it was used
                return [*CHECKED, f"-XX:SharedArchiveFile={self.path}"]
            if self._size() is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._recorded.touch()
                return [f"-XX:DumpLoadedClassList={self._recorded}"]
        except OSError as error:
            log.debug("no archive of Java's classes: %s", error)
        return []

    def _size(self) -> int | None:
        """The archive's size; None if there is no archive, or an empty one that is old enough to
        forget.
        """
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        return status.st_size or (0 if wall_clock.now_ms() / 1000 - status.st_mtime < UNUSED else None)

    def is_recording(self) -> bool:
        """Whether `options` were to record."""
        return self._recorded.exists()

    def give_up(self) -> None:
        """Java failed with `options`, or ran without them: leave an empty archive."""
        try:
            self._recorded.unlink(missing_ok=True)
            self.path.unlink(missing_ok=True)  # not truncated: other processes may have mapped it
            self.path.touch()
            log.debug("no archive of Java's classes: Java failed with %s", self.path)
        except OSError as error:
            log.debug("Java failed with %s, and it stays: %s", self.path, error)

    def ended(self, exit_code: int | None, command: JavaCommand | None) -> subprocess.Popen[bytes] | None:
        """The JVM has ended: start the maker if it has recorded, and do not wait for it."""
        if exit_code in CRASHES:
            self.give_up()
        try:
            if not self.is_recording():
                return None
            if exit_code == LIST_COMPLETE and command is not None:
                return self._start_maker(command)
            self._recorded.unlink()
        except OSError as error:
            log.debug("no archive of Java's classes: %s", error)
        return None

    def _start_maker(self, command: JavaCommand) -> subprocess.Popen[bytes]:
        task = {
            "java": command.program,
            "options": command.options,
            "classes": str(self._recorded),
            "archive": str(self.path),
            "now": wall_clock.now_ms() / 1000,
        }
        return subprocess.Popen(
            [sys.executable, "-IS", class_archive_maker.__file__, json.dumps(task)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.path.parent,
            start_new_session=True,  # neither Ctrl-C nor the terminal's end concerns it
        )


def archive_for(settings: Mapping[str, str], java: Java) -> ClassArchive | None:
    """The archive for a session with these settings; None if there can be none."""
    own = [os.environ.get(name, "") for name in OPTION_VARIABLES]
    own += [settings.get(name, "") for name in OPTION_SETTINGS]
    if any(ARRANGED.search(options) for options in own) or "sharing" not in java.text:
        return None
    try:
        path = cache_directory() / f"{key_of(settings, java)}.jsa"
    except (OSError, RuntimeError) as error:  # no jars, no home directory
        log.debug("no archive of Java's classes: %s", error)
        return None
    return None if re.search(r'[":%\\]', str(path)) else ClassArchive(path)  # which Java takes apart


def cache_directory() -> Path:
    """The platform's directory for files that can be made again."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        base = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return base / "dbt-mvsink" / "java-classes"


def key_of(settings: Mapping[str, str], java: Java) -> str:
    """Changes with Java (whose text shows its options), with PySpark, and with the jars."""
    import pyspark

    spark = Path(os.environ.get("SPARK_HOME") or os.path.dirname(pyspark.__file__))
    jars = [(jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in (spark / "jars").iterdir()]
    parts = [
        (os.path.realpath(java.path), java.text),
        (pyspark.__version__, str(spark), sorted(jars)),
        [settings.get(name) for name in JARS],
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


MIN_JAVA = 17
INSTALL = f"install Java {MIN_JAVA} or newer (for example `apt-get install openjdk-{MIN_JAVA}-jre-headless`) and set JAVA_HOME to its directory; without JAVA_HOME, the `java` on PATH is used"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@dataclass(frozen=True)
class Java:
    """``path``: the program. ``version``: the major one. ``text``: what `java -version` prints."""

    path: str
    version: int
    text: str


def check_java() -> Java:
    """Spark's Java; one clear sentence as `DbtRuntimeError` if it is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.path.exists(java):
        where = f"JAVA_HOME={home} has no bin/java" if home else "no `java` on PATH"
        raise NoJava(f"Spark needs Java, and none was found ({where}): {INSTALL}")
    try:
        result = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise NoJava(f"{java} does not run ({error.strerror}): {INSTALL}") from error
    text = result.stderr + result.stdout
    match = _VERSION.search(text)
    if match is None:
        raise NoJava(f"{java} does not report its version ({result.stderr.strip()[:200]}): {INSTALL}")
    version = int(match[1])
    if version < MIN_JAVA:
        raise NoJava(f"Spark needs Java {MIN_JAVA} or newer, {java} is Java {version}: {INSTALL}")
    return Java(java, version, text)
