"""The embedded Spark: one session per process, with defaults that suit `dbt run` on one machine.

Spark's JVM writes to one file, ``.mvsink/spark.log``, so that dbt's output holds dbt's lines only.
A session that exists already (of a notebook, of a test) is used as it is. The profile's
``server_side_parameters`` override every default. On a running session, those that can still be
changed apply while their profile is the one in use (`ProfileSettings`).

A JVM with Spark downloads the packages of `spark.jars.packages` into Ivy's cache as it starts. Ivy
does not lock its cache, and of two processes that fill it at once one or both fail. So one process
of this user downloads at a time (`downloading`).

Spark starts as soon as dbt has read the profile, while dbt loads and parses the project
(`EmbeddedSpark.start_early`). Both take seconds, and neither needs the other.

Spark sends Hadoop's whole configuration with every scan and every listing of files: 1,079 settings.
715 of them are defaults of YARN and MapReduce, which nothing in a local session reads. Without them
(`drop_cluster_defaults`) Spark learns the columns of a Parquet file in 25 ms instead of 42.
"""

from __future__ import annotations

import atexit
import contextvars
import fcntl
import hashlib
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbt.adapters.mvsink.connection import jvm
from dbt.adapters.mvsink.connection.errors import SessionEnded
from dbt.adapters.mvsink.connection.java import (
    COMPILE_LATER,
    ClassArchive,
    JavaCommand,
    archive_for,
    cache_directory,
    check_java,
)
from dbt.adapters.mvsink.connection.job_progress import starting_spark
from dbt.adapters.mvsink.connection.metastore import EmbeddedMetastore, MetastoreLock
from dbt.adapters.mvsink.connection.settings import (
    EXTENSIONS,
    METASTORE_URL,
    PACKAGES,
    defaults,
    missing,
    needs_metastore_lock,
    session_settings,
)
from dbt.adapters.mvsink.credentials import MvsinkCredentials
from dbt.adapters.mvsink.exceptions import WrongProfile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MAX_SESSIONS = 20  # states of the session of which facts are remembered


class EmbeddedSpark:
    """This process's Spark session, started when it is first needed. Every method is thread-safe.

    A process can have only one JVM, so there is one instance: `factory.EMBEDDED`.
    """

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._early = False  # whether `start_early` has begun
        self._session: SparkSession | None = None
        self._metastore = EmbeddedMetastore()
        self._settings = ProfileSettings()
        self._log: Path | None = None
        self._archive: ClassArchive | None = None
        self._java: JavaCommand | None = None
        self.changes = 0  # statements and profiles so far that may have changed the session
        self._facts: dict[bytes, dict[str, Any]] = {}

    def session(self, credentials: MvsinkCredentials) -> SparkSession:
        """The session, started if need be. `DbtRuntimeError` without Java or a free metastore."""
        with self._starting:
            return self._running_or_started(credentials)[0]

    def profile_session(self, credentials: MvsinkCredentials) -> SparkSession:
        """The session with the ``server_side_parameters`` of this profile, and of no other."""
        with self._starting:
            session, is_new = self._running_or_started(credentials)
            parameters = credentials.server_side_parameters
            if is_new:
                self._settings.started_with(session, parameters, defaults(credentials))
            else:
                require_formats(session, credentials)
                self.changes += self._settings.apply(session, parameters)
            return session

    def start_early(self, credentials: MvsinkCredentials) -> None:
        """Start the session in a thread of its own, unless this process has one. A caller that
        needs it waits; nothing else does, not even the end of the process. If it fails, such a
        caller tries again, and gets the error.
        """
        if not self.is_here():
            self._early = True
            run = partial(contextvars.copy_context().run, self._start_quietly, credentials)
            threading.Thread(target=run, name="dbt-mvsink start", daemon=True).start()

    def _start_quietly(self, credentials: MvsinkCredentials) -> None:
        try:
            self.profile_session(credentials)
        except Exception as error:
            log.debug("Spark did not start while dbt parsed: %s", error)

    def facts_of(self, description: str) -> dict[str, Any]:
        """What is known about a session that fits the ``description``, whose text is not kept
        because it may hold secrets.
        """
        if len(self._facts) >= MAX_SESSIONS:
            self._facts.clear()
        return self._facts.setdefault(hashlib.sha256(description.encode()).digest(), {})

    def is_here(self) -> bool:
        """Whether this process has a Spark, or is starting one."""
        return self._session is not None or self._early or _has_spark()

    def running(self) -> SparkSession | None:
        """The session if it was started; never starts one."""
        return self._session

    def ended(self) -> str | None:
        """A sentence for the user if Spark's process has ended, after which nothing works."""
        code = jvm.exit_code()
        if code is None:
            return None
        return f"the embedded Spark has ended (exit code {code}; out of memory?); its last messages are in {self._log}"

    def release_metastore(self) -> bool:
        """Between two runs, let other processes use the embedded metastore. Spark goes on.

        The next connection takes the metastore back, and waits for it if it is in use. Until then
        nothing may use the session. False if there is nothing to release, or if the metastore could
        not be closed.
        """
        with self._starting:
            if self._session is None or self.ended() or jvm.is_stopped(self._session):
                return False
            return self._metastore.release()

    def _running_or_started(self, credentials: MvsinkCredentials) -> tuple[SparkSession, bool]:
        """The session, and whether this call started it."""
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        ended = self.ended()
        if ended is not None:
            raise SessionEnded(ended)
        if self._session is not None and not jvm.is_stopped(self._session):
            self._metastore.reclaim(credentials.metastore_timeout)
            return self._session, False
        # PySpark prints every analysis error as JSON to stderr, on top of raising it.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
        self._settings = ProfileSettings()
        exists = SparkContext._active_spark_context is not None
        self._session = SparkSession.builder.getOrCreate() if exists else self._start(credentials)
        return self._session, not exists

    def _start(self, credentials: MvsinkCredentials) -> SparkSession:
        java, settings, home = check_java(), session_settings(credentials), Path(credentials.home)
        prepare_home(home)
        configure_logging(home)
        lock = MetastoreLock(home / "metastore.lock") if needs_metastore_lock(settings) else None
        self._metastore.acquire(lock, settings.get(METASTORE_URL), credentials.metastore_timeout)
        try:
            with starting_spark(credentials.progress):
                if not jvm.is_launched():
                    archive = archive_for(settings, java) if credentials.class_archive else None
                    with downloading(settings):
                        self._launch(settings, home, archive)
                session = self._start_with(settings)
        except BaseException:
            self._metastore.free()
            raise
        atexit.register(self._stop, session)
        return session

    def _launch(self, settings: Mapping[str, str], home: Path, archive: ClassArchive | None) -> None:
        """Start the JVM, with the archive of classes if that works, else without."""
        log = home / LOG_FILE
        self._log, self._archive = log, archive
        options = archive.options() if archive else []
        try:
            jvm.launch(settings, home, log, [*COMPILE_LATER, *options])
        except Exception:
            if archive is None or not options:
                raise
            jvm.launch(settings, home, log, [])
            archive.give_up()
            return
        if archive is not None and options:
            self._java = jvm.java_command() if archive.is_recording() else None
            if not jvm.uses_archive():
                archive.give_up()

    def _start_with(self, settings: Mapping[str, str]) -> SparkSession:
        from pyspark.sql import SparkSession

        self._metastore.record_jvm()
        builder = SparkSession.builder
        for key, value in settings.items():
            builder = builder.config(key, value)
        with jvm.own_interrupts():
            session = builder.getOrCreate()
        if settings["spark.master"].startswith("local"):
            drop_cluster_defaults(session)
        return session

    def _stop(self, session: SparkSession) -> None:
        """At exit: the JVM, then the lock, so that the next process finds the database closed."""
        jvm.stop(session)
        self._metastore.free()
        if self._archive is not None:
            self._archive.ended(jvm.exit_code(), self._java)


def _has_spark() -> bool:
    """Whether this process has a Spark context, which may be another's; PySpark's import takes
    half a second.
    """
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._active_spark_context is not None


def require_formats(session: SparkSession, credentials: MvsinkCredentials) -> None:
    """`DbtRuntimeError` if a running session was started without a format of this profile."""
    lacking = missing(session.conf.get(EXTENSIONS, "") or "", credentials.formats or ())
    if lacking:
        raise WrongProfile(
            f"profile: formats {', '.join(lacking)}: this process already has a Spark session, which was started without; "
            "a session gets its formats when it starts"
        )


class ProfileSettings:
    """What the profile in use has set, and the session's values before, so that it can be undone.

    Settings that Spark reads only when it starts are left alone.
    """

    def __init__(self) -> None:
        self._current: dict[str, str] = {}
        self._before: dict[str, str | None] = {}

    def started_with(
        self, session: SparkSession, parameters: Mapping[str, str], defaults: Mapping[str, str]
    ) -> None:
        """The session was started with ``parameters``; without them it would have ``defaults``."""
        self._current = dict(parameters)
        self._before = {key: defaults.get(key) for key in parameters if session.conf.isModifiable(key)}

    def apply(self, session: SparkSession, parameters: Mapping[str, str]) -> bool:
        """Set this profile's parameters and undo those of the previous profile. False if these are
        the same.
        """
        if parameters == self._current:
            return False
        for key in [key for key in self._before if key not in parameters]:
            before = self._before.pop(key)
            session.conf.unset(key) if before is None else session.conf.set(key, before)
        for key, value in parameters.items():
            if session.conf.isModifiable(key):
                self._before.setdefault(key, session.conf.get(key, None))
                session.conf.set(key, value)
        self._current = dict(parameters)
        return True


# in this order: values of the former name settings of the latter
CLUSTERS = ("mapreduce.", "yarn.")
DEFAULTS = ("core-default.xml", "mapred-default.xml", "yarn-default.xml")


def drop_cluster_defaults(started: SparkSession) -> None:
    """Remove the settings for clusters that have Hadoop's default value; others stay.

    If Hadoop loads its files again, the defaults come back, and nothing else has changed.
    """
    context: Any = started.sparkContext
    java = context._jvm
    # The session's catalog and the first job would load them, and whatever loads one of Hadoop's
    # files brings all defaults back: load them now, so that they are not added afterwards.
    session: Any = started
    session._jsparkSession.sessionState()
    java.org.apache.hadoop.mapreduce.util.ConfigUtil.loadResources()
    shipped = java.org.apache.hadoop.conf.Configuration(False)
    for file in DEFAULTS:
        shipped.addResource(file)
    configuration = context._jsc.hadoopConfiguration()
    for prefix in CLUSTERS:
        same = configuration.getPropsWithPrefix(prefix)
        same.entrySet().retainAll(shipped.getPropsWithPrefix(prefix).entrySet())
        names = java.java.lang.String.join(",", same.keySet())  # one call to the JVM, not one per name
        for name in filter(None, names.split(",")):
            configuration.unset(prefix + name)


log = logging.getLogger("mvsink.connection")


@contextmanager
def downloading(settings: Mapping[str, str]) -> Iterator[None]:
    """A context in which a JVM with these settings starts. It waits for no other process if there
    are no packages, or if no lock is possible (in a read-only home, which Ivy could not use
    either).
    """
    with ExitStack() as stack:
        if settings.get(PACKAGES):
            try:
                path = cache_directory().parent / "jars.lock"
                path.parent.mkdir(parents=True, exist_ok=True)
                fcntl.flock(stack.enter_context(open(path, "a")), fcntl.LOCK_EX)
            except (OSError, RuntimeError) as error:  # no home directory
                log.debug("jars are downloaded without a lock: %s", error)
        yield


LOG_FILE = "spark.log"
LOG4J = """status = off
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""


def prepare_home(home: Path) -> None:
    """Create the directory, ignored by git: shards, the metastore and logs are not source code."""
    home.mkdir(parents=True, exist_ok=True)
    ignored = home / ".gitignore"
    if not ignored.exists():
        ignored.write_text("# made by dbt-mvsink\n*\n")


def configure_logging(home: Path) -> None:
    """Write Spark's logging configuration: to `LOG_FILE`, by default errors only."""
    level = os.environ.get("MVSINK_SPARK_LOG_LEVEL", "error").lower()
    (home / "log4j2.properties").write_text(LOG4J.format(file=home / LOG_FILE, level=level))
