"""One task, run by run, without dbt: an input shard that is written update by update, and the task's output."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from dbt.adapters.mvsink.continual_task.execute import TaskDriver
from dbt.adapters.mvsink.continual_task.parse import parse
from dbt.adapters.mvsink.continual_task.request import TaskOutcome, TaskRequest
from dbt.adapters.mvsink.inputs import ShardInput
from dbt.adapters.mvsink.shard import Antichain, ShardClient, WriteHandle
from dbt.adapters.mvsink.sink import shard_columns
from tests.support.session_engine import SessionEngine

ROWS = pa.schema([("key", pa.int64()), ("val", pa.int64())])
DAY = 86_400_000


@dataclass
class Shard:
    """A shard of (key, val), written by the Python handle."""

    uri: str
    schema: pa.Schema = ROWS

    def open(self) -> WriteHandle:
        return ShardClient().open_writer(self.uri, self.schema, "test")

    def write(self, time: int, updates: list[tuple[Any, ...]], upper: int | None = None) -> None:
        """Append ``(key, val, diff)`` at ``time``; the upper becomes ``time + 1``, or ``upper``."""
        with self.open() as handle:
            table = pa.table(
                {
                    **{name: pa.array([u[i] for u in updates], kind) for i, (name, kind) in enumerate(zip(self.schema.names, self.schema.types))},
                    "_mv_time": pa.array([time] * len(updates), pa.int64()),
                    "_mv_diff": pa.array([u[-1] for u in updates], pa.int64()),
                }
            )
            handle.compare_and_append(table, handle.fetch_recent_upper(), Antichain.of(time + 1 if upper is None else upper))

    def advance(self, upper: int) -> None:
        with self.open() as handle:
            handle.compare_and_append_batch([], handle.fetch_recent_upper(), Antichain.of(upper))

    def updates(self) -> list[tuple[Any, ...]]:
        """All consolidated updates: ``(time, *row, diff)``."""
        with ShardClient().open_reader(self.uri) as reader:
            state = reader.state()
            table = reader.updates(state.since.stored(), state.upper.stored())
        names = [*self.schema.names, "_mv_time", "_mv_diff", "_mv_error"]
        rows = zip(*(table.column(name).to_pylist() for name in names))
        return sorted(((r[-3], *(r[:-3] if r[-1] is None else (r[-1],)), r[-2]) for r in rows), key=repr)

    @property
    def upper(self) -> int | None:
        with ShardClient().open_reader(self.uri) as reader:
            return reader.state().upper.as_option()

    def state(self) -> Any:
        with ShardClient().open_reader(self.uri) as reader:
            return reader.state()


@dataclass
class Task:
    """A task over the shard ``db.i``; `{{ this }}` is ``db.t``, references are shards by name."""

    session: Any
    root: Path
    text: str
    references: tuple[str, ...] = ()
    schema: pa.Schema = ROWS
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def input(self) -> Shard:
        return Shard(str(self.root / "i"))

    @property
    def output(self) -> Shard:
        return Shard(str(self.root / "t"), self.schema)

    def reference(self, name: str) -> Shard:
        return Shard(str(self.root / name.split(".")[-1]))

    def engine(self) -> SessionEngine:
        return SessionEngine(self.session)

    def shard(self, shard: Shard, engine: SessionEngine) -> ShardInput:
        return ShardInput(WriteHandle.from_read(ShardClient().open_reader(shard.uri), "test"), engine)

    def run(self, time: int, **changes: Any) -> TaskOutcome:
        engine = changes.pop("engine", None) or self.engine()
        program = parse(self.text, "db.t", "db.t")
        with self.output.open() as handle:
            request = TaskRequest(
                model="db.t",
                program=program,
                columns=shard_columns(handle.schema),
                time=time,
                clock=time,
                retain_history=DAY,
                held_references=self.references,
                **{**self.options, **changes},
            )
            references = {name: self.shard(self.reference(name), engine) for name in self.references}
            return TaskDriver(request, handle, engine, self.shard(self.input, engine), references).run()
