"""The embedded Spark session: one a process, with defaults that suit `dbt run` on one machine.

Quiet: whatever Spark's JVM has to say goes to one file, ``.mvsink/spark.log``; dbt's output holds
dbt's lines. A session that is already there (a notebook, a test) is used as it is.
``server_side_parameters`` override every default; on a session that runs, those that can still be
changed hold as long as their profile is the one in use.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.connection.formats import EXTENSIONS, missing, with_formats
from dbt.adapters.mvsink.connection.hadoop import drop_cluster_defaults
from dbt.adapters.mvsink.connection.java import check_java
from dbt.adapters.mvsink.connection.metastore_lock import MetastoreLock
from dbt.adapters.mvsink.connection.progress import starting_spark
from dbt.adapters.mvsink.credentials import SHARED_METASTORE, MvsinkCredentials

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

logger = AdapterLogger("mvsink")
LOG_FILE = "spark.log"
STOP_WITHIN = 20  # seconds
DERBY_CLOSED = ("08006", "XJ004")  # SQL states: closed just now; it was not open
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
# the embedded metastore (JDBC) that Spark's process has closed for now, while its lock is free
_let_go_of: str | None = None
_metastore: str | None = None  # the one that this process has
_log: Path | None = None
_parameters: dict[str, str] = {}  # of the profile in use
_before: dict[str, str | None] = {}  # what the session said before that, of what can be changed


def session(credentials: MvsinkCredentials) -> SparkSession:
    """This process's session, started at the first call. `DbtRuntimeError` if Java is missing or
    the metastore is taken.
    """
    with _starting:
        return _running_or_started(credentials)[0]


def profile_session(credentials: MvsinkCredentials) -> SparkSession:
    """The same for one profile of possibly several in this process: its ``server_side_parameters``
    hold, and no other's.
    """
    with _starting:
        found, started = _running_or_started(credentials)
        if started:
            _remember(found, credentials)
        else:
            _require_formats(found, credentials)
            _use(found, credentials.server_side_parameters)
        return found


def let_go_of_metastore() -> bool:
    """Between runs of one process: close the embedded metastore and free its lock, so that another
    process can have it. Spark goes on.

    The next connection takes it back, and waits for it like any other. False if there is nothing to
    let go of, or if it did not close. Nothing may use the session in between but through a
    connection.
    """
    global _let_go_of
    with _starting:
        if (
            _session is None
            or _lock is None
            or _metastore is None
            or _let_go_of
            or ended()
            or _stopped(_session)
        ):
            return False
        if not _closed(_metastore):
            return False
        _let_go_of = _metastore
        _lock.release()
        return True


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
        # Sums by up to 2^20 buckets stay in the generated code's own map, which ends at 2^16 keys
        # by default.
        "spark.sql.codegen.aggregate.fastHashMap.capacityBit": "20",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.sql.catalogImplementation": "hive",
        # A directory of a batch holds exactly its data files.
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "spark.driver.extraJavaOptions": " ".join(
            [  # quoted: a project's directory may have a space in its name
                f'"-Dlog4j2.configurationFile={(home / "log4j2.properties").as_uri()}"',
                f'"-Dderby.stream.error.file={home / "derby.log"}"',
                "-Dspark.logging.silent=true",
            ]
        ),
    }
    if not any(key in credentials.server_side_parameters for key in SHARED_METASTORE):
        settings["spark.hadoop.javax.jdo.option.ConnectionURL"] = (
            f"jdbc:derby:;databaseName={home / 'metastore'};create=true"
        )
    return settings


def settings(credentials: MvsinkCredentials) -> dict[str, str]:
    """The defaults with what the profile's ``formats`` need, and its ``server_side_parameters``
    over them.
    """
    import pyspark

    given, formats = credentials.server_side_parameters, credentials.formats or ()
    return with_formats(defaults(credentials), given, formats, pyspark.__version__, credentials.home)


def needs_metastore_lock(chosen: dict[str, str]) -> bool:
    """Does this session open a Derby metastore of its own?"""
    hive = chosen.get("spark.sql.catalogImplementation") == "hive"
    remote = any(chosen.get(key) for key in SHARED_METASTORE[1:])
    return hive and not remote and chosen.get(SHARED_METASTORE[0], "jdbc:derby").startswith("jdbc:derby")


def ended() -> str | None:
    """A sentence for when Spark's process is no more (killed, out of memory): nothing works after
    that.
    """
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None or process.poll() is None:
        return None
    return f"the embedded Spark has ended (exit code {process.returncode}; out of memory?); what it said is in {_log}"


def _running_or_started(credentials: MvsinkCredentials) -> tuple[SparkSession, bool]:
    """The session, and whether it was started just now."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    global _session, _parameters, _before
    gone = ended()
    if gone is not None:
        raise DbtRuntimeError(gone)
    if _session is not None and not _stopped(_session):
        _take_back(credentials.metastore_timeout)
        return _session, False
    # PySpark prints every analysis error as JSON to stderr, on top of raising it.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    _parameters, _before = {}, {}
    found = SparkContext._active_spark_context is not None
    _session = SparkSession.builder.getOrCreate() if found else _start(credentials)
    return _session, not found


def _start(credentials: MvsinkCredentials) -> SparkSession:
    check_java()
    chosen = settings(credentials)
    home = Path(credentials.home)
    prepare(home)
    (home / "log4j2.properties").write_text(
        LOG4J.format(file=home / LOG_FILE, level=os.environ.get("MVSINK_SPARK_LOG_LEVEL", "error").lower())
    )
    global _metastore
    _metastore = chosen.get(SHARED_METASTORE[0])
    _hold(
        MetastoreLock(home / "metastore.lock") if needs_metastore_lock(chosen) else None,
        credentials.metastore_timeout,
    )
    try:
        with starting_spark(credentials.progress):
            started = _start_with(chosen, home)
    except BaseException:
        _let_go()
        raise
    atexit.register(_stop, started)
    return started


def _start_with(chosen: dict[str, str], home: Path) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._gateway is None:
        _launch(SparkConf(loadDefaults=False).setAll(list(chosen.items())), home / LOG_FILE)
    if _lock is not None:
        _lock.note(_jvm_pid())
    builder = SparkSession.builder
    for key, value in chosen.items():
        builder = builder.config(key, value)
    with _own_interrupts():
        started = builder.getOrCreate()
    if chosen["spark.master"].startswith("local"):
        drop_cluster_defaults(started)
    return started


def prepare(home: Path) -> None:
    """Make the directory; nothing in it is for a repository: shards, the metastore, logs."""
    home.mkdir(parents=True, exist_ok=True)
    ignored = home / ".gitignore"
    if not ignored.exists():
        ignored.write_text("# made by dbt-mvsink\n*\n")


def _launch(conf: SparkConf, log: Path) -> None:
    """Start the JVM. What it says, from its greeting on, is nobody's output: it goes to the log."""
    from pyspark import SparkContext, java_gateway

    global _log
    _log = log
    with open(log, "ab") as file:
        launch: Any = java_gateway.launch_gateway
        SparkContext._ensure_initialized(gateway=launch(conf, {"stdout": file, "stderr": file}))


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """PySpark answers Ctrl-C by calling the JVM from the middle of another call, which ends in
    neither; ours stays.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _hold(lock: MetastoreLock | None, timeout: float) -> None:
    """Take the metastore's lock. A session started again keeps the one it has: its JVM still has
    the metastore open.
    """
    global _lock
    if _lock is not None and lock is not None and lock.path == _lock.path:
        _take_back(timeout)
        return
    _let_go()
    if lock is not None:
        lock.acquire(timeout, logger.info)
    _lock = lock


def _let_go() -> None:
    """Release the metastore's lock if this process holds it."""
    global _lock
    if _lock is not None:
        _lock.release()
        _lock = None


def _take_back(timeout: float) -> None:
    """The lock of a metastore that was let go of; Spark opens it again by itself."""
    global _let_go_of
    if _let_go_of is not None and _lock is not None:
        _lock.acquire(timeout, logger.info)
        _lock.note(_jvm_pid())
        _let_go_of = None


def _closed(metastore: str) -> bool:
    """Have Derby close the database. It says that it did by an exception."""
    from pyspark import SparkContext

    assert SparkContext._gateway is not None
    try:
        SparkContext._gateway.jvm.java.sql.DriverManager.getConnection(_shutdown(metastore))
    except Exception as error:
        java = getattr(error, "java_exception", None)
        if java is not None and str(java.getSQLState()) in DERBY_CLOSED:
            return True
        logger.debug(f"the metastore stays open: {error}")
    return False


def _shutdown(metastore: str) -> str:
    """
    >>> _shutdown("jdbc:derby:;databaseName=/a b/metastore;create=true")
    'jdbc:derby:;databaseName=/a b/metastore;shutdown=true'
    """
    kept = [part for part in metastore.split(";") if not part.startswith("create=")]
    return ";".join([*kept, "shutdown=true"])


def _remember(started: SparkSession, credentials: MvsinkCredentials) -> None:
    """The session was started with this profile's parameters: without them it would have had our
    defaults.
    """
    global _parameters, _before
    ours = defaults(credentials)
    _parameters = dict(credentials.server_side_parameters)
    _before = {key: ours.get(key) for key in _parameters if started.conf.isModifiable(key)}


def _require_formats(found: SparkSession, credentials: MvsinkCredentials) -> None:
    lacking = missing(found.conf.get(EXTENSIONS, "") or "", credentials.formats or ())
    if lacking:
        raise DbtRuntimeError(
            f"profile: formats {', '.join(lacking)}: this process has a Spark session already, which was started without; "
            "a session gets its formats when it starts"
        )


def _use(found: SparkSession, parameters: Mapping[str, str]) -> None:
    """Set what this profile says, and undo what another one said."""
    global _parameters
    if parameters == _parameters:
        return
    for key in [key for key in _before if key not in parameters]:
        before = _before.pop(key)
        found.conf.unset(key) if before is None else found.conf.set(key, before)
    for key, value in parameters.items():
        if found.conf.isModifiable(key):
            _before.setdefault(key, found.conf.get(key, None))
            found.conf.set(key, value)
    _parameters = dict(parameters)


def _stop(started: SparkSession) -> None:
    """At exit: the JVM first, then the lock, so that the next process finds the metastore closed."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    try:
        started.stop()
        if SparkContext._gateway is not None and process is not None:
            SparkContext._gateway.shutdown()
    except Exception as error:  # the process is ending; nothing can be done about it but say so
        logger.debug(f"stopping Spark: {error}")
    if process is not None:
        process.stdin.close()  # which ends it
        try:
            process.wait(timeout=STOP_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
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
