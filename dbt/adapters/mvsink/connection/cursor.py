"""dbt's connection to the embedded Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from dbt.adapters.exceptions.connection import FailedToConnectError
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.connection import files_view, plans
from dbt.adapters.mvsink.connection.embedded import EmbeddedSpark
from dbt.adapters.mvsink.connection.error_text import error_text
from dbt.adapters.mvsink.connection.frames import FrameConnection
from dbt.adapters.mvsink.connection.home import LOG_FILE
from dbt.adapters.mvsink.connection.job_progress import jobs_text
from dbt.adapters.mvsink.credentials import MvsinkCredentials

if TYPE_CHECKING:
    import pyarrow as pa

DESCRIPTION = "spark.job.description"
KNOWN = ("CommandResult", "LocalTableScan")  # the plans whose rows are there


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


class SessionConnection(FrameConnection):
    """See the module. Rows are fetched as Spark computes them."""

    def __init__(self, spark: EmbeddedSpark, credentials: MvsinkCredentials):
        super().__init__(spark.profile_session(credentials), credentials.progress)
        self._spark = spark
        self._rows: Iterator[Any] | None = None

    @property
    def identity(self) -> object:
        return str(self.session.sparkContext.applicationId)

    @property
    def session_changes(self) -> int:
        """All connections share the session: a statement on any of them counts."""
        return self._spark.changes

    def _session_changed(self) -> None:
        self._spark.changes += 1

    def earlier_facts(self) -> dict[str, Any]:
        """What queries of the session alone have given in this process, by query, while it was as
        it is now: its settings, catalog and schema. To be added to.
        """
        state = self.session._jsparkSession.sessionState()
        manager = state.catalogManager()
        place = [manager.currentCatalog().name(), *manager.currentNamespace()]
        settings = state.conf().getAllConfs().mkString("\n")
        return self._spark.facts_of(json.dumps([self.identity, *place, settings]))

    def _sent(self, statement: str) -> Any:
        """As `SparkSession.sql`, which asks Java three more times, for parameters."""
        from pyspark.sql import DataFrame

        session: Any = self.session
        return DataFrame(session._jsparkSession.sql(statement), session)

    def fetchall(self) -> list[Any]:
        if self._frame is None:
            return []
        with self._statement(jobs=not self._listed):
            if self._rows is not None:
                return list(self._rows)
            self._rows = iter(())
            row = self._known_row()
            rows: list[Any] = self._frame.collect() if row is None else [row]
            return rows

    def _known_row(self) -> tuple[str | int | None, ...] | None:
        """The only row of a command, or of a query of constants, asked for in Java; None if there
        are more, or other types. To collect it, as PySpark does, runs a query over the rows and
        takes as long as the command.
        """
        plan = self._frame._jdf.queryExecution().executedPlan()
        rows: Any = plan.executeCollectPublic() if plan.nodeName() in KNOWN else ()
        if len(rows) != 1:
            return None
        values = [rows[0].get(index) for index in range(rows[0].length())]
        known = all(value is None or isinstance(value, (str, int)) for value in values)
        return tuple(values) if known else None

    def fetchmany(self, size: int) -> list[Any]:
        """Spark computes no more partitions than they need."""
        if self._frame is None:
            return []
        with self._statement():
            if self._rows is None:
                self._rows = self._frame.toLocalIterator()
            return list(islice(self._rows, size))

    def fetch_arrow(self) -> pa.Table:
        self._rows = iter(())
        return super().fetch_arrow()

    def analyzed_plan(self) -> str:
        """The analyzed plan of the last statement, a query, as EXPLAIN EXTENDED prints it."""
        if self._frame is None:
            raise DbtRuntimeError("no statement has run")
        return str(self._frame._jdf.queryExecution().analyzed().toString())

    def compare_plans(self, one: str, other: str, stand_ins: Mapping[str, str]) -> tuple[bool, str, str]:
        """See `plans.compared`."""
        with self._statement(jobs=False):
            return plans.compared(self.session, one, other, stand_ins)

    def forget_files(self, table: str) -> bool:
        """Spark lists the files of ``table`` (`schema.name`, quoted) of its own catalog again when
        it is read. False, and nothing has happened, if rows of tables are cached: then that takes a
        REFRESH TABLE, which resolves the table.
        """
        session: Any = self.session._jsparkSession
        if not session.sharedState().cacheManager().isEmpty():
            return False
        state = session.sessionState()
        state.catalog().invalidateCachedTable(state.sqlParser().parseTableIdentifier(table))
        return True

    def files_views(self, paths: Sequence[str]) -> dict[str, str]:
        """See `files_view.make`."""
        return files_view.make(self.session, paths)

    def drop_views(self, names: Iterable[str]) -> None:
        """Drop views that `files_views` gave."""
        files_view.drop(self.session, names)

    def _forget(self) -> None:
        super()._forget()
        self._rows = None

    def _enter(self) -> None:
        context = self.session.sparkContext
        context.addJobTag(self.tag)
        if self._job is not None:
            context.setLocalProperty(DESCRIPTION, self._job)

    def _leave(self) -> None:
        context = self.session.sparkContext
        context.removeJobTag(self.tag)
        if self._job is not None:
            context.setLocalProperty(DESCRIPTION, None)

    def _cancel_jobs(self) -> None:
        session = self._spark.running()
        if session is not None:
            session.sparkContext.cancelJobsWithTag(self.tag)

    def _details(self, since: float) -> str:
        return jobs_text(self.session, self.tag, since)

    def _ended(self, error: Exception) -> str | None:
        return self._spark.ended()
