"""Opening shards on each storage, and updates in few words. For tests."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from dbt.adapters.mvsink.shard import Antichain, MemoryStorage, ShardClient
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from dbt.adapters.mvsink.shard.updates import physical_schema
from tests.support.storage_faults import FaultyStorage, random_faults

SCHEMA = pa.schema([("x", pa.string())])
# `make rough` sets the variable: there each test takes seconds instead of milliseconds
OBJECT_STORES = ("object store", "faulty object store")
STORAGES = (
    OBJECT_STORES
    if os.environ.get("MVSINK_OBJECT_STORE")
    else ("delta", "memory", "faulty memory", "faulty delta")
)


def client(kind: str, root: Path | str, options: Mapping[str, str] | None = None) -> ShardClient:
    """A client on one kind of storage; the same uri gives the same shard. ``root``: a directory, or
    the URI of one in an object store, which needs ``options``. A uri may be an absolute path, too.
    """
    kept: dict[str, Any] = {}

    def locate(uri: str) -> Any:
        if uri not in kept:
            place = str(root / uri) if isinstance(root, Path) else f"{root}/{uri}"
            inner: Any = MemoryStorage(uri) if "memory" in kind else DeltaStorage(place, options)
            kept[uri] = FaultyStorage(inner, random_faults(len(kept))) if "faulty" in kind else inner
        return kept[uri]

    return ShardClient(locate=locate)


def at(time: int | None) -> Antichain:
    """A frontier; None is the empty one."""
    return Antichain.empty() if time is None else Antichain.of(time)


def updates(*rows: tuple[str | None, int, int]) -> pa.Table:
    """Updates ``(x, time, diff)``."""
    columns = list(zip(*rows)) if rows else [(), (), ()]
    return pa.table(
        [
            pa.array(columns[0], pa.string()),
            pa.array(columns[1], pa.int64()),
            pa.array(columns[2], pa.int64()),
        ],
        names=["x", "_mv_time", "_mv_diff"],
    )


def rows(table: pa.Table) -> list[tuple[Any, int]]:
    """A snapshot as sorted ``(x, diff)``."""
    return sorted(((r["x"], r["_mv_diff"]) for r in table.to_pylist()), key=repr)


def staged(handle: Any) -> set[str]:
    """The data files below ``batches/``, live or not."""
    return {file.path for file in handle.storage.list_files("table")}


def live(handle: Any) -> set[str]:
    """The paths of the live files."""
    return {file.path for file in handle.state().files}


def widened(table: pa.Table, **columns: list[Any]) -> pa.Table:
    """``table`` of updates with more columns of text."""
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values, pa.string()))
    return table


def evolve(handle: Any, name: str, state: Any = None) -> bool:
    """Add a column to ``state``, the newest unless given: all live files as one batch, NULL in it.
    False if another writer was faster.
    """
    state = state or handle.state()
    schema = pa.schema([*state.schema, (name, pa.string())])
    files = state.files
    rows_ = pa.concat_tables(
        [
            physical_schema(schema).empty_table(),
            *(handle.storage.read(f, physical_schema(schema)) for f in files),
        ]
    )
    directory = handle.stage()
    part = handle.storage.write_part(f"{directory.path}/part-00000.parquet", rows_.schema)
    part.write(rows_)
    part.close()
    batch = handle.adopt(directory, at(0), at(None), schema)
    return bool(handle.evolve([batch] if batch.rows else [], schema, files).applied)


def read(opened: ShardClient, uri: str, as_of: int) -> list[tuple[Any, int]]:
    """The collection at ``as_of``."""
    with opened.open_reader(uri) as reader:
        return rows(reader.snapshot(as_of))


def pairs(frame: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Anything iterable as sorted tuples."""
    return sorted(tuple(item) for item in frame)
