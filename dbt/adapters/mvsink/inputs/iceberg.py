"""Iceberg tables as a `VersionedFormat`, and one table as a `VersionedTable`, read only through the
engine. A version is a snapshot's id. Ids are random, so the order of versions follows each
snapshot's parent.

The changes from a snapshot to one of its descendants are `t.changes`, netted, because a row that
copy-on-write only carried over appears there both as added and as removed. `t.changes` refuses
delete files and shows all snapshots with the table's present columns. So after merge-on-read, or if
the schema changed, the changes are the rows of one snapshot less those of the other, and both are
read in full. Compaction (`rewrite_data_files`) changes nothing.

These are refused, with the reason: snapshots that expired, a present snapshot that does not descend
from the one that was read last, branches, metadata tables, and tables named by their path.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.engine import Column, Engine, EngineError, parse_type, sql
from dbt.adapters.mvsink.engine.whole_rows import net
from dbt.adapters.mvsink.inputs.described import quoted
from dbt.adapters.mvsink.inputs.errors import (
    ColumnsChanged,
    InputError,
    NoInput,
    NoSuchTable,
    NotADescendant,
    SnapshotGone,
    UnsupportedTable,
)
from dbt.adapters.mvsink.inputs.position import InputSides, Position
from dbt.adapters.mvsink.inputs.protocol import (
    EMPTY,
    UNKNOWN,
    CatalogTable,
    Pinned,
    Table,
    TableOptions,
    TableVersion,
    VersionSigns,
    rows_at,
    sides_of_table,
    unreadable,
)
from dbt.adapters.mvsink.inputs.version_binding import bindable
from dbt.adapters.mvsink.physical import DIFF
from dbt.adapters.mvsink.reasons import EvaluateFully
from dbt.adapters.mvsink.shard_sql.as_of import nulls
from dbt.adapters.mvsink.shard_sql.published_view import view_properties
from dbt.adapters.mvsink.user_sql.words import names

ICEBERG = "iceberg"
CURRENT, FORMAT, FORMAT_VERSION = "current-snapshot-id", "format", "format-version"
REARRANGED = "replace"  # the operation that changes no rows
# of the file that describes the table: its identity and its present schema
_UUID, _SCHEMA = '"table-uuid" *: *"([^"]+)"', '"current-schema-id" *: *([0-9]+)'


@dataclass(frozen=True)
class _Snapshot:
    """One snapshot. ``added`` says whether it added files, ``deletes`` whether it has delete files.
    ``rows`` counts those in its data files, deleted ones included; ``schema`` is its schema's id.
    None means unknown.
    """

    parent: int
    operation: str
    added: bool
    deletes: bool
    rows: int | None
    schema: int | None


@dataclass(frozen=True)
class _Metadata:
    """A table's metadata as last read. ``schema`` is the id of its present schema."""

    current: int
    table_id: str
    schema: int | None
    snapshots: Mapping[int, _Snapshot]


def current_snapshot(properties: Mapping[str, str]) -> int | None:
    """The present snapshot of the table with these properties; `EMPTY` before the first one, None
    if it is not an Iceberg table. A branch shows the properties of its table.

    >>> table = {"format": "iceberg/parquet", "format-version": "2"}
    >>> current_snapshot({**table, "current-snapshot-id": "7"})
    7
    """
    if not properties.get(FORMAT, "").startswith("iceberg/") or FORMAT_VERSION not in properties:
        return None
    current = properties.get(CURRENT, "")
    return EMPTY if current == "none" else int(current) if current.isdigit() else None


class IcebergInput:
    """The Iceberg table ``name``, as SQL names it."""

    def __init__(self, name: str, engine: Engine):
        self.id = self.location = name
        self.engine = engine
        self._known: _Metadata | None = None
        self._columns: dict[int, tuple[Column, ...]] = {}

    def newest(self) -> TableVersion:
        """The present snapshot, even if another process wrote it."""
        try:
            self.engine.execute(f"refresh table {self.location}", "catalog")
            shown = self.engine.query(f"show tblproperties {self.location}", "catalog")
        except EngineError as error:
            raise NoSuchTable(self.location, error.message, "Iceberg") from error
        current = current_snapshot({str(row[0]): str(row[1]) for row in shown})
        if current is None:
            raise UnsupportedTable(self.location, "no snapshots, as an Iceberg table's metadata table")
        if self._known is None or self._known.current != current:
            self._known = self._read(current)
        return TableVersion(current, self._known.table_id)

    def columns(self, version: int) -> tuple[Column, ...]:
        """See `VersionedTable`: those that the table had when the snapshot was written."""
        if version not in self._columns:
            self.check(version)
            described = self.engine.columns(rows_at(self.location, version))
            self._columns[version] = tuple(Column(name, parse_type(kind, name)) for name, kind in described)
        return self._columns[version]

    def rows(self, version: int) -> int | None:
        """See `VersionedTable`."""
        snapshot = self._metadata.snapshots.get(version)
        return 0 if version == EMPTY else None if snapshot is None else snapshot.rows

    def zoned(self, version: int) -> bool:
        """See `VersionedTable`: its times are moments."""
        return False

    def check(self, version: int) -> None:
        """See `VersionedTable`."""
        if version != EMPTY and version not in self._metadata.snapshots:
            raise SnapshotGone(self.location, version)

    def continues(self, bound: TableVersion) -> bool:
        """See `VersionedTable`: it keeps its id as long as it exists."""
        return False

    def between(self, before: int, after: int) -> Sequence[int]:
        """See `VersionedTable`. Raises `NotADescendant`, `SnapshotGone`."""
        snapshots, at, path = self._metadata.snapshots, after, []
        while at != before and at in snapshots:
            path.append(at)
            at = snapshots[at].parent
        if before == EMPTY or (at == before and before in snapshots):
            return path[::-1]
        if at == EMPTY or before in snapshots:
            raise NotADescendant(self.location, before, after)
        raise SnapshotGone(self.location, before)

    def signs(self, before: int | None, after: int) -> VersionSigns:
        """See `VersionedTable`."""
        if before is None or before == EMPTY:
            rows = self.rows(after)
            return VersionSigns(rows != 0, rows is None)
        snapshots = self._metadata.snapshots
        path = [snapshots[each] for each in self.between(before, after)]
        if not self._one_schema([snapshots[before], *path]):
            return VersionSigns(True, True)
        changing = [each for each in path if each.operation != REARRANGED]
        if all(each.operation == "append" for each in changing):
            return VersionSigns(any(each.added for each in changing), False)
        return VersionSigns(True, True)

    def contents(self, version: int, columns: Sequence[Column], more: str = "") -> str:
        """See `VersionedTable`."""
        self.check(version)
        if version == EMPTY:
            return f"select {', '.join([nulls(columns), *([more] if more else [])])} where false"
        present = {column.name.lower(): column for column in self.columns(version)}
        items = [self._item(column, present.get(column.name.lower())) for column in columns]
        return rows_at(self.location, version, ", ".join([*items, *([more] if more else [])]))

    def changes(self, before: int | None, after: int, columns: Sequence[Column]) -> str | None:
        """See `VersionedTable`; also between snapshots of which neither descends from the other."""
        if before == after:
            return None
        if before is None or before == EMPTY:
            return net(columns, [], self.contents(after, columns, f"1L {DIFF}"), "<> 0")
        self.check(before)
        try:
            path = [self._metadata.snapshots[each] for each in self.between(before, after)]
        except InputError:
            return self._difference(before, after, columns)
        states = [self._metadata.snapshots[before], *path]
        if not self._one_schema(states):
            return self._difference(before, after, columns)
        if all(each.operation == REARRANGED for each in path):
            return None
        if any(each.deletes for each in states) or self._metadata.schema != states[0].schema:
            return self._difference(before, after, columns)
        return net(columns, [], self._log(before, after, columns), "<> 0")

    def _difference(self, before: int, after: int, columns: Sequence[Column]) -> str:
        now, then = self.contents(after, columns, f"1L {DIFF}"), self.contents(before, columns, f"-1L {DIFF}")
        return net(columns, [], sql.union_all([now, then]), "<> 0")

    def _log(self, before: int, after: int, columns: Sequence[Column]) -> str:
        between = f"`start-snapshot-id` = '{before}', `end-snapshot-id` = '{after}'"
        sign = f"case _change_type when 'INSERT' then 1L else -1L end {DIFF}"
        items = ", ".join(self._item(column, column) for column in columns)
        return f"select {items}, {sign} from {self.location}.changes with ({between})"

    def _item(self, wanted: Column, present: Column | None) -> str:
        """The wanted column in a snapshot that had it as ``present``, or did not have it."""
        name = sql.identifier(wanted.name)
        if present is not None and present.type == wanted.type:
            return f"{sql.identifier(present.name)} {name}"
        if present is None:
            return f"cast(null as {wanted.type.spelled}) {name}"
        if present.type.inner or present.type.fields:
            change = f"{present.name} was {present.type.text} and is {wanted.type.text}"
            raise ColumnsChanged(self.location, [change])
        return f"cast({sql.identifier(present.name)} as {wanted.type.spelled}) {name}"

    @staticmethod
    def _one_schema(states: Iterable[_Snapshot]) -> bool:
        ids = {each.schema for each in states}
        return len(ids) == 1 and None not in ids

    @property
    def _metadata(self) -> _Metadata:
        if self._known is None:
            self.newest()
        assert self._known is not None
        return self._known

    def _read(self, current: int) -> _Metadata:
        counted = ("added-data-files", "total-delete-files", "total-records")
        counts = ", ".join(f"summary[{sql.text(key)}]" for key in counted)
        snapshots = f"select snapshot_id, parent_id, operation, {counts}, null, null, null from {self.location}.snapshots"
        log = (
            "select latest_snapshot_id, null, null, null, null, null, file, latest_schema_id, unix_micros(timestamp) "
            f"from {self.location}.metadata_log_entries"
        )
        rows = self.engine.query(sql.union_all([snapshots, log]), "catalog")
        entries = sorted((row for row in rows if row[6] is not None), key=lambda row: int(str(row[8])))
        schemas = {row[0]: int(str(row[7])) for row in entries if row[7] is not None}
        table_id, schema = self._described(str(entries[-1][6])) if entries else ("", None)
        return _Metadata(
            current,
            table_id,
            schema,
            {int(str(row[0])): _snapshot(row, schemas.get(row[0])) for row in rows if row[6] is None},
        )

    def _described(self, file: str) -> tuple[str, int | None]:
        """The table's UUID and the id of its present schema, from its newest metadata file; unknown
        if Spark cannot read that as text.
        """
        parts = ", ".join(f"max(regexp_extract(value, {sql.text(each)}, 1))" for each in (_UUID, _SCHEMA))
        source = f"text.{sql.identifier(sql.escape_glob(file))}"
        try:
            [(table_id, schema)] = self.engine.query(f"select {parts} from {source}", "catalog")
        except EngineError:
            return "", None
        return str(table_id or ""), int(str(schema)) if schema else None


def _snapshot(row: Sequence[object], schema: int | None) -> _Snapshot:
    """The snapshot in a row of `_read`. Writers leave out counts of 0, except totals."""
    _, parent, operation, added, deletes, rows, *_ = row
    return _Snapshot(
        EMPTY if parent is None else int(str(parent)),
        str(operation),
        added is not None and str(added) != "0",
        str(deletes) != "0",
        None if rows is None else int(str(rows)),
        schema,
    )


@dataclass(frozen=True)
class IcebergFormat:
    """See `VersionedFormat`. Snapshot ids are unique: a table that is created again has others."""

    def open(self, table: CatalogTable, options: TableOptions) -> Table:
        """See `Format`."""
        if table.by_path:
            raise UnsupportedTable(table.name, "no name in a catalog, only its path")
        if not names(shown := str(table.description.get("name", "")), table.name):
            raise NoInput(
                f"it is a branch or a tag of {shown}; use the table itself, or a self_correcting_mv over it"
            )
        return bindable(IcebergInput(table.name, options.engine), options.engine)

    def position(self, table: CatalogTable, options: TableOptions, pinned: int | None) -> Position:
        """See `Format`."""
        name = table.name
        if not names(shown := str(table.description.get("name", "")), name):
            return Position(name, ICEBERG, problem=f"{name} is a branch of {shown}")
        if pinned is not None:
            return Position(name, ICEBERG, f"iceberg {name}", pinned)
        named = quoted(name)
        current = current_snapshot(view_properties(options.engine, named))
        if current is None:
            return Position(name, ICEBERG, problem=f"{name} has no snapshots of its own")
        columns = options.engine.columns(f"select * from {named}")  # of a table, they change by themselves
        return Position(name, ICEBERG, f"iceberg {name}", current, definition=json.dumps(columns))

    def has(self, properties: Mapping[str, str]) -> bool:
        """See `VersionedFormat`."""
        return current_snapshot(properties) is not None

    def newest(self, name: str, engine: Engine) -> int | None:
        """The newest snapshot of a table; a branch is excluded, although it shows its table's
        properties.
        """
        try:
            rows = engine.query(f"describe table extended {name}", "catalog")
            shown = next(str(row[1]) for row in rows[::-1] if row[0] == "Name")
            if not names(shown, name):
                return None
            engine.execute(f"refresh table {name}", "catalog")  # another process may have written to it
            return current_snapshot(view_properties(engine, name))
        except (EngineError, StopIteration):
            return None

    def newest_here(self, location: str, options: TableOptions) -> int | None:
        """See `VersionedFormat`: a catalog knows the newest snapshot, not the files."""
        return None

    def at(self, name: str, time: int, newest: int, options: TableOptions) -> Pinned:
        """The snapshot that was the table's own at ``time`` (ms), if it had one then."""
        engine = options.engine
        history = f"select snapshot_id, unix_millis(made_current_at) from {name}.history"
        log = f"select latest_snapshot_id, unix_millis(timestamp) from {name}.metadata_log_entries"
        try:
            rows = [(int(str(each)), int(str(at))) for each, at in engine.query(history, "catalog")]
            made = [] if rows and rows[0][1] <= time else engine.query(log, "catalog")
        except EngineError:
            return Pinned(None, UNKNOWN)
        snapshot = next((each for each, at in reversed(rows) if at <= time), None)
        if snapshot is None:
            empty = any(each is None and int(str(at)) <= time for each, at in made)
            oldest = f"its oldest snapshot is of {iso(rows[0][1])}" if rows else UNKNOWN
            return Pinned(EMPTY) if empty else Pinned(None, oldest)
        reason = "" if snapshot == newest else unreadable(engine, name, snapshot)
        return Pinned(None, reason) if reason else Pinned(snapshot)

    def sides(
        self, name: str, at: Position, before: int, version: int, options: TableOptions
    ) -> InputSides | EvaluateFully:
        """See `VersionedFormat`."""
        return sides_of_table(name, IcebergInput(name, options.engine), before, version)
