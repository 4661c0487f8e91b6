"""Earlier generations of a shard that stay readable for a while after a new one has begun.

The commit that begins a generation can keep the one before it: it records the version at which that
ended, and until when its files must stay. Garbage collection leaves those files alone until then,
and the log keeps the commits up to that version. Everything that the earlier generation could be
read at can still be read, at that version. A generation that begins without keeping the one before
it ends everything before: what is kept is always the newest generations without a gap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dbt.adapters.mvsink.shard.frontier import Antichain
from dbt.adapters.mvsink.shard.state import Change, KeptGeneration, ShardState

StateAt = Callable[[int], ShardState | None]


@dataclass(frozen=True)
class PastGeneration:
    """The ``last`` version of a generation that is kept, and the time (ms) from which on the next
    one has the contents.
    """

    last: ShardState
    end: int

    def has(self, time: int) -> bool:
        """Whether it has the contents as of ``time`` (ms). Between its newest time and its end
        nothing was written.
        """
        return self.last.since.less_equal_time(time) and time < self.end


def keeping(state: ShardState, until: int | None, since: Antichain) -> tuple[KeptGeneration, ...]:
    """What the generation that follows ``state`` and begins at ``since`` keeps: that one ``until``
    a time (ms), and what it keeps itself; with None nothing.
    """
    if until is None:
        return ()
    return (*state.kept, KeptGeneration(state.generation, state.version, until, since.stored()))


def ended(kept: tuple[KeptGeneration, ...], since: Antichain) -> tuple[KeptGeneration, ...]:
    """``kept`` once history before ``since`` is given up: a generation whose contents end at or
    before it is kept no longer.
    """
    return tuple(each if since.less_than(Antichain.of(each.end)) else replace(each, until=0) for each in kept)


def giving_up(state: ShardState, since: Antichain, *, despite_holds: bool = False) -> Change | None:
    """Give up history before ``since``, in earlier generations too; None if there is none. Holds
    keep what they need, unless ``despite_holds``.
    """
    bounded = since.meet(state.upper)
    for hold in () if despite_holds else state.holds.values():
        bounded = bounded.meet(Antichain.of(hold))
    moved, kept = state.since.join(bounded), ended(state.kept, bounded)
    if (moved, kept) == (state.since, state.kept):
        return None
    return Change("advance", {"since": moved, "kept": kept})


def unexpired(state: ShardState, now: int) -> tuple[KeptGeneration, ...]:
    """The generations before ``state``'s that must stay readable at ``now`` (ms, by the storage's
    clock), oldest first.
    """
    return () if state.dropped is not None else tuple(each for each in state.kept if each.until > now)


def readable_generations(state: ShardState, now: int, state_at: StateAt) -> tuple[PastGeneration, ...]:
    """These with their last versions, as far as the log has them."""
    ended = [(state_at(each.version), each.end) for each in unexpired(state, now)]
    return tuple(PastGeneration(last, end) for last, end in ended if last is not None and last.readable)


def as_of_generation(
    state: ShardState, time: int, earlier: Callable[[], tuple[PastGeneration, ...]]
) -> tuple[ShardState, int]:
    """The version that has the contents as of ``time`` (ms), and the time to read it at: ``state``,
    or one of the ``earlier`` generations if ``time`` is before its contents begin. If none has
    them, ``state`` and ``time``, which is not readable then.
    """
    if time < 0 or state.since.less_equal_time(time):
        return state, time
    for past in earlier():
        if past.has(time):
            upper = past.last.upper.as_option()
            return past.last, time if upper is None else min(time, upper - 1)
    return state, time
