"""The embedded Spark: one session per process, with defaults that suit `dbt run` on one machine.

Spark's JVM writes to one file, ``.mvsink/spark.log``, so that dbt's output holds dbt's lines only.
A session that exists already (of a notebook, of a test) is used as it is. The profile's
``server_side_parameters`` override every default. On a running session, those that can still be
changed apply while their profile is the one in use.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.connection import jvm
from dbt.adapters.mvsink.connection.class_archive import ClassArchive, JavaCommand, archive_for
from dbt.adapters.mvsink.connection.formats import EXTENSIONS, missing
from dbt.adapters.mvsink.connection.hadoop import drop_cluster_defaults
from dbt.adapters.mvsink.connection.home import LOG_FILE, configure_logging, prepare
from dbt.adapters.mvsink.connection.jars import downloading
from dbt.adapters.mvsink.connection.java import check_java
from dbt.adapters.mvsink.connection.job_progress import starting_spark
from dbt.adapters.mvsink.connection.metastore import EmbeddedMetastore
from dbt.adapters.mvsink.connection.metastore_lock import MetastoreLock
from dbt.adapters.mvsink.connection.profile_settings import ProfileSettings
from dbt.adapters.mvsink.connection.settings import (
    METASTORE_URL,
    defaults,
    needs_metastore_lock,
    session_settings,
)
from dbt.adapters.mvsink.credentials import MvsinkCredentials

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_SESSIONS = 20  # states of the session of which facts are remembered


class EmbeddedSpark:
    """This process's Spark session, started when it is first needed. Every method is thread-safe.

    A process can have only one JVM, so there is one instance: `factory.EMBEDDED`.
    """

    def __init__(self) -> None:
        self._starting = threading.Lock()
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

    def facts_of(self, description: str) -> dict[str, Any]:
        """What is known of a session that fits the ``description``, whose text is not kept: it may
        hold secrets.
        """
        if len(self._facts) >= MAX_SESSIONS:
            self._facts.clear()
        return self._facts.setdefault(hashlib.sha256(description.encode()).digest(), {})

    def running(self) -> SparkSession | None:
        """The session if it was started; never starts one."""
        return self._session

    def ended(self) -> str | None:
        """A sentence for the user if Spark's process has ended: nothing works after that."""
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
            raise DbtRuntimeError(ended)
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
        prepare(home)
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
            jvm.launch(settings, home, log, options)
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


def require_formats(session: SparkSession, credentials: MvsinkCredentials) -> None:
    """`DbtRuntimeError` if a running session was started without a format of this profile."""
    lacking = missing(session.conf.get(EXTENSIONS, "") or "", credentials.formats or ())
    if lacking:
        raise DbtRuntimeError(
            f"profile: formats {', '.join(lacking)}: this process already has a Spark session, which was started without; "
            "a session gets its formats when it starts"
        )
