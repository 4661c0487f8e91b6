"""When each reference is read for a pending time, and which ones are late or hold an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dbt.adapters.mvsink.continual_task.task_input import NO_TIME
from dbt.adapters.mvsink.continual_task.task_request import Late
from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.inputs import ShardInput
from dbt.adapters.mvsink.shard import Antichain
from dbt.adapters.mvsink.shard_sql import NotRefreshed
from dbt.adapters.mvsink.user_sql.splice import replace_relations


@dataclass(frozen=True)
class Broken:
    """A reference that fails its readers as of ``time`` (ms), with the ``message`` of its error.
    ``healed``: it has no error at its newest time. ``late``: it was read at that time.
    """

    name: str
    time: int
    message: str
    healed: bool
    late: bool

    @property
    def words(self) -> str:
        """What is wrong, as a clause."""
        return f"the reference {self.name} holds a recorded error as of {iso(self.time)} ({self.time}): {self.message}"


@dataclass
class ReferenceTimes:
    """The times at which references are read.

    ``views``: queries of views that statements read, over ``references``, by the views' names.
    ``wait``: a late reference is waited for, rather than read at its newest time. ``late``: those
    that were late in this run, by name.
    """

    references: Mapping[str, ShardInput]
    wait: bool
    views: Mapping[str, str] = field(default_factory=dict)
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
        shards = {name: each.contents(self._read_at(name, time)) for name, each in self.references.items()}
        views = {name: replace_relations(query, dict(shards)) for name, query in self.views.items()}
        return {**shards, **views}

    def broken(self, time: int) -> Broken | None:
        """The first reference that holds an error for a change at ``time`` (ms)."""
        for name, reference in self.references.items():
            at = self._read_at(name, time)
            errors = reference.errors(at)
            if errors:
                newest = reference.frontier().stored() - 1
                healed = at != newest and not reference.errors(newest)
                return Broken(name, at, errors[0], healed, late=at < time)
        return None

    def _read_at(self, name: str, time: int) -> int:
        """``time``, or the reference's newest time before it."""
        frontier = self.references[name].frontier()
        if Antichain.of(time).less_than(frontier):
            return time
        if frontier == NO_TIME:
            raise NotRefreshed(name)
        self.late[name] = Late(name, frontier.stored() - 1, frontier.stored(), waits=False)
        return frontier.stored() - 1
