"""The embedded Spark session: one a process, with defaults that suit `dbt run` on one machine.

Quiet: whatever Spark's JVM has to say goes to one file, ``.mvsink/spark.log``; dbt's output holds dbt's lines. A session that is
already there (a notebook, a test) is used as it is. ``server_side_parameters`` override every default.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dbt.adapters.events.logging import AdapterLogger

from dbt.adapters.mvsink.credentials import MvsinkCredentials
from dbt.adapters.mvsink.java import check_java
from dbt.adapters.mvsink.metastore_lock import MetastoreLock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = AdapterLogger("mvsink")
SHARED_METASTORE = (
    "spark.hadoop.javax.jdo.option.ConnectionURL",
    "spark.hadoop.hive.metastore.uris",
    "spark.hive.metastore.uris",
)
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

_starting = threading.Lock()
_session: SparkSession | None = None
_lock: MetastoreLock | None = None


def session(credentials: MvsinkCredentials) -> SparkSession:
    """This process's session, started at the first call. `DbtRuntimeError` if Java is missing or the metastore is taken."""
    global _session
    with _starting:
        if _session is None or _stopped(_session):
            _session = _start(credentials)
        return _session


def running() -> SparkSession | None:
    """The session if it was started; never starts one."""
    return _session


def defaults(credentials: MvsinkCredentials) -> dict[str, str]:
    """Spark's settings for an embedded session with nothing else said."""
    home, cores = Path(credentials.home), os.cpu_count() or 2
    settings = {
        "spark.master": "local[*]",
        "spark.app.name": "dbt-mvsink",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": f"{_driver_memory_mb()}m",
        "spark.driver.host": "localhost",
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.sql.catalogImplementation": "hive",
        # A directory of a batch holds exactly its data files.
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "spark.driver.extraJavaOptions": " ".join(
            [
                f"-Dlog4j2.configurationFile=file:{home / 'log4j2.properties'}",
                f"-Dderby.stream.error.file={home / 'derby.log'}",
                "-Dspark.logging.silent=true",
            ]
        ),
    }
    if not any(key in credentials.server_side_parameters for key in SHARED_METASTORE):
        settings["spark.hadoop.javax.jdo.option.ConnectionURL"] = f"jdbc:derby:;databaseName={home / 'metastore'};create=true"
    return settings


def settings(credentials: MvsinkCredentials) -> dict[str, str]:
    """The defaults with the profile's ``server_side_parameters`` over them."""
    return {**defaults(credentials), **credentials.server_side_parameters}


def needs_metastore_lock(chosen: dict[str, str]) -> bool:
    """Does this session open a Derby metastore of its own?"""
    hive = chosen.get("spark.sql.catalogImplementation") == "hive"
    remote = any(chosen.get(key) for key in SHARED_METASTORE[1:])
    return hive and not remote and chosen.get(SHARED_METASTORE[0], "jdbc:derby").startswith("jdbc:derby")


def _start(credentials: MvsinkCredentials) -> SparkSession:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    # PySpark prints every analysis error as JSON to stderr, on top of raising it.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    if SparkContext._active_spark_context is not None:
        found = SparkSession.builder.getOrCreate()
        for key, value in credentials.server_side_parameters.items():
            if found.conf.isModifiable(key):
                found.conf.set(key, value)
        return found
    check_java()
    chosen = settings(credentials)
    home = Path(credentials.home)
    home.mkdir(parents=True, exist_ok=True)
    (home / "log4j2.properties").write_text(
        LOG4J.format(file=home / LOG_FILE, level=os.environ.get("MVSINK_SPARK_LOG_LEVEL", "error").lower())
    )
    _let_go()  # of a session of this process that was stopped
    lock = MetastoreLock(home / "metastore.lock") if needs_metastore_lock(chosen) else None
    if lock is not None:
        lock.acquire(credentials.metastore_timeout, logger.info)
    try:
        builder = SparkSession.builder
        for key, value in chosen.items():
            builder = builder.config(key, value)
        with _stderr_to(home / LOG_FILE):
            started = builder.getOrCreate()
    except BaseException:
        if lock is not None:
            lock.release()
        raise
    if lock is not None:
        lock.note(_jvm_pid())
    global _lock
    _lock = lock
    atexit.register(_stop, started)
    return started


def _let_go() -> None:
    """Release the metastore's lock if this process holds it."""
    global _lock
    if _lock is not None:
        _lock.release()
        _lock = None


def _stop(started: SparkSession) -> None:
    """At exit: the JVM first, then the lock, so that the next process finds the metastore closed."""
    from pyspark import SparkContext

    try:
        started.stop()
        gateway = SparkContext._gateway
        process = getattr(gateway, "proc", None)
        if gateway is not None and process is not None:
            gateway.shutdown()
            process.stdin.close()
            process.wait(timeout=20)
    except Exception as error:  # the process is ending; nothing can be done about it but say so
        logger.debug(f"stopping Spark: {error}")
    finally:
        _let_go()


def _stopped(candidate: SparkSession) -> bool:
    return candidate.sparkContext._jsc is None or candidate.sparkContext._jsc.sc().isStopped()


def _jvm_pid() -> int | None:
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    return None if process is None else int(process.pid)


def _driver_memory_mb() -> int:
    """A quarter of the machine's memory, at least 1 GiB, at most 8."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    except (ValueError, OSError):
        total = 4096
    return max(1024, min(8192, total // 4))


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Processes started in here write their stderr to ``path``: the JVM greets with lines that nobody asked for."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(path, "ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
