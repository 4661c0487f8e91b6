"""dbt's connection manager: dbt-spark's for every server method, our own session for `method: session`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from dbt.adapters.contracts.connection import Connection, ConnectionState
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.exceptions.connection import FailedToConnectError
from dbt.adapters.spark.connections import SparkConnectionManager, SparkConnectionMethod
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

from dbt.adapters.mvsink.credentials import MvsinkCredentials
from dbt.adapters.mvsink.session_cursor import SessionConnection

logger = AdapterLogger("mvsink")


class MvsinkConnectionManager(SparkConnectionManager):
    """See the module."""

    TYPE = "mvsink"

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        credentials = connection.credentials
        if not isinstance(credentials, MvsinkCredentials) or credentials.method != SparkConnectionMethod.SESSION:
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
            raise FailedToConnectError(f"Spark did not start: {error}") from error
        connection.state = ConnectionState.OPEN
        return connection

    @contextmanager
    def exception_handler(self, sql: str) -> Generator[None, None, None]:
        """Every engine error as dbt's, with the engine's own message and the cause kept."""
        try:
            yield
        except DbtRuntimeError:
            raise
        except Exception as error:
            logger.debug(f"Error while running:\n{sql}")
            raise DbtDatabaseError(_message(error)) from error


def _message(error: Exception) -> str:
    """The engine's message without the JVM's stack."""
    response = error.args[0] if error.args else None
    status = getattr(response, "status", None)
    text = str(getattr(status, "errorMessage", None) or error)
    java = getattr(error, "java_exception", None)
    if java is not None:  # a Py4J error that PySpark did not translate: its text is a stack, its root cause tells
        text = str(_root_cause(java))
    return text.split("\n\tat ", 1)[0].split("\n\nJVM stacktrace:", 1)[0]


def _root_cause(java: Any) -> Any:
    message = java.getMessage()
    while java.getCause() is not None:
        java = java.getCause()
        message = java.getMessage() or message
    return message
