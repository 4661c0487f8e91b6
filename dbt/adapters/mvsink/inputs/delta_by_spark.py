"""A Delta table as a task reads it: by its data files, or as Spark with its Delta jar reads it.

Files are read where they can be, because the difference of two versions is then that of a few
files. Where one of the versions has a feature for which its files are not enough (column mapping,
CHAR(n), a shallow clone, deletion vectors of very many rows), what Spark reads of both versions
decides: the change is the whole of one less the whole of the other. Both ways give columns by their
names, so a renamed column is another one: each row loses its old value and gains a new one.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbt.adapters.mvsink.engine import Column, Engine, EngineError, parse_type, sql
from dbt.adapters.mvsink.engine.whole_rows import net
from dbt.adapters.mvsink.inputs.delta_log import DeltaInput, check_types
from dbt.adapters.mvsink.inputs.described import has_times
from dbt.adapters.mvsink.inputs.errors import (
    DeletionVectors,
    InputError,
    NoReader,
    TooManyFiles,
    UnsupportedTable,
)
from dbt.adapters.mvsink.inputs.parquet_sql import named_items
from dbt.adapters.mvsink.inputs.protocol import TableVersion, VersionSigns, rows_at
from dbt.adapters.mvsink.physical import DIFF


class DeltaBySpark:
    """See `VersionedTable`. ``files`` is the table, whose `id` is its name as SQL has it."""

    def __init__(self, files: DeltaInput, engine: Engine):
        self.files, self.engine = files, engine
        self.id, self.location = files.id, files.location
        self.continues, self.between = files.continues, files.between
        self._problems: dict[int, InputError | None] = {}
        self._columns: dict[int, tuple[Column, ...]] = {}

    def newest(self) -> TableVersion:
        """See `VersionedTable`."""
        return self.files.newest(plain=False)

    def columns(self, version: int) -> tuple[Column, ...]:
        """See `VersionedTable`. Raises `NoReader`."""
        return self.files.columns(version) if self._in_files(version) else self._by_spark(version)

    def check(self, version: int) -> None:
        """See `VersionedTable`. Raises `NoReader`."""
        if self._problem(version) is not None:
            self._by_spark(version)

    def rows(self, version: int) -> int | None:
        """See `VersionedTable`."""
        return self.files.rows(version) if self._in_files(version) else None

    def signs(self, before: int | None, after: int) -> VersionSigns:
        """See `VersionedTable`."""
        if self._in_files(after) and (before is None or self._in_files(before)):
            return self.files.signs(before, after)
        changed = before is None or not self._rearranged(before, after)
        return VersionSigns(changed, changed)

    def zoned(self, version: int) -> bool:
        """See `VersionedTable`. Partition values may be moments without a zone, which Spark reads
        in the session's.
        """
        if self._in_files(version):
            return self.files.zoned(version)
        partitions = self.files.partitions(version)
        return any(has_times(each.type.text) for each in self.columns(version) if each.name in partitions)

    def contents(self, version: int, columns: Sequence[Column], more: str = "") -> str:
        """See `VersionedTable`."""
        if self._problem(version) is None:
            try:
                return self.files.contents(version, columns, more)
            except TooManyFiles as problem:
                self._problems[version] = problem
        return self._whole(version, columns, more)

    def changes(self, before: int | None, after: int, columns: Sequence[Column]) -> str | None:
        """See `VersionedTable`."""
        versions = [after] if before is None else [before, after]
        if all(map(self._in_files, versions)):
            try:
                return self.files.changes(before, after, columns)
            except TooManyFiles as problem:
                self._problems.update(dict.fromkeys(versions, problem))
        if before is None:
            return net(columns, [], self._whole(after, columns, f"1L {DIFF}"), "<> 0")
        if self._rearranged(before, after):
            return None
        now, then = self._whole(after, columns, f"1L {DIFF}"), self._whole(before, columns, f"-1L {DIFF}")
        return net(columns, [], sql.union_all([now, then]), "<> 0")

    def _rearranged(self, before: int, after: int) -> bool:
        same = self.columns(before) == self.columns(after)
        return before == after or (same and self.files.only_rearranged(before, after))

    def _whole(self, version: int, columns: Sequence[Column], more: str) -> str:
        """All rows of ``version``, by Spark. Raises `NoReader`, `ColumnsChanged`, `FilesGone`."""
        own = self._by_spark(version)
        check_types(self.id, version, own, columns)
        self.files.require_listed(version)
        items = [*named_items(columns, own, {}), *([more] if more else [])]
        return rows_at(self.id, version, ", ".join(items))

    def _by_spark(self, version: int) -> tuple[Column, ...]:
        """The columns that Spark shows of ``version``."""
        if version not in self._columns:
            try:
                described = self.engine.columns(rows_at(self.id, version))
            except EngineError as error:
                problem = self._problem(version)
                if problem is None:
                    raise
                raise NoReader(problem, version, error.message.splitlines()[0]) from error
            self._columns[version] = tuple(Column(name, parse_type(kind, name)) for name, kind in described)
        return self._columns[version]

    def _in_files(self, version: int) -> bool:
        """Whether the files of ``version`` are enough. Also if it deletes very many rows: few of
        these may belong to a change.
        """
        return not isinstance(self._problem(version), (UnsupportedTable, TooManyFiles))

    def _problem(self, version: int) -> InputError | None:
        """Why the whole of ``version`` cannot be read by its files; None if it can."""
        if version not in self._problems:
            self._problems[version] = None
            try:
                self.files.check(version)
            except (UnsupportedTable, DeletionVectors) as problem:
                self._problems[version] = problem
        return self._problems[version]
