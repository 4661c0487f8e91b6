"""Staging: the engine writes files for a shard, which become a batch to append or to delete.

Nothing here commits. Staged files are invisible until their batch is appended.

Spark takes some properties of a file's types from its session, and no option of a statement
overrides them. The settings `EXACT` therefore hold while we stage (`pinned`), whatever a profile or
a hook has set, and are restored afterwards: the user's own tables are written as the user says.

A shard root may mean different places for the engine and for this process: a path may be decoded or
substituted differently by the two, a server may run on another machine, executors may write to
disks of their own. Then rows would be committed that readers do not find, or find only in part. So
before the first run of a session on a root, each executor writes one small file there, and this
process reads them back (`check_same_place`, the canary).
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.engine import Engine, EngineError, SettingRefused, sql
from dbt.adapters.mvsink.engine.timing import Stopwatch
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.physical import DIFF, ERROR
from dbt.adapters.mvsink.shard import Batch, DataFile, StagedDirectory, StagingHandle, StorageError
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from dbt.adapters.mvsink.shard.storage import only_parts
from dbt.adapters.mvsink.shard_sql.append import BatchDescription, Counts
from dbt.adapters.mvsink.shard_sql.errors import DifferentPlaces

log = logging.getLogger("mvsink.sink.write")
# Staged updates that are counted in this process, by two columns. Of no more than these a Spark job
# takes a hundred times as long.
COUNTED_LOCALLY = 100_000


@dataclass
class Stager:
    """Stages batches of ``model`` for one shard, and counts what they change."""

    engine: Engine
    handle: StagingHandle
    model: str
    watch: Stopwatch = field(default_factory=Stopwatch)

    def stage(self, query: str, what: str, negates: Sequence[DataFile] = ()) -> StagedDirectory:
        """Write the rows of ``query`` to a directory of their own, which is deleted if that fails.

        ``what`` names the step in the engine's jobs and its time; ``negates``: see
        `StagingHandle.stage`. A negation is read by few, and for as long as history is kept.
        """
        with self.watch(what):
            staged = self.handle.stage(negates)
            try:
                with self.engine.settings(EXACT):
                    statement = sql.overwrite_directory(staged.uri, query, quickly=bool(negates))
                    self.engine.execute(statement, what)
            except BaseException:
                staged.delete()
                raise
            return staged

    def adopt(
        self, staged: StagedDirectory, description: BatchDescription, schema: pa.Schema | None = None
    ) -> Batch | None:
        """The staged files as the batch of ``description``; None if they are empty, and then they
        are deleted. `StagingHandle.adopt` explains ``schema``.
        """
        batch = self.handle.adopt(staged, description.lower, description.upper, schema)
        if batch.rows == 0:
            batch.delete()
            return None
        log.debug(
            "%s: wrote %d updates, %d bytes, [%s, %s)",
            self.model, batch.rows, batch.bytes, description.lower, description.upper,
        )  # fmt: skip
        return batch

    def counts(self, batch: Batch) -> Counts:
        """What ``batch`` inserts and deletes, from its files' statistics where they suffice."""
        errors = [file.errors for file in batch.files]
        diffs = {bound for file in batch.files for bound in (file.min_diff, file.max_diff)}
        if diffs == {1} and None not in errors:
            known = sum(count or 0 for count in errors)
            return Counts(inserted=batch.rows - known, errors_inserted=known)
        with self.watch("count"):
            if batch.rows > COUNTED_LOCALLY:
                return self.sums(f"select * from {sql.parquet_in(batch.uri)}")[0]
            return added_up(batch.diffs())

    def sums(self, updates: str) -> tuple[Counts, int]:
        """What the query ``updates`` inserts and deletes, and the number of its records."""
        sums = [
            f"coalesce(sum(if({DIFF} {sign} 0 and {ERROR} {kind} null, abs({DIFF}), 0L)), 0L)"
            for kind in ("is", "is not")
            for sign in (">", "<")
        ]
        [row] = self.engine.query(f"select {', '.join(sums)}, count(*) from (\n{updates}\n)", "count")
        *summed, records = (int(str(value)) for value in row)
        return Counts(*summed), records


def added_up(diffs: pa.Table) -> Counts:
    """The counts of updates with these columns `_mv_diff` and `_mv_error`."""
    error, diff = pc.is_valid(diffs.column(ERROR)), diffs.column(DIFF)

    def total(kind: pa.ChunkedArray, sign: pa.ChunkedArray) -> int:
        return abs(int(pc.sum(pc.if_else(pc.and_(kind, sign), diff, 0), min_count=0).as_py()))

    more, fewer, row = pc.greater(diff, 0), pc.less(diff, 0), pc.invert(error)
    return Counts(total(row, more), total(row, fewer), total(error, more), total(error, fewer))


EXACT = {
    # Milliseconds would lose digits; few other readers know INT96, and not for every year.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Days before 1582 in the calendar that every reader knows.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    # Decimals and lists in the current format.
    "spark.sql.parquet.writeLegacyFormat": "false",
}

Get = Callable[[str], "str | None"]
Set = Callable[[str, str], None]


@dataclass
class _Pin:
    """The settings pinned in one session: how many users each has, and its value before."""

    users: Counter[str] = field(default_factory=Counter)
    before: dict[str, str] = field(default_factory=dict)


_pins: dict[object, _Pin] = {}
_lock = threading.RLock()


@contextmanager
def pinned(session: object, settings: Mapping[str, str], get: Get, set_: Set) -> Iterator[None]:
    """Keep ``settings`` in ``session`` (any key that identifies it), each until the last thread
    that wants it leaves.

    ``get`` returns None for a setting that cannot be read: it stays as it is. Raises
    `SettingRefused` if one cannot be set.
    """
    with _lock:
        pin = _pins.setdefault(session, _Pin())
        _pin(pin, {name: value for name, value in settings.items() if not pin.users[name]}, get, set_)
        pin.users.update(settings.keys())
    try:
        yield
    finally:
        with _lock:
            pin.users.subtract(settings.keys())
            _restore(pin, [name for name in settings if not pin.users[name]], set_)
            if not any(pin.users.values()):
                _pins.pop(session, None)


def _pin(pin: _Pin, settings: Mapping[str, str], get: Get, set_: Set) -> None:
    # all are read before one is set: what is remembered of a session holds until then
    values = {name: get(name) for name in settings}
    for name, wanted in settings.items():
        value = values[name]
        if value is None or value.upper() == wanted.upper():
            continue
        try:
            set_(name, wanted)
        except Exception as error:
            _restore(pin, list(settings), set_)
            raise SettingRefused(name, value, wanted, str(error)) from error
        pin.before[name] = value


def _restore(pin: _Pin, names: Iterable[str], set_: Set) -> None:
    """Errors are only logged: a session that has ended has no settings."""
    for name in names:
        value = pin.before.pop(name, None)
        try:
            if value is not None:
                set_(name, value)
        except Exception as error:
            log.debug("%s keeps its value for staging: %s", name, error)


class Conf(Protocol):
    """PySpark's runtime configuration."""

    def get(self, key: str) -> str | None: ...
    def set(self, key: str, value: str) -> None: ...


def by_conf(conf: Conf) -> tuple[Get, Set]:
    """The getter and setter for `pinned` in a session of this process."""

    # `get` with a default would return that for every setting that was not set explicitly
    def get(name: str) -> str | None:
        try:
            return conf.get(name)
        except Exception:  # unknown to this Spark
            return None

    return get, conf.set


def by_statements(
    execute: Callable[[str], None],
    listed: Callable[[], Mapping[str, str]],
    default: Callable[[str], str | None],
) -> tuple[Get, Set]:
    """The getter and setter for `pinned` in a session that is reached by SQL alone. ``listed``: the
    settings that are not defaults; ``default``: the value of any other, None if there is none.
    """

    def get(name: str) -> str | None:
        value = listed().get(name)
        return default(name) if value is None else value

    return get, lambda name, value: execute(f"set {name} = {value}")


NAME = "_mvsink_canary_"
TASKS = 64  # enough that every executor of a cluster gets one, or nearly
LOCAL_TASKS = 2  # where the executor is the driver
SCHEMA = pa.schema([("id", pa.int64()), ("token", pa.string())])

_passed: set[tuple[object, str]] = set()
_checking = threading.Lock()


def check_same_place(engine: Engine, session: object, root: str, options: Mapping[str, str] | None) -> None:
    """Raises `DifferentPlaces` unless what the engine writes below ``root`` is read from here; once
    for each ``session`` and root.

    ``session`` is any key that stands for the engine's session or server.
    """
    with _checking:  # who comes meanwhile waits for the answer
        if (session, root) not in _passed:
            _check(engine, root, options)
            _passed.add((session, root))


def _check(engine: Engine, root: str, options: Mapping[str, str] | None) -> None:
    token, tasks = uuid.uuid4().hex, _tasks(engine)
    storage = DeltaStorage(f"{root}/{NAME}{token}", options)
    query = f"select id, {sql.text(token)} token from range(0, {tasks}, 1, {tasks})"
    try:
        engine.execute(sql.overwrite_directory(storage.uri, query), "canary")
        visible = _read(storage, token)
        if visible != set(range(tasks)):
            raise DifferentPlaces(
                masked(root),
                masked(_written_to(engine, storage.uri)),
                masked(storage.uri),
                len(visible),
                tasks,
            )
    finally:
        with suppress(OSError, StorageError):  # what could not be read may not be there to delete
            storage.delete_directory("")


def _tasks(engine: Engine) -> int:
    """One for each executor there may be. A server that does not say where it runs has many."""
    try:
        [(_, master, *_)] = engine.query("set spark.master", "canary")
    except (EngineError, ValueError):
        return TASKS
    return LOCAL_TASKS if str(master).startswith("local") and "cluster" not in str(master) else TASKS


def _read(storage: DeltaStorage, token: str) -> set[int]:
    """The numbers of the tasks whose files are found from here."""
    visible: set[int] = set()
    for path in only_parts(storage.list_files("")):
        table = storage.read(DataFile(path, 0), SCHEMA)
        visible |= {row["id"] for row in table.to_pylist() if row["token"] == token}
    return visible


def _written_to(engine: Engine, uri: str) -> str:
    """Where the engine says that the files are."""
    try:
        rows = engine.query(f"select input_file_name() from {sql.parquet_in(uri)} limit 1", "canary")
    except EngineError:
        return uri
    return str(rows[0][0]).rpartition("/")[0] if rows else uri
