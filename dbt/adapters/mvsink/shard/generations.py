"""Earlier generations of a shard that stay readable for a while after a new one has begun.

The commit that begins a generation can keep the one before it: it records the version at which that
ended, and until when its files must stay. Garbage collection leaves those files alone until then,
and the log keeps the commits up to that version. Everything that the earlier generation could be
read at can still be read, at that version. A generation that begins without keeping the one before
it ends everything before: what is kept is always the newest generations without a gap.
"""

from __future__ import annotations

from collections.abc import Callable

from dbt.adapters.mvsink.shard.state import KeptGeneration, ShardState

StateAt = Callable[[int], ShardState | None]


def keeping(state: ShardState, until: int | None) -> tuple[KeptGeneration, ...]:
    """What the generation that follows ``state`` keeps: that one ``until`` a time (ms), and what it
    keeps itself; with None nothing.
    """
    if until is None:
        return ()
    return (*state.kept, KeptGeneration(state.generation, state.version, until))


def unexpired(state: ShardState, now: int) -> tuple[KeptGeneration, ...]:
    """The generations before ``state``'s that must stay readable at ``now`` (ms, by the storage's
    clock), oldest first.
    """
    return () if state.dropped is not None else tuple(each for each in state.kept if each.until > now)


def readable_generations(state: ShardState, now: int, state_at: StateAt) -> tuple[ShardState, ...]:
    """The last version of each of these, as far as the log has them."""
    states = [state_at(each.version) for each in unexpired(state, now)]
    return tuple(each for each in states if each is not None and each.readable)


def as_of_generation(
    state: ShardState, time: int, earlier: Callable[[], tuple[ShardState, ...]]
) -> tuple[ShardState, int]:
    """The version that has the contents as of ``time`` (ms), and the time to read it at.

    That is ``state``, unless ``time`` is before its contents begin and one of the ``earlier``
    generations, oldest first, has them. Between the newest time of a generation and the first of
    the next one nothing was written, so the contents are still the former.
    """
    if time < 0 or state.since.less_equal_time(time):
        return state, time
    for before in reversed(earlier()):
        if before.since.less_equal_time(time):
            upper = before.upper.as_option()
            return before, time if upper is None else min(time, upper - 1)
    return state, time
