"""The embedded metastore (Derby) of this process's Spark, and the lock that goes with it.

The lock is held while the database is open. `release` closes the database between two runs of one
process and frees the lock; `reclaim` takes the lock again, and Spark reopens the database by
itself.
"""

from __future__ import annotations

from dbt.adapters.events.logging import AdapterLogger

from dbt.adapters.mvsink.connection import jvm
from dbt.adapters.mvsink.connection.metastore_lock import MetastoreLock

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
