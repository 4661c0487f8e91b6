"""Publishing: `schema.model` as a view over the shard's live files.

One function, `publish`. It keeps what people put on the view (comments, properties, grants) and
overlays what dbt wants. Usually only the view's text changes: `ALTER VIEW ... AS` replaces it, and
readers find the view at any moment. If its columns stay the same, the embedded session replaces it
in the catalog; `ALTER VIEW` would read the files' schemas again. Otherwise everything is written in
one `CREATE OR REPLACE VIEW`, for which Spark drops the view, with what is on it, and creates it.

The view carries the log version that it shows (`published_view.Marker`). Two runs may finish in the
opposite order of their commits, so `publish` reads the log again afterwards, and starts over if the
files have changed.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.engine import Column, DataflowError, Engine, EngineError, shared_files, sql
from dbt.adapters.mvsink.engine.whole_rows import row_hash
from dbt.adapters.mvsink.materialization import grants
from dbt.adapters.mvsink.shard import DataFile, Directory, ShardState, WriteHandle
from dbt.adapters.mvsink.shard.errors import KeepsChanging
from dbt.adapters.mvsink.shard_sql import Layout, view_query
from dbt.adapters.mvsink.shard_sql.current_view import plain_rows, renamed, scans, with_several
from dbt.adapters.mvsink.shard_sql.layout import in_order, live_errors
from dbt.adapters.mvsink.shard_sql.properties import first_refresh
from dbt.adapters.mvsink.shard_sql.published_view import Marker, PublishedView, fingerprint, read_marker

log = logging.getLogger("mvsink.sink.append")

# Spark drops a view and creates it to replace it: of two runs at once, one may find what it did not
# expect
MET = ("[TABLE_OR_VIEW_ALREADY_EXISTS]", "[TABLE_OR_VIEW_NOT_FOUND]")
NAMED_BY_SPARK = "CREATE_PERMANENT_VIEW_WITHOUT_ALIAS"
SHORT_NAME = re.compile(r"`(c\d+)`")  # such a name needs no quotes
FILES_NAMED = re.compile(r"\{[^{}`]*\}|\b[0-9a-f]{32}(?:-negates-[0-9a-f]{32})?\b")
NUMBERS = re.compile(r"\b\d+L?\b")


class ViewTooLong(DataflowError):
    """The metastore could not keep the text of the view."""

    error_code = "MVS-128"

    def __init__(self, columns: int, characters: int, text: int, limit: int):
        super().__init__(
            f"{columns} columns with names of {characters} characters together make a view whose text can reach {text} characters; the "
            f"embedded metastore stores at most {limit}. Nothing was written\n  Expected: fewer columns, shorter names (of fields of structs "
            "too), or a metastore in a database server (`spark.hadoop.javax.jdo.option.ConnectionURL`)"
        )


class ViewNotReadable(DataflowError):
    """Readers of the view would get an error of the engine."""

    error_code = "MVS-129"

    def __init__(self, relation: str, message: str):
        super().__init__(
            f"readers of {relation} would fail, so it still shows the version before: {message}\n  What the run wrote is committed. A "
            "self_correcting_mv is written from scratch by --full-refresh; please report this, with the model's query and configs"
        )


@dataclass(frozen=True)
class Docs:
    """What dbt wants on the view; None if `persist_docs` does not ask for it."""

    comment: str | None = None
    column_comments: Mapping[str, str] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def nothing(self) -> bool:
        """Whether nothing is wanted."""
        return self.comment is None and not (self.column_comments or self.properties)

    def of_columns(self, columns: Sequence[Column]) -> Docs:
        """Comments for these ``columns`` only, under their own names: dbt's may differ in case."""
        if self.column_comments is None:
            return self
        texts = {name.lower(): text for name, text in self.column_comments.items()}
        known = {c.name: texts[c.name.lower()] for c in columns if c.name.lower() in texts}
        return replace(self, column_comments=known)


def publish(
    engine: Engine,
    relation: str,
    handle: WriteHandle,
    current: PublishedView | None,
    docs: Docs,
    order: Sequence[str] = (),
) -> ShardState:
    """Make the view show the newest version of the shard, and return that version.

    ``relation`` is already quoted. ``order`` is the model's order of columns (`in_order`).
    """
    readable = {current.form} if current and current.shard_id == str(handle.shard_id) else set()
    meetings = 0
    for _ in range(limits.PUBLISH_ROUNDS):
        wanted = WantedView(relation, handle, handle.state(), current, docs, order)
        readable.add(_check_form(engine, wanted, readable))
        try:
            _show(engine, wanted)
        except EngineError as error:
            if any(words in error.message for words in MET) and meetings < limits.MEETINGS:
                meetings += 1  # another run replaces the view at this moment
                continue
            if NAMED_BY_SPARK not in error.message:
                raise
            _show(engine, wanted, renaming=True)
        if fingerprint(handle.state()) == fingerprint(wanted.state):
            return wanted.state
    raise KeepsChanging(
        f"{relation}: the shard's files changed {limits.PUBLISH_ROUNDS} times while its view was being published"
    )


@dataclass(frozen=True)
class WantedView:
    """The view that is wanted: it shows the version ``state`` of the shard. See `publish`."""

    relation: str
    handle: WriteHandle
    state: ShardState
    current: PublishedView | None
    docs: Docs
    order: Sequence[str] = ()

    @cached_property
    def parts(self) -> Layout:
        return Layout.of(self.handle, self.state)

    @cached_property
    def names(self) -> list[str]:
        """The columns, in the order of the view."""
        return list(in_order(self.parts.names, self.order))

    @cached_property
    def form(self) -> str:
        """A digest of the columns, their types, and the kinds of parts in the text, but not of the
        files: one recent batch or several are one kind.
        """
        text = _query(with_several(self.parts), self.names, self.state)
        return _digest([NUMBERS.sub("0", FILES_NAMED.sub("files", text)), *self._columns])

    @property
    def _columns(self) -> list[str]:
        return [*(f"{column.name} {column.type.text}" for column in self.parts.columns), *self.names]

    @cached_property
    def query(self) -> str:
        """What the view shows, with the columns' own names."""
        return _long(self.parts, self.names, self.state)

    @property
    def short(self) -> bool:
        """Whether the view's text has short names instead."""
        return len(self.query) > limits.LONG_VIEW

    @cached_property
    def marker(self) -> Marker:
        state = self.state
        shape = _digest([*self._columns, "short names" if self.short else "own names"])
        return Marker(
            self.handle.uri, str(state.shard_id), state.version, fingerprint(state), self.form, shape
        )

    def replacing(self, *, renaming: bool = False) -> str:
        """The whole `CREATE OR REPLACE VIEW`. `_named` explains ``renaming``."""
        wanted = _overlaid(self.current, self.docs)
        comments = wanted.column_comments or {}
        columns = ", ".join(_column(name, comments.get(name, "")) for name in self.names)
        properties = {**wanted.properties, **self.marker.properties()}
        listed = ", ".join(
            f"{sql.constant(key)} = {sql.constant(value)}" for key, value in properties.items()
        )
        query = _query(self.parts, self.names, self.state, renaming=renaming)
        return (
            f"create or replace view {self.relation} ({columns})\n"
            + (f"comment {sql.constant(wanted.comment)}\n" if wanted.comment else "")
            + f"tblproperties ({listed})\nas\n{self.marker.within(query)}"
        )

    def altered(self, *, renaming: bool = False) -> str:
        """The text by which an `ALTER VIEW` has the same effect; empty if there is none: `ALTER
        VIEW` gives the columns the names that they have in the query, drops their comments, and
        keeps everything else.
        """
        current, names = self.current, self.names
        if current is None or not current.marked or current.versioned:
            return ""
        marker = self.marker
        same = (current.uri, current.shard_id, *current.columns) == (marker.uri, marker.shard_id, *names)
        kept = Docs(current.comment, {}, current.properties)
        if not same or _overlaid(current, self.docs) != kept or self.short:
            return ""
        return marker.within(_named(self.query, names) if renaming else self.query)

    def replaces(self, text: str) -> bool:
        """Whether the view with the ``text`` shows the same shard, with columns of the same names,
        in the text, too, and types.
        """
        shown, marker = read_marker(text), self.marker
        return shown is not None and (shown.shard_id, shown.shape) == (marker.shard_id, marker.shape)


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _show(engine: Engine, wanted: WantedView, *, renaming: bool = False) -> None:
    """Make the view show it. `_named` explains ``renaming``."""
    text = wanted.altered(renaming=renaming)
    if text and not renaming and engine.replace_view_text(wanted.relation, text, wanted.replaces):
        return
    if _altered(engine, wanted.relation, text):
        return
    existing = grants.on_view(engine, wanted.relation) if wanted.current else ()
    engine.execute(wanted.replacing(renaming=renaming), "publish")
    grants.restore(engine, wanted.relation, existing)


def _check_form(engine: Engine, wanted: WantedView, readable: Collection[str]) -> str:
    """The form of the view's text. Unless it is among those that are ``readable``, what the view
    will show is read first, a row of each scan. Raises `ViewNotReadable`.
    """
    if wanted.state.readable and wanted.form not in readable:
        try:
            _read_once(engine, wanted)
        except EngineError as error:
            raise ViewNotReadable(wanted.relation, error.message) from error
    return wanted.form


def _read_once(engine: Engine, wanted: WantedView) -> None:
    """Read a row of the view's query (without its guard, if that would fail readers), and of each
    scan that this need not reach. No value leaves Spark, but all columns are read.
    """
    parts, columns = wanted.parts, sql.columns(wanted.names)
    errors = live_errors(parts)
    fails = bool(errors) and engine.query(f"select * from (\n{errors}\n) limit 1", "read once") != []
    others = [parts.select(scan, columns) for scan in scans(parts)[1:]]
    digest = row_hash(parts.columns, 0)
    with shared_files(engine) as files:
        for rows in (plain_rows(parts) if fails else wanted.query, *others):
            query = f"select {digest} from (\n{files.of(rows)}\n) limit 1"
            engine.query(files.around(query), "read once")


def is_current(view: PublishedView | None, state: ShardState, docs: Docs, order: Sequence[str] = ()) -> bool:
    """Whether the view shows exactly these files, with the columns in this ``order`` (of `publish`;
    if it is empty, in any), and has what dbt wants on it.
    """
    if (
        view is None
        or view.table
        or not view.marked
        or view.files != fingerprint(state)
        or view.shard_id != str(state.shard_id)
        or (order and view.columns != in_order(state.schema.names, order))
    ):
        return False
    wanted = {name: text for name, text in (docs.column_comments or {}).items() if text}
    return (
        (docs.comment is None or docs.comment == view.comment)
        and all(view.column_comments.get(name) == text for name, text in wanted.items())
        and all(view.properties.get(name) == value for name, value in docs.properties.items())
    )


def _altered(engine: Engine, relation: str, text: str) -> bool:
    """Alter the view, if there is a ``text``; returns whether that had the wanted effect."""
    try:
        if text:
            engine.execute(f"alter view {relation} as\n{text}", "publish")
    except EngineError as error:  # it was dropped meanwhile, or its catalog does not offer this
        if NAMED_BY_SPARK in error.message:
            raise
        log.debug("%s is replaced, because it cannot be altered: %s", relation, error)
        return False
    return bool(text)


def _overlaid(current: PublishedView | None, docs: Docs) -> Docs:
    """What people put on the ``current`` view, overlaid with what dbt wants."""
    kept = current or PublishedView("", "", 0, "")
    of_columns = {name: text for name, text in (docs.column_comments or {}).items() if text}
    return Docs(
        kept.comment if docs.comment is None else docs.comment,
        {**kept.column_comments, **of_columns},
        {**kept.properties, **docs.properties},
    )


def _query(
    parts: Layout, names: Sequence[str], state: ShardState | None = None, *, renaming: bool = False
) -> str:
    """The view's query; ``names`` is the order of its columns. The view's own column list names
    them, so a long text may use short names inside. ``state`` is None for a shard that has
    contents. `_named` explains ``renaming``.
    """
    query = _long(parts, names, state)
    if len(query) > limits.LONG_VIEW:
        short = renamed(parts)
        shorter = dict(zip(parts.names, short.names, strict=True))
        names = [shorter[name] for name in names]
        query = _long(short, names, state)
        return SHORT_NAME.sub(r"\1", _named(query, names) if renaming else query)
    return _named(query, names) if renaming else query


def _named(query: str, names: Sequence[str]) -> str:
    """``query`` with columns that this text names. Spark marks in files the columns that it named
    itself (`count(1)`), and refuses a view that passes such a column on. COALESCE of one value is
    an expression for the view, and the optimizer removes it.
    """
    items = ", ".join(f"coalesce({sql.identifier(name)}) as {sql.identifier(name)}" for name in names)
    return f"select {items} from (\n{query}\n)"


def _long(parts: Layout, names: Sequence[str], state: ShardState | None) -> str:
    """The query with the columns' own names."""
    refreshed, first = (True, "") if state is None else (state.readable, first_refresh(state))
    query = view_query(parts, refreshed=refreshed, first_refresh=first, whole=True)
    return query if tuple(names) == parts.names else f"select {sql.columns(names)} from (\n{query}\n)"


def check_fits(limit: int, uri: str, columns: Sequence[Column]) -> None:
    """Raises `ViewTooLong` if a view with these columns could not be published at its longest."""
    many = limits.LOCAL_ROWS + 1
    files = (DataFile("", 1, many, 1, 2, -2, 2, 1, many),)  # nothing that makes a text shorter
    base = replace(files[0], max_time=1, min_diff=1)
    recent = tuple(Directory("0" * 32, files) for _ in range(limits.VIEW_BATCHES))
    parts = Layout(uri, tuple(columns), 2**61, 2**62, Directory("0" * 32, (base,)), recent, (), (), ())
    without_hashes = replace(parts, recent=(), unhashed=recent)
    marker = Marker(uri, "0" * 36, 10**9, "0" * 16, "0" * 16)
    longest = max(len(marker.within(_query(shape, sorted(parts.names)))) for shape in (parts, without_hashes))
    if longest > limit:
        raise ViewTooLong(len(columns), sum(len(column.name) for column in columns), longest, limit)


def _column(name: str, comment: str) -> str:
    return sql.identifier(name) + (f" comment {sql.constant(comment)}" if comment else "")
