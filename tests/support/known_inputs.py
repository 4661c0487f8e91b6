"""Evidence of where shards stand, without dbt: for tests and benchmarks of incremental runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dbt.adapters.mvsink.incremental import NotIncremental, analyse
from dbt.adapters.mvsink.inputs.reference import Reference
from dbt.adapters.mvsink.inputs.shard_changes import sides_of_shard, unchanged_shard
from dbt.adapters.mvsink.limits import LOCAL_ROWS
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.shard import Progress, ShardClient, files_number, untouched
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.sink import Increment


@dataclass
class KnownInputs:
    """`Evidence` of the shards ``uris``, by the name that a ``query`` has for them. ``clock``: the
    time (ms) of the last contents, if the query uses `mv_now()`.
    """

    query: str
    uris: Mapping[str, str]
    engine: Any
    timed: bool = False
    read: dict[str, tuple[int, int]] = field(default_factory=dict)  # times and versions
    contents: int | None = None  # the time of the last contents
    references: dict[str, Reference] = field(default_factory=dict)
    moves: bool = False  # while it is read
    plan: int = 1
    never: bool = False  # incremental
    summed: bool = False  # the shards hold the model's sums

    def look(self) -> dict[str, Reference]:
        """The shards as they are now; the next run reads these."""
        for name, uri in self.uris.items():
            reader = ShardClient().open_reader(uri)
            state = reader.state()
            self.references[name] = Reference(
                name,
                uri,
                state,
                Layout.of(reader, state),
                read=reader.columns_of,
                history=reader.history,
                find=reader.find,
                state_at=reader.state_at,
            )
        return self.references

    def unchanged(self, state: Any, recorded: Any, time: int) -> bool:
        return False

    def settled(self, state: Any, recorded: Any, time: int) -> bool:
        versions = {name: reference.state.version for name, reference in self.references.items()}
        return bool(self.read) and versions == {name: version for name, (_, version) in self.read.items()}

    def progress(self, state: Any, time: int) -> Progress:
        self.contents = time
        self.read = {
            name: (reference.time_for(time), reference.state.version)
            for name, reference in self.references.items()
        }
        return Progress() if self.moves else Progress(plan=self.plan, files=files_number(state.files))

    def input_changes(self, state: Any, recorded: Any, time: int) -> None:
        return None

    def increment(self, state: Any, recorded: Any, time: int) -> Increment | EvaluateFully:
        if not self.read or self.contents is None:
            return EvaluateFully(Why.NOTHING_RECORDED)
        if self.never:
            return EvaluateFully(Why.NEVER)
        if state.plan and not untouched(state):
            return EvaluateFully(Why.OTHER_TOOL)
        analysed = analyse(self.query, self.columns_of)
        if isinstance(analysed, NotIncremental):
            return EvaluateFully(Why.NOT_INCREMENTAL, analysed.reason)
        sides = []
        for name in analysed.relations.keys() & self.references.keys():
            reference = self.references[name]
            (before, version), now = self.read[name], reference.time_for(time)
            side = (
                unchanged_shard(name, reference, now)
                if version == reference.state.version
                else sides_of_shard(name, reference, before, now, version)
            )
            if isinstance(side, EvaluateFully):
                return side
            sides.append(side)
        few = sum(reference.layout.rows for reference in self.references.values()) <= LOCAL_ROWS
        clock = (self.contents, time) if self.timed else None
        return Increment(analysed, tuple(sides), clock, small=self.summed and few)

    def columns_of(self, name: str) -> list[tuple[str, str]]:
        if name in self.references:
            return [(c.name, c.type.text) for c in self.references[name].layout.columns]
        return list(self.engine.columns(f"select * from {name}"))
