"""The SQL engine seam on a dbt connection: `adapter` runs the text from the node's own thread.

So query comments, dbt's events and its logs include every statement of a run, whatever the
connection method.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.engine import Engine, EngineError, sql
from dbt.adapters.mvsink.engine.errors import kind_of
from dbt.adapters.mvsink.engine.plan_text import same_plan, same_text
from dbt.adapters.mvsink.engine.session import session_of, session_settings, setting
from dbt.adapters.mvsink.profile_keys import SESSION
from dbt.adapters.mvsink.shard_sql.stager import by_conf, by_statements, pinned
from dbt.adapters.mvsink.spark_words import SparkWords

if TYPE_CHECKING:
    from dbt.adapters.spark.impl import SparkAdapter

T = TypeVar("T")
logger = AdapterLogger("mvsink")
RECENT = 2.0  # seconds
PUBLISH = "publish"  # what statements are for that change a model's entry in the catalog
UNDEFINED = "<undefined>"  # what SET shows for a name that it does not know
_CUT = re.compile(r"\.\.\. \d+ more fields")
_DATA_STATE = re.compile(r"SQLSTATE: ?((?:22|23)[0-9A-Z]{3})")
_STATE = re.compile(r"SQLSTATE: ?([0-9A-Z]{5})")
_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:, *\d+)?\])?")
_CONDITION = re.compile(r"\[[A-Z0-9_.]+\][^\n]*?SQLSTATE: ?([0-9A-Z]{5})")


class AdapterEngine(Engine):
    """`Engine` over an adapter; ``model`` names the Spark jobs."""

    def __init__(self, adapter: SparkAdapter, model: str):
        self.adapter = adapter
        self.model = model

    def execute(self, statement: str, what: str) -> None:
        """See `Engine`."""
        try:
            self._cursor(statement, what)
        finally:
            if what == PUBLISH:
                self._published()

    def query(self, query: str, what: str) -> list[tuple[object, ...]]:
        """See `Engine`."""
        cursor = self._cursor(query, what)
        with self._errors(query):  # the embedded session evaluates it only now
            return [tuple(row) for row in cursor.fetchall()]

    def arrow(self, query: str, what: str) -> pa.Table | None:
        """See `Engine`: only PySpark's sessions have it."""
        if not hasattr(self._handle, "fetch_arrow"):
            return None
        cursor = self._cursor(query, what)
        with self._errors(query):
            return cursor.fetch_arrow()

    def facts(self, query: str, what: str) -> list[tuple[object, ...]]:
        """See `Engine`. Answers from another connection's session are not used."""
        handle = self._handle
        changes = getattr(handle, "session_changes", None)
        known = getattr(self.adapter, "session_facts", None)
        if changes is None or known is None:
            return self.query(query, what)
        remembered = known.get(query)
        if remembered is None or remembered[0] != changes:
            remembered = known[query] = (changes, self._fact(handle, query, what))
        return list(remembered[1])

    def _fact(self, handle: Any, query: str, what: str) -> list[tuple[object, ...]]:
        """The rows, perhaps from an earlier invocation in this process if the session is as it
        was.
        """
        earlier = getattr(handle, "earlier_facts", None)
        if earlier is None:
            return self.query(query, what)
        facts = earlier()
        if query in facts:
            rows: list[tuple[object, ...]] = facts[query]
            return rows
        rows = self.query(query, what)
        if earlier() is facts:  # else another thread has changed the session meanwhile
            facts[query] = rows
        return rows

    def recent(self, query: str, what: str, *, of_model: bool) -> list[tuple[object, ...]]:
        """See `Engine`."""
        return list(self._recently(query, lambda: self.query(query, what), of_model))

    def recent_view(self, view: str, *, of_model: bool) -> Mapping[str, Any] | None:
        """See `Engine`."""
        return self._recently(f"view {view}", lambda: self.view_here(view), of_model)

    def _recently(self, key: str, ask: Callable[[], T], of_model: bool) -> T:
        """The answer to what ``ask`` asks the catalog, perhaps from a moment ago."""
        adapter: Any = self.adapter
        known: dict[tuple[str, bool], tuple[object, float, T]] | None = getattr(
            adapter, "recent_answers", None
        )
        if known is None:
            return ask()
        changes = (adapter.connections.user_changes, adapter.publications if of_model else None)
        now, answer = time.monotonic(), known.get((key, of_model))
        if answer is None or answer[0] != changes or now - answer[1] > RECENT:
            answer = (changes, now, ask())
            known[key, of_model] = answer
        return answer[2]

    def _published(self) -> None:
        """A model's entry in the catalog may be another one now."""
        adapter: Any = self.adapter
        adapter.publications = object()

    def relist(self, table: Sequence[str]) -> None:
        """See `Engine`. The embedded session does it without a statement. On a server, rows that
        another session has cached stay as they were after a refresh, so they are cached again, at
        Spark's usual storage level.
        """
        handle = self._handle
        catalog, name = table[:-2], table[-2:]
        forget = getattr(handle, "forget_files", None) if catalog == ["spark_catalog"] else None
        if forget is None or not forget(sql.qualified(name)):
            super().relist(table)
            quoted = sql.qualified(table)
            if not hasattr(handle, "forget_files") and self._caches_rows(handle, quoted):
                self.execute(f"uncache table {quoted}", "refresh")
                self.execute(f"cache lazy table {quoted}", "refresh")

    def _caches_rows(self, handle: Any, table: str) -> bool:
        """Whether the server has rows of the ``table`` (quoted) in memory."""
        ask = getattr(handle, "caches_rows", None)
        if ask is not None:
            return bool(ask(table))
        return "InMemoryRelation" in str(self.query(f"explain select * from {table}", "refresh"))

    def replace_view_text(self, view: str, text: str, replaceable: Callable[[str], bool]) -> bool:
        """See `Engine`. Only the embedded session has it; dbt's log shows what it did."""
        replace = getattr(self._handle, "replace_view_text", None)
        if replace is None or not replace(view, text, replaceable):
            return False
        self._published()
        logger.debug(f"the text of the view {view} is now\n{text}")
        return True

    def view_here(self, view: str) -> Mapping[str, Any] | None:
        """See `Engine`. Only the embedded session has it."""
        describe = getattr(self._handle, "describe_view", None)
        shown: Mapping[str, Any] | None = None if describe is None else describe(view)
        return shown

    @contextmanager
    def files_views(self, paths: Sequence[str]) -> Iterator[Mapping[str, str]]:
        """See `Engine`. Only the embedded session has it."""
        handle = self._handle
        make = getattr(handle, "files_views", None)
        names: dict[str, str] = {} if make is None else make(paths)
        try:
            yield names
        finally:
            if names:
                handle.drop_views(names.values())

    @property
    def session(self) -> object:
        """Identifies what runs the statements: the embedded Spark, or a server by its address."""
        handle = self._handle
        identity = getattr(handle, "identity", None)
        if identity is not None:
            return identity
        credentials: Any = self.adapter.config.credentials
        return (str(credentials.method), credentials.host, credentials.port)

    def settings(self, wanted: Mapping[str, str]) -> AbstractContextManager[None]:
        """See `Engine`. All threads share the embedded session; a server has one per connection."""
        handle = self._handle
        session = getattr(handle, "session", None)
        if session is not None:
            return pinned(session, wanted, *by_conf(session.conf))
        statements = by_statements(
            lambda text: self.execute(text, "settings"), lambda: session_settings(self), self._default
        )
        return pinned(handle, wanted, *statements)

    def _default(self, name: str) -> str | None:
        """The server's default of a setting, asked once for each version."""
        adapter: Any = self.adapter
        defaults: dict[object, str | None] = adapter.server_defaults
        key = (self.session, session_of(self).version, name)
        if key not in defaults:
            try:
                value = setting(self, name)
            except EngineError:  # unknown to this Spark
                value = UNDEFINED
            defaults[key] = None if value == UNDEFINED else value
        return defaults[key]

    def cores_here(self) -> int:
        """See `Engine`: those of the embedded session, unless it is a cluster's."""
        credentials: Any = self.adapter.config.credentials
        if credentials.method != SESSION:
            return 0
        return cores_of(session_settings(self).get("spark.master", ""), os.cpu_count() or 1)

    def analyzed(self, query: str, what: str) -> tuple[str, list[tuple[str, str]]] | None:
        """See `Engine`: the embedded session's. As a derived table, a command is refused."""
        handle = self._handle
        if not hasattr(handle, "analyzed_plan"):
            return None
        cursor = self._cursor(f"select * from {sql.subquery(query, '_mv_query')}", what)
        return cursor.analyzed_plan(), [(str(name), str(kind)) for name, kind, *_ in cursor.description]

    def same_plan(self, one: str, other: str, stand_ins: Mapping[str, Sequence[tuple[str, str]]]) -> bool:
        """See `Engine`: the embedded session compares plans; for others the texts of plans are
        compared.
        """
        handle = self._handle
        if not hasattr(handle, "compare_plans"):
            return same_text(self, one, other, stand_ins)
        with self._errors(one):
            return same_plan(handle.compare_plans, one, other, stand_ins)

    def parsed(self, query: str) -> str | None:
        """See `Engine`. Only the embedded session has it."""
        handle = self._handle
        if not hasattr(handle, "parsed_plan"):
            return None
        with self._errors(query):
            return str(handle.parsed_plan(query))

    def explained(self, query: str) -> str | None:
        """See `Engine`: only the embedded session has it."""
        handle = self._handle
        if not hasattr(handle, "explained_plan"):
            return None
        with self._errors(query):
            return str(handle.explained_plan(query))

    def columns(self, query: str) -> list[tuple[str, str]]:
        """See `Engine`."""
        columns = [(str(row[0]), str(row[1])) for row in self.query(f"describe query\n{query}", "describe")]
        cut = [name for name, kind in columns if _CUT.search(kind)]
        if not cut:
            return columns
        # DESCRIBE cuts a struct at 25 fields (spark.sql.debug.maxToStringFields), `typeof` does not
        types = ", ".join(f"typeof({sql.identifier(name)})" for name in cut)
        nothing = f"(select * from {sql.subquery(query, '_mv_query')} where false)"
        [kinds] = self.query(f"select {types} from range(1) left join {nothing} on true", "describe")
        whole = dict(zip(cut, map(str, kinds), strict=True))
        return [(name, whole.get(name, kind)) for name, kind in columns]

    @property
    def _handle(self) -> Any:
        """The thread's connection, which may have some of the hints."""
        return self.adapter.connections.get_thread_connection().handle

    @contextmanager
    def _errors(self, query: str) -> Iterator[None]:
        try:
            with self.adapter.connections.exception_handler(query):
                yield
        except DbtRuntimeError as error:
            raise engine_error(error) from error

    def _cursor(self, statement: str, what: str) -> Any:
        connections = self.adapter.connections
        try:
            describe = getattr(self._handle, "describe_job", None)
            if describe is not None:
                describe(f"mv_sink({self.model})::{what}")
            commented = connections._add_query_comment(statement)
            _, cursor = connections.add_query(commented, auto_begin=False)
        except DbtRuntimeError as error:
            raise engine_error(error) from error
        return cursor


def cores_of(master: str, machine: int) -> int:
    """The number of cores in the URL of Spark's master, if Spark runs on this machine, which has
    ``machine`` cores; else 0.
    """
    local = _LOCAL.fullmatch(master)
    if local is None:
        return 0
    return machine if local[1] == "*" else min(int(local[1] or 1), machine)


def engine_error(error: BaseException) -> EngineError:
    """The engine's own message and SQLSTATE, from the chain of errors around it.

    Spark wraps an error of a task in others (a failed write, an aborted stage), each with its own
    SQLSTATE: a data error anywhere in the chain is the cause.
    """
    texts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(texts) < 10:
        texts.append(str(getattr(cause, "msg", None) or cause))
        cause = cause.__cause__ or cause.__context__
    whole = "\n".join(texts)
    state = _DATA_STATE.search(whole) or _STATE.search(whole)
    words: SparkWords | None = getattr(error, "spark", None)
    if words is not None and words.sqlstate == (state[1] if state else ""):
        return kind_of(whole, words.sqlstate)(words.text, words.sqlstate)
    if state is None:
        return kind_of(whole, "")(texts[0])
    for match in _CONDITION.finditer(whole):
        if match[1] == state[1]:
            return kind_of(whole, state[1])(match[0], state[1])
    return kind_of(whole, state[1])(texts[0], state[1])
