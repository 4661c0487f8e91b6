"""Rounds of `mvsink watch`: which models are due, why, and what came of running them. Knows neither
dbt nor Spark; time is given.

A model is due

- in the first round, and until it has once succeeded;
- if something that it reads has changed since it was last read, or somebody else has written its
  own shard;
- with a schedule, when the next refresh is reached, and then only;
- every ``interval``, if it reads something that cannot be looked at.

What is downstream of a due model is due with it. A model that failed waits before it is tried
again, twice as long each time, and nothing it missed is forgotten: what was seen before a run is
remembered only if the run succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dbt.adapters.mvsink.cli.dbt_runner import Model, Ran
from dbt.adapters.mvsink.cli.probes import Inputs, Kind, Look, Place, changed_since

LONGEST_WAIT = 60_000  # ms between attempts at a model that fails
Seen = Mapping[Place, Look | None]


@dataclass(frozen=True)
class Why:
    """Why a model is due. ``since``: when what it does not show yet came about (ms), None if that
    is not known.
    """

    text: str
    since: int | None = None


@dataclass
class Watched:
    """A model that is watched. ``own`` is its shard, ``upstream`` the watched models it reads,
    directly or not; times are ms.
    """

    model: Model
    own: Place
    upstream: frozenset[str] = frozenset()
    inputs: Inputs | None = None  # None: not found out yet
    seen: dict[Place, Look | None] = field(default_factory=dict)
    last_run: int | None = None
    failures: int = 0
    wait_until: int = 0

    def places(self, shards: Mapping[str, Place]) -> set[Place]:
        """All that is looked at for it."""
        found = set() if self.inputs is None else set(self.inputs.places)
        return found | {self.own} | {shards[name] for name in self.upstream}

    def due(self, looks: Seen, now: int, last_look: int, interval: int) -> Why | None:
        """``last_look``: when it was looked before this time; what has changed since came about
        after that.
        """
        if now < self.wait_until:
            return None
        if self.last_run is None:
            return Why("again, after a failure" if self.failures else "first round")
        own = looks.get(self.own)
        if own is not None and own.scheduled:
            return Why("its schedule", own.due) if own.due is not None and own.due <= now else None
        changed = [
            place for place in self.seen if _signature(looks.get(place)) != _signature(self.seen[place])
        ]
        if changed:
            times = [time for place in changed for time in changed_since(self.seen[place], looks.get(place))]
            return Why(
                ", ".join(sorted(place.label for place in changed)),
                max(last_look, min(times, default=last_look)),
            )
        blind = self.inputs is None or self.inputs.blind
        return Why("its interval") if blind and now >= self.last_run + interval else None


@dataclass(frozen=True)
class Round:
    """What a round did. ``fresh`` is how long (ms) after the oldest change the models showed it;
    None if no change is known.
    """

    ran: tuple[Ran, ...]
    why: Mapping[str, Why]
    started: int
    ended: int

    @property
    def fresh(self) -> int | None:
        times = [self.why[ran.unique_id].since for ran in self.ran if ran.ok and ran.unique_id in self.why]
        known = [time for time in times if time is not None]
        return self.ended - min(known) if known else None


class Rounds:
    """The state of a watch. ``look`` takes a place and the time (ms); ``intruded`` tells whether
    another than the last run wrote a shard.
    """

    def __init__(
        self,
        watched: Iterable[Watched],
        look: Callable[[Place, int], Look | None],
        intruded: Callable[[Place, Look | None], bool],
        interval: int,
        now: int,
    ):
        self.watched = {each.model.unique_id: each for each in watched}
        self.look, self.intruded, self.interval = look, intruded, interval
        self.last_look = now

    @property
    def shards(self) -> dict[str, Place]:
        return {unique_id: each.own for unique_id, each in self.watched.items()}

    def due(self, now: int) -> tuple[dict[str, Why], Seen]:
        """Who is due at ``now`` and why, and what was seen for that."""
        places = {place for each in self.watched.values() for place in each.places(self.shards)}
        looks = {place: self.look(place, now) for place in places}
        found = {
            name: why
            for name, each in self.watched.items()
            if (why := each.due(looks, now, self.last_look, self.interval))
        }
        self.last_look = now
        return {**self._downstream(found, looks, now), **found}, looks

    def _downstream(self, due: Mapping[str, Why], looks: Seen, now: int) -> dict[str, Why]:
        """What is downstream of what is due, with the oldest reason's time; a schedule is not
        hurried.
        """
        found = {}
        for name, each in self.watched.items():
            above = [due[up] for up in each.upstream if up in due]
            own = looks.get(each.own)
            if above and now >= each.wait_until and not (own is not None and own.scheduled):
                times = [why.since for why in above if why.since is not None]
                found[name] = Why("upstream", min(times, default=None))
        return found

    def done(self, ran: Sequence[Ran], before: Seen, started: int, ended: int) -> None:
        """Remember what the models that succeeded have seen; have the others wait."""
        after: dict[Place, Look | None] = {}
        written = {
            self.watched[each.unique_id].own for each in ran if each.ok and each.unique_id in self.watched
        }
        for place in written:
            after[place] = (
                before.get(place) if self.intruded(place, before.get(place)) else self.look(place, ended)
            )
        for each in ran:
            if each.unique_id in self.watched:
                self._one(self.watched[each.unique_id], each, {**before, **after}, started, ended)

    def failed(self, names: Iterable[str], now: int) -> None:
        """dbt itself failed: all of them wait."""
        for name in names:
            _wait(self.watched[name], now)

    def _one(self, watched: Watched, ran: Ran, seen: Seen, started: int, ended: int) -> None:
        if not ran.ok:
            _wait(watched, ended)
            return
        watched.last_run, watched.failures, watched.wait_until = started, 0, 0
        watched.seen = {place: seen.get(place) for place in watched.places(self.shards)}

    def learned(self, name: str, inputs: Inputs, now: int, own: Place | None = None) -> None:
        """What a model reads, and where its shard is, found out after its run.

        A place that is new and may have changed since the run began makes the model due again.
        """
        watched = self.watched[name]
        watched.inputs = inputs
        if own is not None and own != watched.own:
            before, watched.own, look = watched.own, own, self.look(own, now)
            for each in self.watched.values():
                if each is watched or name in each.upstream:
                    each.seen.pop(before, None)
                    each.seen[own] = look
        for place in inputs.places - set(watched.seen):
            watched.seen[place] = _as_of(place, self.look(place, now), watched.last_run or 0)


def _as_of(place: Place, look: Look | None, time: int) -> Look | None:
    """A look as it was at ``time`` (ms), as far as it tells; one that no look equals if it does
    not.
    """
    if look is None:
        return None
    older = {name: file for name, file in look.files.items() if file[1] < time}
    settled = place.kind is not Kind.SHARD and len(older) == len(look.files)
    return look if settled else Look("", older)


def _signature(look: Look | None) -> str | None:
    return None if look is None else look.signature


def _wait(watched: Watched, now: int) -> None:
    watched.failures += 1
    watched.wait_until = now + min(LONGEST_WAIT, 1000 * 2**watched.failures)
