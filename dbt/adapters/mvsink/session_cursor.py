"""dbt's connection on the embedded session. Exceptions pass through; closing never hides one."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dbt.adapters.spark.connections import SparkConnectionWrapper
from dbt_common.utils.encoding import DECIMALS

from dbt.adapters.mvsink.credentials import MvsinkCredentials
from dbt.adapters.mvsink.session import running, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NUMBERS = (*DECIMALS, int, float)


class SessionConnection(SparkConnectionWrapper):
    """One dbt connection: a tag for its Spark jobs, and the last statement's rows. Belongs to one thread."""

    def __init__(self, credentials: MvsinkCredentials):
        self.session: SparkSession = session(credentials)
        self.tag = f"dbt-mvsink-{uuid.uuid4().hex}"
        self._frame: DataFrame | None = None
        self._rows: list[Any] | None = None

    def cursor(self) -> SessionConnection:
        """Itself, empty."""
        self._frame, self._rows = None, None
        return self

    def execute(self, sql: str, bindings: Sequence[Any] | None = None) -> None:
        """Run a statement. A query is only analyzed; `fetchall` runs it."""
        statement = sql.strip().removesuffix(";")
        if bindings:
            statement = statement % tuple(_literal(binding) for binding in bindings)
        self._tag_this_thread()
        self._rows = None
        self._frame = self.session.sql(statement)

    def fetchall(self) -> list[Any]:
        """All rows of the last statement."""
        if self._rows is None:
            self._tag_this_thread()
            self._rows = [] if self._frame is None else self._frame.collect()
        return self._rows

    def fetchone(self) -> Any:
        """The next row, or None."""
        rows = self.fetchall()
        return rows.pop(0) if rows else None

    def fetchmany(self, size: int) -> list[Any]:
        """The next ``size`` rows."""
        if self._rows is None and self._frame is not None:
            self._tag_this_thread()
            return list(self._frame.take(size))
        return self.fetchall()[:size]

    @property
    def description(self) -> Sequence[tuple[str, Any, int | None, int | None, int | None, int | None, bool]]:
        """Name and type text of each column."""
        if self._frame is None:
            return []
        fields = self._frame.schema.fields
        return [(field.name, field.dataType.simpleString(), None, None, None, None, field.nullable) for field in fields]

    def describe_job(self, text: str) -> None:
        """What this thread's next Spark jobs are called."""
        self.session.sparkContext.setJobDescription(text)

    def cancel(self) -> None:
        """Stop this connection's Spark jobs, from whichever thread."""
        found = running()
        if found is not None:
            found.sparkContext.cancelJobsWithTag(self.tag)

    def close(self) -> None:
        self._frame, self._rows = None, None

    def rollback(self, *_: Any, **__: Any) -> None:
        """Spark has no transactions."""

    def _tag_this_thread(self) -> None:
        self.session.sparkContext.addJobTag(self.tag)


def _literal(value: Any) -> str | float:
    if isinstance(value, NUMBERS):
        return float(value)  # type: ignore[arg-type]
    if isinstance(value, dt.datetime):
        return f"'{value.strftime('%Y-%m-%d %H:%M:%S.%f')[:-3]}'"
    escaped = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
