"""dbt's connection to the embedded Spark. Exceptions pass through; closing never hides one."""

from __future__ import annotations

import datetime as dt
import decimal
import os
import re
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from dbt.adapters.exceptions.connection import FailedToConnectError
from dbt.adapters.spark.connections import SparkConnectionWrapper
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.connection.embedded import EmbeddedSpark
from dbt.adapters.mvsink.connection.error_text import error_text
from dbt.adapters.mvsink.connection.home import LOG_FILE
from dbt.adapters.mvsink.connection.progress import StatementProgress
from dbt.adapters.mvsink.credentials import MvsinkCredentials

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

DESCRIPTION = "spark.job.description"
CANCEL_EVERY, CANCEL_FOR = 0.2, 60.0  # seconds
# after one comment, as dbt puts before a statement
_FIRST_WORD = re.compile(r"\s*(?:/\*(?:(?!/\*).)*?\*/\s*)?(\w+)", re.DOTALL)
_HARMLESS = {  # first words of statements after which the session is as before
    *("alter", "analyze", "comment", "create", "delete", "desc", "describe", "drop", "explain", "insert"),
    *("merge", "refresh", "select", "show", "truncate", "update", "with"),
}


def open_session(spark: EmbeddedSpark, credentials: MvsinkCredentials) -> SessionConnection:
    """A connection to the embedded Spark, which is started if need be. `FailedToConnectError` with
    the place of Spark's log if it does not start.
    """
    try:
        return SessionConnection(spark, credentials)
    except DbtRuntimeError:
        raise
    except Exception as error:
        log = os.path.join(credentials.home, LOG_FILE)
        raise FailedToConnectError(
            f"Spark did not start: {error_text(error)}\n  Spark's log: {log}"
        ) from error


class SessionConnection(SparkConnectionWrapper):
    """One dbt connection: a tag for its Spark jobs, and the rows of its last statement.

    Only one thread uses it; `cancel` may be called from any thread.
    """

    def __init__(self, spark: EmbeddedSpark, credentials: MvsinkCredentials):
        self._spark = spark
        self.session: SparkSession = spark.profile_session(credentials)
        self.tag = f"dbt-mvsink-{uuid.uuid4().hex}"
        self._progress = StatementProgress(self.session, self.tag, credentials.progress)
        self._frame: DataFrame | None = None
        self._rows: Iterator[Any] | None = None
        self._next_job: str | None = None
        self._job: str | None = None
        self._busy = threading.Event()
        self._cancelled = threading.Event()

    def cursor(self) -> SessionConnection:
        """Itself, empty."""
        self._job, self._next_job = self._next_job, None
        self._frame, self._rows = None, None
        return self

    def execute(self, sql: str, bindings: Sequence[Any] | None = None) -> None:
        """Run a statement. A query is only analyzed; fetching runs it."""
        statement = sql.strip().removesuffix(";")
        if bindings:
            statement = statement % tuple(_literal(binding) for binding in bindings)
        self._frame, self._rows = None, None
        self._spark.changes += may_change_session(statement)
        with self._statement():
            self._frame = self.session.sql(statement)

    @property
    def session_changes(self) -> int:
        """Another number once a statement may have changed the session, on any connection."""
        return self._spark.changes

    def fetchall(self) -> list[Any]:
        """The rows of the last statement that were not fetched yet."""
        if self._frame is None:
            return []
        with self._statement():
            if self._rows is not None:
                return list(self._rows)
            self._rows = iter(())
            return self._frame.collect()

    def fetch_arrow(self) -> pa.Table:
        """All rows of the last statement, as Arrow."""
        if self._frame is None:
            raise DbtRuntimeError("no statement has run")
        with self._statement():
            self._rows = iter(())
            return self._frame.toArrow()

    def fetchone(self) -> Any:
        """The next row, or None."""
        return next(iter(self.fetchmany(1)), None)

    def fetchmany(self, size: int) -> list[Any]:
        """The next ``size`` rows; Spark computes no more partitions than they need."""
        if self._frame is None:
            return []
        with self._statement():
            if self._rows is None:
                self._rows = self._frame.toLocalIterator()
            return list(islice(self._rows, size))

    def analyzed_plan(self) -> str:
        """The analyzed plan of the last statement, a query, as EXPLAIN EXTENDED prints it."""
        if self._frame is None:
            raise DbtRuntimeError("no statement has run")
        return str(self._frame._jdf.queryExecution().analyzed().toString())

    @property
    def description(self) -> Sequence[tuple[str, Any, int | None, int | None, int | None, int | None, bool]]:
        """Name and type text of each column."""
        if self._frame is None:
            return []
        fields = self._frame.schema.fields
        return [
            (field.name, field.dataType.simpleString(), None, None, None, None, field.nullable)
            for field in fields
        ]

    def describe_job(self, text: str) -> None:
        """What the next cursor's Spark jobs are called."""
        self._next_job = text

    def cancel(self) -> None:
        """Stop the running statement, from any thread; later statements are refused."""
        self._cancelled.set()
        threading.Thread(target=self._cancel_jobs, name=f"cancel {self.tag}", daemon=True).start()

    def _cancel_jobs(self) -> None:
        """Cancel until the statement ends: Spark cancels only those jobs that have begun."""
        session, deadline = self._spark.running(), time.monotonic() + CANCEL_FOR
        while session is not None and self._busy.is_set() and time.monotonic() < deadline:
            try:
                session.sparkContext.cancelJobsWithTag(self.tag)
            except Exception:  # the session has been stopped, and its jobs with it
                return
            time.sleep(CANCEL_EVERY)

    def close(self) -> None:
        self._frame, self._rows = None, None

    def rollback(self, *_: Any, **__: Any) -> None:
        """Spark has no transactions."""

    @contextmanager
    def _statement(self) -> Iterator[None]:
        """Jobs started inside have this connection's tag and description; later ones do not."""
        context = self.session.sparkContext
        context.addJobTag(self.tag)
        if self._job is not None:
            context.setLocalProperty(DESCRIPTION, self._job)
        self._busy.set()
        try:
            if self._cancelled.is_set():  # checked after _busy is set, so that no cancel is lost
                raise DbtRuntimeError("cancelled")
            with self._progress.statement():
                yield
        except KeyboardInterrupt:
            # This thread's channel to the JVM still waits for an answer, so that another thread
            # has to cancel, and the tag stays.
            self.cancel()
            raise
        except Exception as error:
            with suppress(Exception):
                self._leave()
            ended = self._spark.ended()
            if ended is not None:
                raise DbtRuntimeError(ended) from error
            raise
        self._leave()

    def _leave(self) -> None:
        self._busy.clear()
        context = self.session.sparkContext
        context.removeJobTag(self.tag)
        if self._job is not None:
            context.setLocalProperty(DESCRIPTION, None)  # type: ignore[arg-type]


def may_change_session(statement: str) -> bool:
    """Whether it may change the session's settings, catalog or schema.

    >>> texts = ("SELECT 1", "set a.b", "set a=1", "use s")
    >>> [may_change_session(f"/* dbt */ {text}") for text in texts]
    [False, False, True, True]
    """
    word = _FIRST_WORD.match(statement)
    if word is None:
        return True
    shows_settings = word[1].lower() == "set" and len(statement[word.end() :].replace("=", " = ").split()) < 2
    return word[1].lower() not in _HARMLESS and not shows_settings


def _literal(value: Any) -> str:
    """A SQL literal of the value's own type, with every digit of numbers and every microsecond."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, decimal.Decimal)):
        return f"{value:f}" if isinstance(value, decimal.Decimal) else str(value)
    if isinstance(value, float):
        return f"cast('{value!r}' as double)"
    if isinstance(value, dt.datetime):
        return f"timestamp '{value.isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"date '{value.isoformat()}'"
    escaped = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
