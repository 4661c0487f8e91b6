"""The canary: do the engine and this process mean the same place by a shard root?

They may not: a path may be decoded or substituted differently by the two, a server may run on
another machine, executors may write to disks of their own. Then rows would be committed that no
reader finds, or only some of them. So, before the first run of a session on a root, all executors
write one small file each there, and this process reads them back.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from contextlib import suppress

import pyarrow as pa

from dbt.adapters.mvsink.engine import Engine, EngineError, sql
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.shard import DataFile, StorageError
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from dbt.adapters.mvsink.shard.storage import only_parts
from dbt.adapters.mvsink.shard_sql.errors import DifferentPlaces

NAME = "_mvsink_canary_"
TASKS = 64  # enough that every executor of a cluster gets one, or nearly
LOCAL_TASKS = 2  # where the executor is the driver
SCHEMA = pa.schema([("id", pa.int64()), ("token", pa.string())])

_passed: set[tuple[object, str]] = set()
_lock = threading.Lock()


def check_same_place(engine: Engine, session: object, root: str, options: Mapping[str, str] | None) -> None:
    """Raises `DifferentPlaces` unless what the engine writes below ``root`` is read from here; once
    for each ``session`` and root.

    ``session`` is any key that stands for the engine's session or server.
    """
    with _lock:  # who comes meanwhile waits for the answer
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
