"""When each reference is read for a pending time, and which ones are late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dbt.adapters.mvsink.continual_task.request import Late
from dbt.adapters.mvsink.continual_task.task_input import NO_TIME
from dbt.adapters.mvsink.inputs import ShardInput
from dbt.adapters.mvsink.shard import Antichain
from dbt.adapters.mvsink.shard_sql import NotRefreshed


@dataclass
class ReferenceTimes:
    """The times at which references are read.

    ``wait``: a late reference is waited for, rather than read at its newest time. ``late``: those
    that were late in this run, by name.
    """

    references: Mapping[str, ShardInput]
    wait: bool
    late: dict[str, Late] = field(default_factory=dict)

    def waits_at(self, time: int) -> list[Late]:
        """The references to wait for at ``time`` (ms)."""
        if not self.wait:
            return []
        frontiers = {name: reference.frontier() for name, reference in self.references.items()}
        waits = {
            name: Late(name, time, frontier.stored(), waits=True)
            for name, frontier in frontiers.items()
            if not Antichain.of(time).less_than(frontier)
        }
        self.late |= waits
        return list(waits.values())

    def contents(self, time: int) -> dict[str, str]:
        """The references' rows for a change at ``time`` (ms), as SQL, by name."""
        return {name: each.contents(self._read_at(name, time)) for name, each in self.references.items()}

    def _read_at(self, name: str, time: int) -> int:
        """``time``, or the reference's newest time before it."""
        frontier = self.references[name].frontier()
        if Antichain.of(time).less_than(frontier):
            return time
        if frontier == NO_TIME:
            raise NotRefreshed(name)
        self.late[name] = Late(name, frontier.stored() - 1, frontier.stored(), waits=False)
        return frontier.stored() - 1
