"""The request and outcome of a task's run, between dbt's layer and `task_driver`. Times are in
ms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dbt.adapters.mvsink.continual_task.statements import Program
from dbt.adapters.mvsink.engine import Column
from dbt.adapters.mvsink.shard import ShardState
from dbt.adapters.mvsink.shard_sql import Counts, Kind, OnError, RunOutcome


@dataclass(frozen=True)
class TaskRequest:
    """A run of a task at the logical ``time``. ``clock`` is the wall clock; ``columns`` are the
    output's.

    ``awaited`` are the references that are waited for if they have not passed a pending time.
    ``held_references`` are those on which this task may keep a hold: shards of its own project and
    target. With
    ``reset`` the task discards its output and starts from scratch. With ``skip_errors`` the errors
    that the task has recorded are taken back; the failed effects are not repeated. ``definition``
    is a digest of the model's text, for the log.
    """

    model: str
    program: Program
    columns: tuple[Column, ...]
    time: int
    clock: int
    retain_history: int
    initial_snapshot: bool = True
    on_error: OnError = OnError.FAIL
    awaited: frozenset[str] = frozenset()
    held_references: tuple[str, ...] = ()
    reset: bool = False
    skip_errors: bool = False
    invocation_id: str = ""
    definition: str = ""

    def begun(self) -> TaskRequest:
        """The same after its reset."""
        return replace(self, reset=False)


@dataclass(frozen=True)
class Late:
    """A reference that has not passed a pending time: it was read as of ``time``, or ``time`` waits
    for it. ``model`` is its unique id, and ``why`` says, as a clause, what keeps it; both are empty
    if that is not known.
    """

    name: str
    time: int
    upper: int
    waits: bool
    model: str = ""
    why: str = ""


@dataclass(frozen=True)
class TaskOutcome(RunOutcome):
    """An outcome. ``times`` were processed; ``waiting`` counts those that wait for a reference."""

    times: tuple[int, ...] = ()
    waiting: int = 0
    pending: int | None = None  # read-only: how many times would be processed, if known
    late: tuple[Late, ...] = ()

    @classmethod
    def previewed(cls, state: ShardState, time: int, pending: int | None) -> TaskOutcome:
        """The outcome of a read-only run at ``time``."""
        return cls(Kind.READ_ONLY, Counts(), state.upper, state.upper, time, state, pending=pending)
