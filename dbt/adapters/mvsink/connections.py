"""dbt's connection manager: dbt-spark's for every server method, our own session for `method:
session`.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dbt.adapters.contracts.connection import AdapterResponse, Connection, ConnectionState
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.exceptions.connection import FailedToConnectError
from dbt.adapters.spark.connections import SparkConnectionManager, SparkConnectionMethod
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

from dbt.adapters.mvsink.connection.cursor import SessionConnection
from dbt.adapters.mvsink.connection.embedded import LOG_FILE
from dbt.adapters.mvsink.connection.metastore_lock import notice_interrupts
from dbt.adapters.mvsink.credentials import MvsinkCredentials
from dbt.adapters.mvsink.masking import masked

if TYPE_CHECKING:
    import agate

logger = AdapterLogger("mvsink")


class MvsinkConnectionManager(SparkConnectionManager):
    """See the module."""

    TYPE = "mvsink"

    def __init__(self, profile: Any, mp_context: Any):
        super().__init__(profile, mp_context)
        if isinstance(profile.credentials, MvsinkCredentials):
            profile.credentials.belong_to(_project(profile))
            notice_interrupts()

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        credentials = connection.credentials
        if (
            not isinstance(credentials, MvsinkCredentials)
            or credentials.method != SparkConnectionMethod.SESSION
        ):
            return super().open(connection)
        if connection.state == ConnectionState.OPEN:
            return connection
        try:
            connection.handle = SessionConnection(credentials)
        except DbtRuntimeError:
            connection.state = ConnectionState.FAIL
            raise
        except Exception as error:
            connection.state = ConnectionState.FAIL
            log = os.path.join(credentials.home, LOG_FILE)
            raise FailedToConnectError(
                f"Spark did not start: {_message(error)}\n  What Spark said: {log}"
            ) from error
        connection.state = ConnectionState.OPEN
        return connection

    def execute(self, sql: str, *given: Any, **options: Any) -> tuple[AdapterResponse, agate.Table]:
        """The embedded session evaluates a query when its rows are fetched: `dbt show` printed that
        error with Java's whole stack.
        """
        with self.exception_handler(sql):
            return super().execute(sql, *given, **options)

    @contextmanager
    def exception_handler(self, sql: str) -> Generator[None, None, None]:
        """Every engine error as dbt's, with the engine's own message and the cause kept."""
        try:
            yield
        except DbtRuntimeError:
            raise
        except Exception as error:
            logger.debug(masked(f"Error while running:\n{sql}"))
            raise DbtDatabaseError(_message(error)) from error


def _project(profile: Any) -> str:
    """The project's directory. `dbt debug` makes an adapter of a profile alone, and only dbt's
    flags know where it looks.
    """
    from dbt import flags

    given: Any = flags.get_flags  # untyped
    return str(getattr(profile, "project_root", None) or getattr(given(), "PROJECT_DIR", None) or os.getcwd())


def _message(error: Exception) -> str:
    """The engine's message without the JVM's stack."""
    response = error.args[0] if error.args else None
    status = getattr(response, "status", None)
    text = str(getattr(status, "errorMessage", None) or error)
    java = getattr(error, "java_exception", None)
    # a Py4J error that PySpark did not translate: its text is a stack, its root cause tells
    if java is not None:
        text = str(_root_cause(java))
    return masked(text.split("\n\tat ", 1)[0].split("\n\nJVM stacktrace:", 1)[0])


def _root_cause(java: Any) -> Any:
    message = java.getMessage()
    while java.getCause() is not None:
        java = java.getCause()
        message = java.getMessage() or message
    return message
