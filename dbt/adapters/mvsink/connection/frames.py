"""dbt's connection to a PySpark session of any kind: statements in, rows out.

A subclass says how the jobs of a statement are tagged and cancelled, how their progress reads, and
how rows are fetched. Exceptions pass through; closing never hides one.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
import threading
import time
import uuid
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from dbt.adapters.spark.connections import SparkConnectionWrapper

from dbt.adapters.mvsink.connection.errors import Interrupted, MisusedConnection, SessionEnded
from dbt.adapters.mvsink.connection.job_progress import StatementProgress
from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.masking import masked

if TYPE_CHECKING:
    import pyarrow as pa


CANCEL_EVERY, CANCEL_FOR = 0.2, 60.0  # seconds
# after one comment, as dbt puts before a statement
_FIRST_WORD = re.compile(r"\s*(?:/\*(?:(?!/\*).)*?\*/\s*)?(\w+)", re.DOTALL)
_HARMLESS = {  # first words of statements after which the session is as before
    *("alter", "analyze", "comment", "create", "delete", "desc", "describe", "drop", "explain", "insert"),
    *("merge", "refresh", "select", "show", "truncate", "update", "with"),
}
_LISTINGS = {"desc", "describe", "explain", "set", "show"}  # Spark has their rows at once


class FrameConnection(SparkConnectionWrapper):
    """One dbt connection: a tag for its Spark jobs, and the data frame of its last statement.

    Only one thread uses it; `cancel` may be called from any thread. ``session`` is PySpark's,
    embedded or remote; this class only uses what both have. ``progress`` says whether slow
    statements are reported.
    """

    def __init__(self, session: Any, progress: bool):
        self.session = session
        self.tag = f"dbt-mvsink-{uuid.uuid4().hex}"
        self._progress = StatementProgress(self._details, progress)
        self._frame: Any = None
        self._next_job: str | None = None
        self._job: str | None = None
        self._listed = False
        self._busy = threading.Event()
        self._cancelled = threading.Event()

    @property
    @abstractmethod
    def identity(self) -> object:
        """Identifies the Spark that runs the statements."""

    @property
    @abstractmethod
    def session_changes(self) -> object:
        """A value that differs once a statement may have changed the session."""

    @abstractmethod
    def _session_changed(self) -> None:
        """Note that a statement may have changed the session."""

    @abstractmethod
    def _enter(self) -> None:
        """Give jobs that start from now on this connection's tag."""

    @abstractmethod
    def _leave(self) -> None:
        """Later jobs no longer get the tag."""

    @abstractmethod
    def _cancel_jobs(self) -> None:
        """Cancel the jobs that have begun, from any thread. Any error means that there are none
        left.
        """

    @abstractmethod
    def _details(self, since: float) -> str:
        """The progress of jobs since then (seconds since the epoch); empty while none runs."""

    @abstractmethod
    def _ended(self, error: Exception) -> str | None:
        """A sentence for the user if the session has ended: nothing works after that."""

    def _sent(self, statement: str) -> Any:
        """The data frame of a statement, which has run if it is a command."""
        return self.session.sql(statement)

    @abstractmethod
    def fetchall(self) -> list[Any]:
        """The rows of the last statement that were not fetched yet."""

    @abstractmethod
    def fetchmany(self, size: int) -> list[Any]:
        """The next ``size`` rows."""

    def fetchone(self) -> Any:
        """The next row, or None."""
        return next(iter(self.fetchmany(1)), None)

    def cursor(self) -> FrameConnection:
        """Itself, empty."""
        self._job, self._next_job = self._next_job, None
        self._forget()
        return self

    def execute(self, sql: str, bindings: Sequence[Any] | None = None) -> None:
        """Run a statement. A query is only analyzed; fetching runs it."""
        statement = sql.strip().removesuffix(";")
        if bindings:
            statement = statement % tuple(_literal(binding) for binding in bindings)
        self._forget()
        if may_change_session(statement):
            self._session_changed()
        self._listed = is_listing(statement)
        with self._statement():
            self._frame = self._sent(statement)

    def fetch_arrow(self) -> pa.Table:
        """All rows of the last statement, as Arrow."""
        if self._frame is None:
            raise MisusedConnection("no statement has run")
        with self._statement():
            return self._frame.toArrow()

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
        threading.Thread(target=self._keep_cancelling, name=f"cancel {self.tag}", daemon=True).start()

    def _keep_cancelling(self) -> None:
        """Cancel until the statement ends: Spark cancels only those jobs that have begun."""
        deadline = time.monotonic() + CANCEL_FOR
        while self._busy.is_set() and time.monotonic() < deadline:
            try:
                self._cancel_jobs()
            except Exception:  # the session has been stopped, and its jobs with it
                return
            time.sleep(CANCEL_EVERY)

    def close(self) -> None:
        self._forget()

    def rollback(self, *_: Any, **__: Any) -> None:
        """Spark has no transactions."""

    def _forget(self) -> None:
        """No statement has run."""
        self._frame = None

    @contextmanager
    def _statement(self, *, jobs: bool = True) -> Iterator[None]:
        """A context in which a statement runs. Its jobs, if it has any, can be cancelled and are
        reported.
        """
        if jobs:
            self._enter()
        self._busy.set()
        try:
            if self._cancelled.is_set():  # checked after _busy is set, so that no cancel is lost
                raise Interrupted("cancelled")
            with self._progress.statement():
                yield
        except KeyboardInterrupt:
            # This thread's channel to Spark may still wait for an answer, so that another thread
            # has to cancel, and the tag stays.
            self.cancel()
            raise
        except Exception as error:
            self._busy.clear()
            if jobs:
                with suppress(Exception):
                    self._leave()
            ended = self._ended(error)
            if ended is not None:
                raise SessionEnded(ended) from error
            raise
        self._busy.clear()
        if jobs:
            self._leave()


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


def may_change_catalog(statement: str) -> bool:
    """Whether it may change relations, or which ones its names mean.

    >>> texts = ("SELECT 1", "show tables", "drop table t", "use s", "set a.b=1")
    >>> [may_change_catalog(f"/* dbt */ {text}") for text in texts]
    [False, False, True, True, True]
    """
    word = _FIRST_WORD.match(statement)
    reads = _LISTINGS - {"set"} | {"select"}
    return word is None or word[1].lower() not in reads


def is_listing(statement: str) -> bool:
    """Whether Spark has all rows once the statement has run, so that fetching them runs no job.

    >>> [is_listing(f"/* dbt */ {text}") for text in ("SHOW x", "set", "select 1", "(table t)")]
    [True, True, False, False]
    """
    word = _FIRST_WORD.match(statement)
    return word is not None and word[1].lower() in _LISTINGS


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
    return sql.text(str(value))


def error_text(error: Exception) -> str:
    """The engine's own message, with secrets masked."""
    response = error.args[0] if error.args else None
    status = getattr(response, "status", None)
    text = str(getattr(status, "errorMessage", None) or error)
    java = getattr(error, "java_exception", None)
    if java is not None:  # a Py4J error that PySpark did not translate: its text is a stack
        text = _cause(java) or text
    elif READING in text and (causes := _CAUSED.findall(text)):  # over Connect, in the stack
        first = text.split("\n", 1)[0]
        text = f"{_STATE.sub('', first)} {causes[-1]}"
    words = text.split("\n\tat ", 1)[0].split("\n\nJVM stacktrace:", 1)[0]
    return masked(words if words.strip() else type(error).__name__)


def _cause(java: Any) -> str:
    """The innermost message that names an error condition, else the innermost one; and which file
    was read. What is around it says that a job or a thread was stopped.
    """
    messages: list[str] = []
    while java is not None:
        messages += [str(message)] if (message := java.getMessage()) else []
        java = java.getCause()
    named = [message for message in messages if _NAMED.match(message)]
    reading = next((message for message in named if message.startswith(READING)), "")
    others = [message for message in named if not message.startswith(READING)] or messages[-1:]
    cause = others[-1] if others else ""
    return f"{_STATE.sub('', reading)} {cause}" if reading and reading != cause else cause


READING = "[FAILED_READ_FILE"  # names the file; its cause says what is wrong with it
_NAMED = re.compile(r"\[[A-Z0-9_.]+\] ")
_STATE = re.compile(r"\s*SQLSTATE: ?\w{5}\s*$")
_CAUSED = re.compile(r"Caused by: (?:[\w$]+\.)+[\w$]+: ([^\n]+)")
