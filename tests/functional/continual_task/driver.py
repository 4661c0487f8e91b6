"""One task, run by run, without dbt: an input shard that is written update by update, and the
task's output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from dbt.adapters.mvsink.continual_task.parse import parse
from dbt.adapters.mvsink.continual_task.task_driver import TaskDriver
from dbt.adapters.mvsink.continual_task.task_request import TaskOutcome, TaskRequest
from dbt.adapters.mvsink.engine import shard_columns
from dbt.adapters.mvsink.inputs import ShardInput
from dbt.adapters.mvsink.shard import Antichain, ShardClient, ShardState, WriteHandle
from tests.support.duck_engine import DuckEngine
from tests.support.session_engine import SessionEngine

ROWS = pa.schema([("key", pa.int64()), ("val", pa.int64())])
DAY = 86_400_000
NOW = "timestamp_millis(1700000000000L) /* mv_now */"  # what {{ mv_now() }} renders
DELETES = "db.i /* mv_deletes */"  # what {{ mv_deletes(ref('i')) }} renders
CONTENTS = "db.i /* mv_contents */"  # what {{ mv_contents(ref('i')) }} renders
UPSERT = """on input db.i as (
  delete from db.t where key in (select key from db.i);
  insert into db.t select key, max(val) as val from db.i group by key
)"""
COPY = "on input db.i as (insert into db.t select key, val from db.i)"


@dataclass
class Shard:
    """A shard of (key, val), written by the Python handle."""

    uri: str
    schema: pa.Schema = ROWS
    client: ShardClient = field(default_factory=ShardClient)

    def open(self) -> WriteHandle:
        return self.client.open_writer(self.uri, self.schema, "test")

    def table(self, time: int, updates: Sequence[tuple[Any, ...]]) -> pa.Table:
        """``(key, val, diff)`` at ``time``; ``(message, diff)`` is an error update."""
        rows = [
            (*(None for _ in self.schema), *u) if len(u) == 2 else (*u[:-1], None, u[-1]) for u in updates
        ]
        kinds = [*self.schema.types, pa.string(), pa.int64()]
        names = [*self.schema.names, "_mv_error", "_mv_diff"]
        columns = {
            name: pa.array([row[n] for row in rows], kind) for n, (name, kind) in enumerate(zip(names, kinds))
        }
        if all(row[-2] is None for row in rows):
            del columns["_mv_error"]
        return pa.table({**columns, "_mv_time": pa.array([time] * len(rows), pa.int64())})

    def write(self, time: int, updates: Sequence[tuple[Any, ...]], upper: int | None = None) -> None:
        """Append the updates at ``time``; the upper becomes ``time + 1``, or ``upper``."""
        with self.open() as handle:
            appended = self.table(time, updates)
            handle.compare_and_append(
                appended, handle.fetch_recent_upper(), Antichain.of(time + 1 if upper is None else upper)
            )

    def advance(self, upper: int | None) -> None:
        """Without updates; None finishes the shard."""
        with self.open() as handle:
            to = Antichain.empty() if upper is None else Antichain.of(upper)
            handle.compare_and_append_batch([], handle.fetch_recent_upper(), to)

    def remake(self, time: int, updates: Sequence[tuple[Any, ...]]) -> None:
        """A new generation that begins at ``time`` with these rows."""
        with self.open() as handle:
            lower, upper = Antichain.of(time), Antichain.of(time + 1)
            batch = handle.batch(self.table(time, updates), lower, upper)
            handle.replace([batch], self.schema, upper, lower, creation=time)

    def updates(self) -> list[tuple[Any, ...]]:
        """What it holds at since and all updates after it: ``(time, *row, diff)``, ``(time,
        message, diff)`` for an error.
        """
        with self.client.open_reader(self.uri) as reader:
            state = reader.state()
            if not state.readable:
                return []
            since = state.since.stored()
            stored, later = reader.snapshot(since), reader.updates(since + 1, state.upper.stored())
        stored = stored.append_column("_mv_time", pa.array([since] * stored.num_rows, pa.int64()))
        names = [*self.schema.names, "_mv_time", "_mv_diff", "_mv_error"]
        rows = [
            row
            for table in (stored, later)
            for row in zip(*(table.column(name).to_pylist() for name in names))
        ]
        return sorted(((r[-3], *(r[:-3] if r[-1] is None else (r[-1],)), r[-2]) for r in rows), key=repr)

    def contents(self) -> list[tuple[Any, ...]]:
        """The rows at the newest time, each as often as it occurs."""
        counted: dict[tuple[Any, ...], int] = {}
        for _, *thing, diff in self.updates():
            counted[tuple(thing)] = counted.get(tuple(thing), 0) + diff
        return sorted((thing for thing, count in counted.items() for _ in range(count)), key=repr)

    @property
    def upper(self) -> int | None:
        """None if it is finished."""
        return self.state().upper.as_option()

    def state(self) -> ShardState:
        with self.client.open_reader(self.uri) as reader:
            return reader.state()


@dataclass
class Task:
    """A task over the shard ``db.i``; `{{ this }}` is ``db.t``, references are shards by name.
    Without a session it runs on DuckDB.
    """

    session: Any
    root: Path
    text: str
    references: tuple[str, ...] = ()
    schema: pa.Schema = ROWS
    options: dict[str, Any] = field(default_factory=dict)
    client: ShardClient = field(default_factory=ShardClient)

    @property
    def input(self) -> Shard:
        return Shard(str(self.root / "i"), client=self.client)

    @property
    def output(self) -> Shard:
        return Shard(str(self.root / "t"), self.schema, self.client)

    def reference(self, name: str) -> Shard:
        return Shard(str(self.root / name.split(".")[-1]), client=self.client)

    def engine(self) -> Any:
        return SessionEngine(self.session) if self.session is not None else DuckEngine()

    def shard(self, shard: Shard, engine: Any) -> ShardInput:
        name = shard.uri.rsplit("/", 1)[-1]
        return ShardInput(WriteHandle.from_read(self.client.open_reader(shard.uri), "test"), engine, name)

    def run(self, time: int, **changes: Any) -> TaskOutcome:
        """One run at ``time``; ``changes`` are of the request, or an ``engine``."""
        engine = changes.pop("engine", None) or self.engine()
        one_by_one = changes.pop("one_by_one", False)
        program = parse(self.text, "db.t", "db.t")
        with self.output.open() as handle:
            request = TaskRequest(
                model="db.t",
                program=program,
                columns=changes.pop("columns", None) or shard_columns(handle.schema),
                time=time,
                clock=time,
                **{"retain_history": DAY, "held_references": self.references, **self.options, **changes},
            )
            references = {name: self.shard(self.reference(name), engine) for name in self.references}
            driver = TaskDriver(request, handle, engine, self.shard(self.input, engine), references)
            driver.one_by_one = one_by_one
            return driver.run()
