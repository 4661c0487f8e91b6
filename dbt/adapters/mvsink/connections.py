"""The connection manager that dbt finds by its name.

It opens the connections of `connection.factory`. For a method that is not there, such as `thrift`
or `http`, it opens dbt-spark's.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from dbt.adapters.contracts.connection import AdapterResponse, Connection, ConnectionState
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.spark.connections import SparkConnectionManager
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.connection.errors import spark_error
from dbt.adapters.mvsink.connection.factory import CONNECTIONS, start_session_early
from dbt.adapters.mvsink.connection.frames import error_text, may_change_catalog
from dbt.adapters.mvsink.connection.metastore import notice_interrupts
from dbt.adapters.mvsink.connection.thrift import open_thrift
from dbt.adapters.mvsink.credentials import MvsinkCredentials, when_read
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.profile_keys import SESSION
from dbt.adapters.mvsink.spark_words import read

if TYPE_CHECKING:
    import agate

logger = AdapterLogger("mvsink")
# dbt's commands that nearly always send statements; it calls `source freshness` and `docs generate`
# by their last words
NEED_SPARK = (
    *("run", "build", "test", "seed", "snapshot", "show", "compile", "clone", "retry", "run-operation"),
    *("freshness", "generate"),
)


class MvsinkConnectionManager(SparkConnectionManager):
    """See the module."""

    TYPE = "mvsink"

    def __init__(self, profile: Any, mp_context: Any):
        super().__init__(profile, mp_context)
        # Replaced by another object when a statement of a macro or hook may have changed the
        # catalog: what is known of the catalog is used only while this is the same object.
        self.user_changes = object()
        if isinstance(profile.credentials, MvsinkCredentials):
            profile.credentials.belong_to(project_of_dbt(profile))
            notice_interrupts()

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        credentials = connection.credentials
        if not isinstance(credentials, MvsinkCredentials) or credentials.method not in CONNECTIONS:
            return open_thrift(super().open, connection)
        if connection.state == ConnectionState.OPEN:
            return connection
        try:
            connection.handle = CONNECTIONS[credentials.method](credentials)
        except Exception:
            connection.state = ConnectionState.FAIL
            raise
        connection.state = ConnectionState.OPEN
        return connection

    def clear_transaction(self) -> None:
        """Do nothing, because Spark has no transactions. dbt's method would leave one open, and at
        the end of each run a connection would be opened to roll it back: a lost server would be
        reported twice.
        """

    def execute(self, sql: str, *arguments: Any, **options: Any) -> tuple[AdapterResponse, agate.Table]:
        """As in dbt-spark, but errors are also translated that occur while rows are fetched. The
        embedded session evaluates a query only then.
        """
        try:
            with self.exception_handler(sql):
                return super().execute(sql, *arguments, **options)
        finally:
            if may_change_catalog(sql):
                self.user_changes = object()

    @contextmanager
    def exception_handler(self, sql: str) -> Generator[None, None, None]:
        """Raise every error of the engine as one of dbt's, with its message and its cause."""
        try:
            yield
        except DbtRuntimeError:
            raise
        except Exception as error:
            logger.debug(masked(f"Error while running:\n{sql}"))
            raise spark_error(read(error_text(error), sql)) from error


def start_early(credentials: MvsinkCredentials) -> None:
    """Start the embedded Spark as soon as dbt has read the profile, for a command that needs it."""
    if credentials.method == SESSION and command_of_dbt() in NEED_SPARK:
        with suppress(DbtRuntimeError):  # which the connection manager raises, later
            credentials.belong_to(project_of_dbt())
            start_session_early(credentials)


when_read(start_early)


def command_of_dbt() -> str:
    """dbt's command, such as `run`; empty where dbt's flags are not set."""
    from dbt import flags

    get_flags: Any = flags.get_flags  # untyped
    return str(getattr(get_flags(), "WHICH", "") or "")


def project_of_dbt(profile: Any = None) -> str:
    """The project's directory. `dbt debug`, and what happens before dbt has read the project, have
    only a profile: there, dbt's flags name it.
    """
    from dbt import flags

    get_flags: Any = flags.get_flags  # untyped
    return str(
        getattr(profile, "project_root", None) or getattr(get_flags(), "PROJECT_DIR", None) or os.getcwd()
    )
