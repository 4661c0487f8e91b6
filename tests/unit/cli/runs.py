"""A shard of three columns that three runs have written, for the commands about the past."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from dbt.adapters.mvsink.shard import Antichain, CommitNote, ShardClient, WriteHandle
from tests.unit.cli.shop import HOUR, NOW, Shop

MODEL = "model.shop.orders"
SCHEMA = pa.schema([("id", pa.int32()), ("v", pa.string()), ("odd `name", pa.int64())])
FIRST, SECOND, THIRD = NOW - 3 * HOUR, NOW - 2 * HOUR, NOW - HOUR


def run(handle: WriteHandle, time: int, invocation: str, *rows: tuple[Any, ...]) -> None:
    """One run at ``time``: rows of the shard's columns and a diff."""
    columns = list(zip(*rows)) if rows else [()] * 4
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, handle.schema)], schema=handle.schema)
    table = table.append_column("_mv_time", pa.array([time] * len(rows), pa.int64()))
    table = table.append_column("_mv_diff", pa.array(columns[-1], pa.int64()))
    first = handle.upper == Antichain.of(0)
    handle.compare_and_append(
        table,
        handle.upper,
        Antichain.of(time + 1),
        since=Antichain.of(time) if first else None,
        note=CommitNote(computed_through=time, invocation_id=invocation, definition=f"text {invocation[:4]}"),
        creation=time if first else None,
    )


def writer(shop: Shop, relation: str, target: str = "dev", schema: pa.Schema = SCHEMA) -> WriteHandle:
    """A new shard of `orders` in ``target``."""
    handle = ShardClient().open_writer(str(shop.at(relation)), schema, "test")
    owner = {"project": "shop", "unique_id": MODEL, "target": target}
    handle.set_properties({"owner": json.dumps(owner, sort_keys=True)})
    return handle


def three_runs(shop: Shop) -> WriteHandle:
    """`s.orders`: three rows; then one changes and two equal ones are added; then one changes and
    one goes.
    """
    handle = writer(shop, "s.orders")
    run(handle, FIRST, "aaaa1111-0", (1, "a", 5, 1), (2, "b", 5, 1), (None, "c", 5, 1))
    run(handle, SECOND, "bbbb2222-0", (2, "b", 5, -1), (2, None, 6, 1), (3, "d", 5, 2))
    run(handle, THIRD, "cccc3333-0", (1, "a", 5, -1), (None, "c", 5, -1), (None, "z", 5, 1))
    return handle
