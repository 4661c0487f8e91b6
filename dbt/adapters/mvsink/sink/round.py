"""One round of a run, from mint to append: what to write, and what was staged for it.

`run_plan` plans it, `strategy` stages it, `gate` judges it, and `driver` appends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.engine import Column
from dbt.adapters.mvsink.reasons import EvaluateFully
from dbt.adapters.mvsink.shard import Antichain, Batch, ShardState
from dbt.adapters.mvsink.shard_sql import BatchDescription, Counts, Layout
from dbt.adapters.mvsink.sink.correction import Desired
from dbt.adapters.mvsink.sink.run_history import EVALUATED, INCREMENTAL, LOADED, SUMMED
from dbt.adapters.mvsink.sink.trust import Drift

DROPPED, FULL_REFRESH, DEFINITION_CHANGED = "dropped before", "full refresh", "definition changed"


@dataclass(frozen=True)
class RunPlan:
    """``time`` is the write time in ms, None if no refresh is due; ``upper`` is the shard's next
    upper.

    ``creation`` is the logical time (ms) at which the generation began; with ``begins``, the commit
    records it. ``generation`` says why all contents are replaced, and is empty if they are not.
    ``evolved`` are columns that the shard gets, or gets a wider type of, before it is written.
    """

    creation: int
    time: int | None
    upper: Antichain
    generation: str = ""
    begins: bool = False
    evolved: tuple[Column, ...] = ()


@dataclass(frozen=True)
class Round:
    """What one batch has to do. Before it, the shard is in ``state`` with the files of ``shard``;
    after the batch of ``description``, it holds ``desired`` from the plan's time on.
    """

    state: ShardState
    plan: RunPlan
    shard: Layout
    description: BatchDescription
    desired: Desired

    @property
    def time(self) -> int:
        """The write time in ms."""
        assert self.plan.time is not None
        return self.plan.time

    @property
    def by_whole_rows(self) -> bool:
        """Whether the shard is so small that it is compared by whole rows."""
        size = sum(file.size for file in self.shard.files)
        return self.shard.rows <= limits.COMPARED_WHOLE and size <= limits.COMPARED_WHOLE_BYTES


@dataclass(frozen=True)
class Written:
    """A staged correction; `batch` is None if there is nothing to append.

    With a ``negation`` of all that the shard holds, ``batch`` is all that it should hold. An
    ``incremental`` correction follows from the changes of the inputs or, if ``summed``, of the
    model's sums; ``full`` says why it does not. ``loaded`` means that the shard was empty.
    ``drift`` is what was wrong before, None if that is not known. ``way`` is how it was computed,
    if no other way was tried. ``proof`` is what to record about how the query's changes are read
    (`trust`). ``compared`` means that it was compared with all rows of the query by an independent
    digest; ``rewritten`` says why these were not the rows of the author's text. `CommitNote`
    explains ``share``, ``input_changes``, ``audits`` and ``audited``.
    """

    batch: Batch | None
    counts: Counts
    candidate_buckets: int | None = None  # None: there was no detection by buckets
    evaluated_once: bool = False
    negation: Batch | None = None
    incremental: bool = False
    summed: bool = False
    full: EvaluateFully = EvaluateFully()
    drift: Drift | None = None
    loaded: bool = False
    proof: Mapping[str, int] = field(default_factory=dict)
    compared: bool = False
    rewritten: str = ""
    way: str = ""
    share: float | None = None
    input_changes: int | None = None
    audits: tuple[str, ...] = ()
    audited: int | None = None
    evaluated: bool = True  # False: no contents were computed, only the upper moves

    @property
    def batches(self) -> tuple[Batch, ...]:
        return tuple(batch for batch in (self.batch, self.negation) if batch is not None)

    @property
    def follows(self) -> bool:
        """Whether it follows from what is known of the changes of the inputs."""
        return self.incremental or not self.evaluated

    @property
    def mode(self) -> str:
        """How the contents were computed, for the commit's note."""
        if not self.evaluated:
            return ""
        if self.incremental:
            return SUMMED if self.summed else INCREMENTAL
        return LOADED if self.loaded else EVALUATED

    def delete(self) -> None:
        """Delete what is staged."""
        for batch in self.batches:
            batch.delete()


NOTHING_WRITTEN = Written(None, Counts())


@dataclass(frozen=True)
class Previewed:
    """A correction that will not be appended: its counts, its number of updates, and some of these.
    `Written` explains ``incremental`` and ``full``.
    """

    counts: Counts
    updates: int
    sample: tuple[tuple[object, ...], ...] = ()
    incremental: bool = False
    full: EvaluateFully = EvaluateFully()
