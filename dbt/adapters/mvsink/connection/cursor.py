"""dbt's connection to the embedded Spark, and what only a session in this process can do.

- Temporary views over files of a shard whose columns are known beforehand (`make_views`). For a
  relation over a path, Spark looks up the format, lists the files, and reads a footer in a job: 40
  to 50 ms each, one after the other. Given the columns, it only lists the files.
- Comparing the analyzed plans of two queries (`compared`); nothing is run. Plans are compared as
  Spark does to find cached data: by structure, whatever the names of columns and aliases. The
  session is a clone, so that the stand-ins that queries name are not views in the user's session. A
  stand-in has only columns and equals no other.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.connection import jvm
from dbt.adapters.mvsink.connection.embedded import LOG_FILE, EmbeddedSpark
from dbt.adapters.mvsink.connection.errors import MisusedConnection, SparkNotStarted
from dbt.adapters.mvsink.connection.frames import FrameConnection, error_text
from dbt.adapters.mvsink.connection.job_progress import jobs_text
from dbt.adapters.mvsink.credentials import MvsinkCredentials

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


logger = AdapterLogger("mvsink")
DESCRIPTION = "spark.job.description"
OWN_CATALOG = "spark_catalog"
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
        raise SparkNotStarted(f"Spark did not start: {error_text(error)}\n  Spark's log: {log}") from error


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
        """The results, by query, of queries about the session only, from this process and a session
        as it is now: its settings, catalog and schema. Callers add to it.
        """
        state = self.session._jsparkSession.sessionState()
        manager = state.catalogManager()
        place = [manager.currentCatalog().name(), *manager.currentNamespace()]
        settings = state.conf().getAllConfs().mkString("\n")
        return self._spark.facts_of(json.dumps([self.identity, *place, settings]))

    def _sent(self, statement: str) -> Any:
        """Like `SparkSession.sql`, but without three further calls to Java for parameters."""
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
        """The next ``size`` rows; Spark computes no more partitions than these need."""
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
            raise MisusedConnection("no statement has run")
        return whole_tree(self._frame._jdf.queryExecution().analyzed())

    def parsed_plan(self, query: str) -> str:
        """See `Engine.parsed`."""
        return parsed(self.session, query)

    def compare_plans(self, one: str, other: str, stand_ins: Mapping[str, str]) -> tuple[bool, str, str]:
        """See `compared`."""
        with self._statement(jobs=False):
            return compared(self.session, one, other, stand_ins)

    def explained_plan(self, query: str) -> str:
        """See `explained`."""
        with self._statement(jobs=False):
            return explained(self.session, query)

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

    def describe_view(self, view: str) -> dict[str, Any] | None:
        """See `Engine.view_here`."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        with self._statement(jobs=False):
            try:
                entry = self._entry(view)
                text = None if entry is None else _optional(entry.viewText())
                if entry is None or text is None:
                    return None
                fields = json.loads(entry.schema().json())["fields"]
                convert, mapper = jvm.json_writer(self.session)
                properties = json.loads(mapper.writeValueAsString(convert(entry.properties())))
                return {
                    "columns": [
                        {"name": each["name"], "comment": each.get("metadata", {}).get("comment")}
                        for each in fields
                    ],
                    "comment": _optional(entry.comment()),
                    "view_text": text,
                    "table_properties": properties,
                }
            except (PySparkException, Py4JError, LookupError) as error:  # there is none, or another Spark
                logger.debug(f"{view} takes a DESCRIBE: {error}")
                return None

    def _entry(self, relation: str) -> Any:
        """The entry of ``relation`` in Spark's own catalog; None if its name means another one.
        Raises `PySparkException` if there is none, `Py4JError` where Spark's methods are others.
        """
        state = self.session._jsparkSession.sessionState()
        if state.catalogManager().currentCatalog().name() != OWN_CATALOG:
            return None
        name = state.catalog().qualifyIdentifier(state.sqlParser().parseTableIdentifier(relation))
        if _optional(name.catalog()) != OWN_CATALOG:
            return None
        return state.catalog().externalCatalog().getTable(name.database().get(), name.table())

    def replace_view_text(self, view: str, text: str, replaceable: Callable[[str], bool]) -> bool:
        """See `Engine.replace_view_text`: what ALTER VIEW does when it has analyzed the text. False
        if rows of views are cached, which ALTER VIEW drops, and if Spark's catalog refuses.
        """
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        session: Any = self.session._jsparkSession
        if "${" in text or not session.sharedState().cacheManager().isEmpty():
            return False
        state = session.sessionState()
        try:
            entry = self._entry(view)
            if entry is None:
                return False
            names = [str(entry.productElementName(at)) for at in range(entry.productArity())]
            values = {name: entry.productElement(at) for at, name in enumerate(names)}
            present = _optional(values["viewText"])
            if present is None or not replaceable(present):
                return False
            new = self.session._jvm.scala.Some(text)
            values |= dict.fromkeys(("viewText", "viewOriginalText"), new)
            state.catalog().alterTable(entry.copy(*(values[name] for name in names)))
        except (PySparkException, Py4JError, LookupError) as error:  # a statement's error is clearer
            logger.debug(f"{view} takes an ALTER VIEW: {error}")
            return False
        return True

    def files_views(self, paths: Sequence[str]) -> dict[str, str]:
        """See `make_views`."""
        return make_views(self.session, paths)

    def drop_views(self, names: Iterable[str]) -> None:
        """Drop views that `files_views` gave."""
        drop_views(self.session, names)

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


def _optional(option: Any) -> str | None:
    """The text in a Scala Option."""
    return str(option.get()) if option.isDefined() else None


STRICT = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
# one directory of a batch, or several; all files of them have the same columns
_BATCHES = re.compile(r"(?:file:)?(/.*/(?:table|batches))/\{?([0-9a-f]{32}[\w-]*)(?:,[\w,-]+)?\}?")
_ESCAPED = re.compile(r"\\(.)")
_COLUMNS = b"org.apache.spark.sql.parquet.row.metadata"  # what Spark itself goes by
AT_ONCE = 4  # views: each is some calls of the JVM, and waiting for them
_T = TypeVar("_T")


def make_views(session: SparkSession, paths: Sequence[str]) -> dict[str, str]:
    """The names of new views over the Parquet files of batches at ``paths``, which are globs. A
    path is left out if it is of another kind, if this process does not see what Spark sees there,
    or if something is wrong with the files: the statement that reads them will report it.
    """
    if not (session.sparkContext.master or "").startswith("local"):
        return {}
    names = _at_once(lambda path: _made(session, path), paths)
    return {path: name for path, name in zip(paths, names, strict=True) if name is not None}


def _made(session: SparkSession, path: str) -> str | None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        columns = _columns(path)
        if columns is None:
            return None
        name = f"_mv_files_{uuid4().hex}"
        session.read.schema(columns).options(**STRICT).parquet(path).createTempView(name)
        return name
    except (OSError, ValueError, LookupError, PySparkException, Py4JError):
        return None


def drop_views(session: SparkSession, names: Iterable[str]) -> None:
    """Drop those that `make_views` made. If Spark has ended, so have the views."""
    _at_once(lambda name: _dropped(session, name), list(names))


def _dropped(session: SparkSession, name: str) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    with suppress(PySparkException, Py4JError, OSError):
        session.catalog.dropTempView(name)


def _at_once(act: Callable[[str], _T], names: Sequence[str]) -> list[_T]:
    """``act`` on each, in some threads; they stay, because a thread has a connection to the JVM."""
    return [act(name) for name in names] if len(names) < 2 else list(_threads().map(act, names))


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="files_view")


def _columns(path: str) -> StructType | None:
    """The columns of the first file, as Spark would read them from its footer."""
    import pyarrow.parquet as pq
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    batches = _BATCHES.fullmatch(path)
    if batches is None:
        return None
    directory = Path(_ESCAPED.sub(r"\1", batches[1])) / batches[2]
    file = min(directory.glob("[!_.]*.parquet"), default=None)
    if file is None:
        return None
    schema = pq.read_schema(file)
    written = (schema.metadata or {}).get(_COLUMNS)
    if written is not None:
        return StructType.fromJson(json.loads(written))
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


_SHOWN, _EVERY = "spark.sql.debug.maxToStringFields", "1000000"  # else a text leaves columns out


def explained(session: Any, query: str) -> str:
    """The output of EXPLAIN EXTENDED with all columns. ``session`` is PySpark's, in this process: a
    setting of its own would be part of each view that is created meanwhile, and afterwards. Raises
    Spark's errors.
    """
    clone = session._jsparkSession.cloneSession()
    clone.conf().set(_SHOWN, _EVERY)
    return str(clone.sql(f"explain extended\n{query}").collectAsList().get(0).getString(0))


def compared(session: Any, one: str, other: str, stand_ins: Mapping[str, str]) -> tuple[bool, str, str]:
    """Whether the plans are the same, and their texts. ``session`` is PySpark's, in this process.
    ``stand_ins`` has the columns of each, as DDL. Raises Spark's errors.
    """
    clone = session._jsparkSession.cloneSession()
    clone.conf().set(_SHOWN, _EVERY)
    types = session._jvm.org.apache.spark.sql.types.StructType
    for name, columns in stand_ins.items():
        rows = session._jsc.emptyRDD()  # one for each: no other relation reads it
        clone.createDataFrame(rows, types.fromDDL(columns)).createOrReplaceTempView(name)
    first, second = (clone.sql(text).queryExecution() for text in (one, other))
    same = bool(first.normalized().sameResult(second.normalized()))
    if same:
        return True, "", ""
    return False, whole_tree(first.analyzed()), whole_tree(second.analyzed())


def parsed(session: Any, query: str) -> str:
    """The tree of the parsed plan of ``query``. ``session`` is PySpark's, in this process. Raises
    Spark's errors.
    """
    return whole_tree(session._jsparkSession.sessionState().sqlParser().parsePlan(query))


def whole_tree(plan: Any) -> str:
    """The tree of Spark's ``plan``, as it prints it, but with all columns: how many are left out is
    a setting of the thread's session otherwise.
    """
    from py4j.protocol import Py4JError

    shown = (True, False, 2**31 - 1)  # verbose, without suffixes, so many fields
    try:
        return str(plan.treeString(*shown, False, False))
    except Py4JError:  # Spark before 4.1
        return str(plan.treeString(*shown, False))
