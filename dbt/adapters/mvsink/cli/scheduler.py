"""Decides which models `mvsink watch` runs and when. It calls neither dbt nor Spark and reads no
clock, so tests need none of them.

A model is due

- in the first round, and until it has succeeded once;
- when one of its inputs has changed since its last run, or another writer wrote to its shard;
- if it has a schedule, when the next refresh is reached, and only then;
- every ``interval``, if it reads something whose changes cannot be tracked, or if it is a task that
  waits for a reference to be refreshed;
- when a task began to wait for it, and every ``interval`` as long as the task does.

Models downstream of a due model are due with it. A model that failed is retried after a wait that
doubles each time. It misses no change, because the state of its inputs is remembered only after a
run that succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dbt.adapters.mvsink.cli.dbt_runner import Model, RunResult
from dbt.adapters.mvsink.inputs.position import SHARD, Observation
from dbt.adapters.mvsink.inputs.probes import ProbedPlace, ProbedPlaces, changed_since

MAX_WAIT = 60_000  # ms between attempts at a model that fails
Observations = Mapping[ProbedPlace, Observation | None]


@dataclass(frozen=True)
class Reason:
    """Why a model is due. ``since`` is when (ms) the change happened; None if that is not known."""

    text: str
    since: int | None = None


@dataclass
class WatchedModel:
    """A watched model with its ``own`` shard and the ids of the watched models ``upstream`` of it.

    ``processed`` has the states of these and of its inputs that its last successful run knew, and
    ``awaited`` the ids of the models that a task waited for then. Times are ms.
    """

    model: Model
    own: ProbedPlace
    upstream: frozenset[str] = frozenset()
    inputs: ProbedPlaces | None = None  # None: not known yet
    processed: dict[ProbedPlace, Observation | None] = field(default_factory=dict)
    awaited: frozenset[str] = frozenset()
    last_run: int | None = None
    failures: int = 0
    wait_until: int = 0

    def places(self, shards: Mapping[str, ProbedPlace]) -> set[ProbedPlace]:
        """All places that are probed for it."""
        inputs = set() if self.inputs is None else set(self.inputs.places)
        return inputs | {self.own} | {shards[name] for name in self.upstream}

    def due(self, current: Observations, now: int, last_probe: int, interval: int) -> Reason | None:
        """Why it is due at ``now``, or None. A change that is found now counts as later than
        ``last_probe``, the time (ms) of the probe before.
        """
        if now < self.wait_until:
            return None
        if self.last_run is None:
            return Reason("again, after a failure" if self.failures else "first round")
        own = current.get(self.own)
        if own is not None and own.scheduled:
            return Reason("its schedule", own.due) if own.due is not None and own.due <= now else None
        changed = [
            place
            for place, before in self.processed.items()
            if _signature(current.get(place)) != _signature(before)
        ]
        if changed:
            times = [
                time for place in changed for time in changed_since(self.processed[place], current.get(place))
            ]
            return Reason(
                ", ".join(sorted(place.label for place in changed)),
                max(last_probe, min(times, default=last_probe)),
            )
        untrackable = self.inputs is None or self.inputs.untrackable or self.awaited
        return Reason("its interval") if untrackable and now >= self.last_run + interval else None


@dataclass(frozen=True)
class WatchRound:
    """The results of one round. Times are ms."""

    results: tuple[RunResult, ...]
    reasons: Mapping[str, Reason]
    started: int
    ended: int

    @property
    def delay(self) -> int | None:
        """From the oldest change to the end of the round (ms); None if no change is known."""
        models = [result.unique_id for result in self.results if result.ok]
        times = [self.reasons[model].since for model in models if model in self.reasons]
        known = [time for time in times if time is not None]
        return self.ended - min(known) if known else None


class Scheduler:
    """The state of a watch.

    ``probe`` returns the state of a place at a time (ms). ``written_by_others`` returns whether,
    since an observation, a shard was written by anything but the last run.
    """

    def __init__(
        self,
        watched: Iterable[WatchedModel],
        probe: Callable[[ProbedPlace, int], Observation | None],
        written_by_others: Callable[[ProbedPlace, Observation | None], bool],
        interval: int,
        now: int,
    ):
        self.watched = {each.model.unique_id: each for each in watched}
        self.probe, self.written_by_others, self.interval = probe, written_by_others, interval
        self.last_probe = now

    @property
    def shards(self) -> dict[str, ProbedPlace]:
        return {unique_id: each.own for unique_id, each in self.watched.items()}

    def due(self, now: int) -> tuple[dict[str, Reason], Observations]:
        """The models that are due at ``now``, why, and the observations that this follows from."""
        places = {place for each in self.watched.values() for place in each.places(self.shards)}
        current = {place: self.probe(place, now) for place in places}
        due = {
            name: reason
            for name, each in self.watched.items()
            if (reason := each.due(current, now, self.last_probe, self.interval))
        }
        due = {**self._awaited(current, now), **due}
        self.last_probe = now
        return {**self._downstream(due, current, now), **due}, current

    def _awaited(self, current: Observations, now: int) -> dict[str, Reason]:
        """The models for which a task waits: nothing else may make them due. Those with a schedule
        run when it says.
        """
        due = {}
        for task in self.watched.values():
            for name in task.awaited & self.watched.keys():
                each, own = self.watched[name], current.get(self.watched[name].own)
                began = each.last_run is not None and each.last_run < (task.last_run or 0)
                again = each.last_run is None or now >= each.last_run + self.interval
                scheduled = own is not None and own.scheduled
                if (began or again) and now >= each.wait_until and not scheduled:
                    due[name] = Reason("a task waits for it")
        return due

    def _downstream(self, due: Mapping[str, Reason], current: Observations, now: int) -> dict[str, Reason]:
        """The models downstream of those that are due, with the time of the oldest reason. Models
        with a schedule are left out: they run when it says.
        """
        downstream = {}
        for name, each in self.watched.items():
            above = [due[up] for up in each.upstream if up in due]
            own = current.get(each.own)
            if above and now >= each.wait_until and not (own is not None and own.scheduled):
                times = [reason.since for reason in above if reason.since is not None]
                downstream[name] = Reason("upstream", min(times, default=None))
        return downstream

    def done(self, results: Sequence[RunResult], before: Observations, started: int, ended: int) -> None:
        """Remember which states of their inputs the successful models have processed. The failed
        ones wait before they are tried again.
        """
        after: dict[ProbedPlace, Observation | None] = {}
        watched = {result.unique_id: result for result in results if result.unique_id in self.watched}
        for place in {self.watched[name].own for name, result in watched.items() if result.ok}:
            observed = before.get(place)
            after[place] = observed if self.written_by_others(place, observed) else self.probe(place, ended)
        for name, result in watched.items():
            self._remember(self.watched[name], result, {**before, **after}, started, ended)

    def failed(self, names: Iterable[str], now: int) -> None:
        """Record that dbt itself failed: all of these models wait before they are tried again."""
        for name in names:
            _wait(self.watched[name], now)

    def _remember(
        self, watched: WatchedModel, result: RunResult, observations: Observations, started: int, ended: int
    ) -> None:
        if not result.ok:
            _wait(watched, ended)
            return
        watched.last_run, watched.failures, watched.wait_until = started, 0, 0
        watched.awaited = frozenset(result.response.get("waits_for") or ())
        watched.processed = {place: observations.get(place) for place in watched.places(self.shards)}

    def learned(self, name: str, inputs: ProbedPlaces, now: int, own: ProbedPlace | None = None) -> None:
        """Record what a model reads and where its shard is, which is determined after its run.

        If a place that was not known before may have changed since that run began, the model is due
        again.
        """
        watched = self.watched[name]
        watched.inputs = inputs
        if own is not None and own != watched.own:
            before, watched.own, observed = watched.own, own, self.probe(own, now)
            for each in self.watched.values():
                if each is watched or name in each.upstream:
                    each.processed.pop(before, None)
                    each.processed[own] = observed
        for place in inputs.places - set(watched.processed):
            watched.processed[place] = _as_of(place, self.probe(place, now), watched.last_run or 0)


def _as_of(place: ProbedPlace, observed: Observation | None, time: int) -> Observation | None:
    """What was observed, if it was so at ``time`` (ms) already. If that is not certain, an
    observation that differs from every real one.
    """
    if observed is None:
        return None
    older = {name: file for name, file in observed.files.items() if file[1] < time}
    settled = place.kind != SHARD and len(older) == len(observed.files)
    return observed if settled else Observation("", older)


def _signature(observed: Observation | None) -> str | None:
    return None if observed is None else observed.signature


def _wait(watched: WatchedModel, now: int) -> None:
    watched.failures += 1
    watched.wait_until = now + min(MAX_WAIT, 1000 * 2**watched.failures)
