"""One round of a run, from mint to append: what is to be written, and what was staged for it.

`run_plan` plans it, `strategy` stages it, `gate` judges it, and `driver` appends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
    """``time``: the write time in ms, None if no refresh is due. ``upper``: the shard's next upper.

    ``creation``: the logical time (ms) at which the generation began. ``generation``: why all
    contents are replaced, empty if they are not. ``begins``: the commit records the creation.
    ``added``: columns that the shard gets before it is written.
    """

    creation: int
    time: int | None
    upper: Antichain
    generation: str = ""
    begins: bool = False
    added: tuple[Column, ...] = ()


@dataclass(frozen=True)
class Round:
    """``description`` is the batch after which the shard, in ``state`` and with the files of
    ``shard``, holds ``desired`` from the plan's time on.
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


@dataclass(frozen=True)
class Written:
    """A staged correction; `batch` is None if there is nothing to append.

    With a ``negation`` of all that the shard holds, ``batch`` is all that it should hold.
    ``incremental``: it follows from the changes of the inputs, or of the model's sums, if it is
    ``summed``. ``full``: why it does not. ``loaded``: the shard was empty. ``drift``: what was
    wrong before, None if that is not known. ``way``: the way in which it was computed, if it was
    the only one that was tried.
    ``share``, ``audits``, ``audited``: see `CommitNote`. ``proof``: what to record of how the
    query's changes are read (`trust`). ``compared``: with all rows of the query, by an
    independent digest; ``rewritten``: why not with those of the text as its author wrote it.
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
    audits: tuple[str, ...] = ()
    audited: int | None = None
    evaluated: bool = True  # False: no contents were computed, only the upper moves

    @property
    def batches(self) -> tuple[Batch, ...]:
        return tuple(batch for batch in (self.batch, self.negation) if batch is not None)

    @property
    def mode(self) -> str:
        """For the commit's note."""
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
    """A correction that is not to be appended: its counts, its number of updates, and some of
    these. ``incremental``, ``full``: see `Written`.
    """

    counts: Counts
    updates: int
    sample: tuple[tuple[object, ...], ...] = ()
    incremental: bool = False
    full: EvaluateFully = EvaluateFully()
