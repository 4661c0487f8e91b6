"""dbt-spark's connection to a Thrift server (`thrift`, `http`), with one-line errors and dates.

The server's errors are Java stacks around the engine's own message. Its rows have dates as texts,
which become dates here. Arrays, maps and structs are texts too and stay as they are: they look like
JSON, but a date in them has no quotes.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Any

from dbt.adapters.contracts.connection import Connection, ConnectionState
from dbt.adapters.exceptions.connection import FailedToConnectError
from dbt.adapters.spark.connections import PyhiveConnectionWrapper, SparkConnectionMethod
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

from dbt.adapters.mvsink.connection.errors import NoServer, ServerLost, spark_error
from dbt.adapters.mvsink.connection.frames import may_change_session
from dbt.adapters.mvsink.connection.job_progress import StatementProgress
from dbt.adapters.mvsink.connection.servers import in_time, require_spark_4
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.spark_words import read

CHECKED = {  # what of a profile decides whether a server answers
    SparkConnectionMethod.THRIFT: "`host`, `port`, `user`, `auth` and `use_ssl`",
    SparkConnectionMethod.HTTP: "`host`, `port`, `token`, `organization` and `cluster`",
}
OPENS_IN = 120.0  # seconds, for each attempt
WAITED = "Exception thrown in awaitResult:"  # the error is that of another thread, its cause
_STACK = re.compile(r"\n\s*at [\w.$]+")
_CAUSE = re.compile(r"\n\s*Caused by: ")
_CLASSES = re.compile(
    r"^(?:Database Error\s+)?(?:[\w.$]+: )?(?:Error running query: )?(?:\[[A-Z0-9_.]+\] [\w.$]+: )?"
)
_CLASS = re.compile(r"^[\w.$]+: (?=\[)")  # of a cause
_CONDITION = re.compile(r"\[[A-Z0-9_.]+\]")
_STATE = re.compile(r"SQLSTATE: [0-9A-Z]{5}(?:; line \d+ pos \d+| \(line \d+, pos \d+\))?")


def open_thrift(opens: Callable[[Connection], Connection], connection: Connection) -> Connection:
    """``connection``, opened by dbt-spark's ``opens``; to a Thrift server, with our errors and
    types. `FailedToConnectError` with what to check.
    """
    credentials: Any = connection.credentials
    if credentials.method not in CHECKED:
        return opens(connection)
    server = f"{credentials.host}:{credentials.port}"
    retries = credentials.connect_retries
    # it logs what it raises, and dbt-spark has dbt print that
    logging.getLogger("thrift.transport").setLevel(logging.CRITICAL + 1)
    try:
        opened = in_time(
            partial(opens, connection), OPENS_IN * (1 + retries) + credentials.connect_timeout * retries
        )
    except (FailedToConnectError, TimeoutError) as error:
        raise NoServer(
            f"no connection to the Thrift server {server}: {masked(_reason(error))}\n"
            f"  Check that a server of Spark 4 runs there, and {CHECKED[credentials.method]} of the profile"
        ) from error
    if type(opened.handle) is PyhiveConnectionWrapper:
        opened.handle = ThriftConnection(opened.handle, server, credentials.progress)
        try:
            _check_version(opened.handle, server)
        except Exception:
            opened.handle.close()
            opened.handle, opened.state = None, ConnectionState.FAIL
            raise
    return opened


_checked: set[str] = set()  # servers of this process


def _check_version(connection: ThriftConnection, server: str) -> None:
    """`FailedToConnectError` if the server runs an older Spark; asked once. If a server does not
    know its version, nothing is checked here.
    """
    if server in _checked:
        return
    cursor = connection.cursor()
    try:
        cursor.execute("select version()")
        [(version,)] = cursor.fetchall()
    except (DbtDatabaseError, ValueError):
        return
    require_spark_4(f"the Thrift server {server}", str(version))
    _checked.add(server)


def _reason(error: BaseException) -> str:
    """Why no connection was opened: the first error that is not one of the client's own mistakes,
    which it makes when it closes what was not open.
    """
    cause: BaseException | None = error.__cause__ or error
    while isinstance(cause, (AttributeError, TypeError)) and cause.__context__ is not None:
        cause = cause.__context__
    if isinstance(cause, EOFError):  # of a web page, for instance that of a path which is not there
        return "the answer is not that of a Thrift server"
    return str(cause) or type(cause).__name__


class ThriftConnection(PyhiveConnectionWrapper):
    """``opened``, a connection of dbt-spark's to ``server``, as the module says. ``progress``:
    whether slow statements are reported; how far they are, a server does not say.
    """

    def __init__(self, opened: PyhiveConnectionWrapper, server: str, progress: bool):
        vars(self).update(vars(opened))
        self._server = server
        self._progress = StatementProgress(lambda _: "", progress)
        self._tag, self._changes, self._statement = uuid.uuid4().hex, 0, ""

    @property
    def session_changes(self) -> tuple[str, int]:
        """Another value once a statement may have changed this connection's session."""
        return (self._tag, self._changes)

    def execute(self, sql: str, bindings: list[Any] | None = None) -> None:
        self._statement = sql
        if may_change_session(sql):
            self._changes += 1
        try:
            with self._progress.statement():
                super().execute(sql, bindings)
        except Exception as error:
            raise self._in_words(error) from error

    def fetchall(self) -> list[Any]:
        return self._rows(lambda cursor: cursor.fetchall())

    def fetchmany(self, size: int) -> list[Any]:
        """The next ``size`` rows at most; the server has computed all."""
        return self._rows(lambda cursor: cursor.fetchmany(size))

    def _rows(self, fetch: Any) -> list[Any]:
        try:
            with self._progress.statement():
                rows = fetch(self._cursor)
            dates = [at for at, column in enumerate(self.description or ()) if column[1] == "DATE_TYPE"]
        except Exception as error:
            raise self._in_words(error) from error
        return [_with_dates(row, dates) for row in rows] if dates else rows

    def _in_words(self, error: Exception) -> DbtRuntimeError:
        lost = next((each for each in (error, error.__cause__) if _is_lost(each)), None)
        if lost is not None:
            return ServerLost(
                f"the Thrift server {self._server} cannot be reached any more ({masked(str(lost)) or type(lost).__name__}). The "
                "statement may or may not have run and is not repeated; run again"
            )
        if isinstance(error, DbtRuntimeError) and not isinstance(error, DbtDatabaseError):
            return error
        status = getattr(error.args[0] if error.args else None, "status", None)
        whole = str(getattr(status, "errorMessage", None) or error)
        words = read(engine_words(whole))
        return spark_error(replace(read(whole, self._statement), text=words.text, sqlstate=words.sqlstate))


def engine_words(text: str) -> str:
    """The engine's message in a server's error, on one line, up to its SQLSTATE. It is the first in
    the chain of causes that names an error condition, because what stopped a query is the cause of
    what waited for it; if none does, it is the outermost.

    >>> engine_words("a.B: Error running query: [X] a.C: [X] No\\n  t. SQLSTATE: 42P01\\n\\tat b")
    '[X] No t. SQLSTATE: 42P01'
    """
    messages = [_STACK.split(cause, maxsplit=1)[0] for cause in _CAUSE.split(text)]
    saying = [message for message in messages if not message.rstrip().endswith(WAITED)] or messages
    named = next((message for message in saying if _CONDITION.search(message)), saying[0])
    message = (_CLASSES if named is messages[0] else _CLASS).sub("", named, count=1)
    state = _STATE.search(message)
    return " ".join((message[: state.end()] if state else message).split())


def _is_lost(error: BaseException | None) -> bool:
    """Whether the connection broke; Thrift's own exception is there only with its client."""
    return isinstance(error, (ConnectionError, EOFError)) or type(error).__name__ == "TTransportException"


def _with_dates(row: Sequence[Any], places: Sequence[int]) -> tuple[Any, ...]:
    values = list(row)
    for at in places:
        values[at] = _date(values[at])
    return tuple(values)


def _date(text: Any) -> Any:
    """A date; one that Python does not have (after the year 9999) stays a text."""
    try:
        return date.fromisoformat(text) if isinstance(text, str) else text
    except ValueError:
        return text
