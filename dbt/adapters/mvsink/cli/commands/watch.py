"""`mvsink watch`: runs models when their schedule or their inputs require it.

`scheduler` decides which models are due. This module probes places, runs dbt and prints the rounds.

One Spark serves the whole watch. Between rounds the embedded metastore is released, so that a `dbt
run` from another terminal can use it. The project is parsed once: models that are added or changed
later are not noticed until the next watch.
"""

from __future__ import annotations

import copy
import json
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import click

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.cli.dbt_runner import (
    Dbt,
    DbtFailed,
    Model,
    RunResult,
    ancestors,
    terminated_as_interrupted,
)
from dbt.adapters.mvsink.cli.discovery import coded
from dbt.adapters.mvsink.cli.errors import CodedError, CommandFailed, InvalidValue, NoSuchModel
from dbt.adapters.mvsink.cli.render import Printer, duration_text, takes_output, time_text
from dbt.adapters.mvsink.cli.scheduler import Reason, Scheduler, WatchedModel, WatchRound
from dbt.adapters.mvsink.cli.selection import takes_selection
from dbt.adapters.mvsink.cli.target import Target, takes_dbt
from dbt.adapters.mvsink.connection.factory import EMBEDDED
from dbt.adapters.mvsink.durations import parse_interval, parse_time
from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.inputs.position import SHARD, Observation
from dbt.adapters.mvsink.inputs.probes import ProbedPlace, ProbedPlaces, Prober

POLL = 0.5  # seconds between two probes
RELEARN_AFTER = 60_000  # ms before a model's inputs are determined again, after one of its runs
VIEW = "view"
MAX_RATE = 30  # rounds a minute


class SparkEnded(CodedError):
    """Spark's JVM has ended; this process cannot start another one."""

    error_code = "MVS-837"


def clock() -> int:
    """Now, in ms."""
    return wall_clock.now_ms()


@dataclass
class Watch:
    """One watch. A signal sets ``stopping`` and lets dbt cancel the running query, as Ctrl-C does.

    ``views`` are the plain views that still have to be created, in the first round that succeeds.
    """

    dbt: Dbt
    manifest: Any
    prober: Prober
    scheduler: Scheduler
    views: Sequence[Model] = ()
    min_period: float = 60 / MAX_RATE  # seconds from the start of a round to that of the next
    until: int | None = None  # ms
    stopping: bool = False
    learned_at: dict[str, int] = field(default_factory=dict)
    as_json: bool = False

    def run(self) -> None:
        """Run rounds until the watch is stopped, or until the time ``until``."""
        while not self._over():
            started = time.monotonic()
            due, observations = self.scheduler.due(clock())
            if due:
                self._round(due, observations)
                self._release_metastore()
                time.sleep(max(0.0, self.min_period - (time.monotonic() - started)))
            else:
                time.sleep(POLL)

    def say(self, line: str) -> None:
        """Print a line for people; to stderr if stdout has JSON."""
        say(line, err=self.as_json)

    def _over(self) -> bool:
        return self.stopping or (self.until is not None and clock() >= self.until)

    def _round(
        self, due: Mapping[str, Reason], observations: Mapping[ProbedPlace, Observation | None]
    ) -> None:
        started = clock()
        models = [self.scheduler.watched[name].model for name in due]
        try:
            # `Manifest.deepcopy` of dbt-core 1.12 fails if the project has a singular test
            results = self.dbt.run([*self.views, *models], copy.deepcopy(self.manifest))
        except DbtFailed as error:
            self.scheduler.failed(due, clock())
            self.say(f"dbt failed: {coded(error)}; trying again{self._when(due)}")
            self._check_spark()
            return
        self.views = [
            view
            for view in self.views
            if not any(each.ok and each.unique_id == view.unique_id for each in results)
        ]
        done = WatchRound(tuple(each for each in results if each.unique_id in due), due, started, clock())
        self.scheduler.done(results, observations, started, done.ended)
        others = [each for each in results if each.unique_id not in due]
        if self.as_json:
            click.echo(json.dumps(values(done, others)))
        for line in () if self.as_json else lines(done, others):
            self.say(line)
        failed = [each.unique_id for each in done.results if not each.ok]
        if failed:
            self.say(f"  trying again{self._when(failed)}")
            self._check_spark()
        self._learn(done.results)

    def _when(self, names: Any) -> str:
        first = min(self.scheduler.watched[name].wait_until for name in names)
        return f" in {duration_text(max(0, first - clock()))}"

    def _learn(self, results: Sequence[RunResult]) -> None:
        """Ask Spark what the models read, while this process has the metastore."""
        now = clock()
        learning = [each for each in results if each.ok and now >= self.learned_at.get(each.unique_id, 0)]
        if not learning:
            return
        try:
            read = self._reader(EMBEDDED.running(), learning)
        except DbtFailed as error:
            for each in learning:
                self._unknown(each, error)
            return
        for each in learning:
            try:
                own, inputs = read(each)
            except Exception as error:
                self._unknown(each, error)
            else:
                self._learned(each, inputs, own)

    def _unknown(self, ran: RunResult, error: Exception) -> None:
        self.say(f"  cannot determine what {ran.name} reads, so it runs every interval: {coded(error)}")
        self._learned(ran, ProbedPlaces(untrackable=True), None)

    def _learned(self, ran: RunResult, inputs: ProbedPlaces, own: ProbedPlace | None) -> None:
        self.scheduler.learned(ran.unique_id, inputs, clock(), own)
        self.learned_at[ran.unique_id] = clock() + RELEARN_AFTER

    def _reader(
        self, session: Any, learning: Sequence[RunResult]
    ) -> Callable[[RunResult], tuple[ProbedPlace | None, ProbedPlaces]]:
        """A function that gives a model's own shard and the inputs that make it due, for the models
        in ``learning``. The embedded session answers or, if that is None, the server, which is
        asked once for all.
        """
        if session is not None:
            return lambda each: (
                self.prober.shard_of(session, *each.relation.split(".", 1)),
                self.prober.inputs(session, _input_of(each)),
            )
        answers = iter(self._places(text for each in learning for text in (_own(each), _input_of(each))))
        of_all = {each.unique_id: (next(answers), next(answers)) for each in learning}

        def read(each: RunResult) -> tuple[ProbedPlace | None, ProbedPlaces]:
            if error := next(
                (answer["error"] for answer in of_all[each.unique_id] if "error" in answer), None
            ):
                raise CommandFailed(str(error))
            own, inputs = map(self.prober.shards_of, of_all[each.unique_id])
            return next(iter(own.places), None), inputs

        return read

    def _places(self, queries: Iterable[str]) -> list[Mapping[str, Any]]:
        """Through dbt's connection, what each query reads, in order. Raises `DbtFailed`."""
        request = list(queries)
        return self.dbt.ask("mvsink_places", request, copy.deepcopy(self.manifest), len(request))

    def _release_metastore(self) -> None:
        if EMBEDDED.running() is not None:
            EMBEDDED.release_metastore()

    def _check_spark(self) -> None:
        ended = EMBEDDED.ended() if EMBEDDED.running() is not None else None
        if ended:
            raise SparkEnded(ended)


def _own(ran: RunResult) -> str:
    """A query that reads only the model's view."""
    schema, name = ran.relation.split(".", 1)
    return f"select * from {sql.columns((name,), sql.identifier(schema))}"


def _input_of(ran: RunResult) -> str:
    """A query that reads what makes the model due. For a task, that is only its input."""
    return str(ran.response.get("input") or ran.compiled)


def lines(done: WatchRound, others: Sequence[RunResult]) -> Iterator[str]:
    """A round for people: one line, and one more for each model that failed."""
    changes = [f"{ran.name} {_changed(ran)}" for ran in done.results if ran.ok]
    why = sorted({done.reasons[ran.unique_id].text for ran in done.results} - {"upstream"})
    fresh = "" if done.delay is None else f"fresh {done.delay / 1000:.1f} s after the change, "
    took = f"{(done.ended - done.started) / 1000:.1f} s"
    yield f"{', '.join(changes) or 'nothing ran'}  ({'; '.join(why)}; {fresh}ran {took})"
    for ran in (*done.results, *others):
        if not ran.ok:
            yield f"  {ran.name} {'skipped' if ran.skipped else 'failed'}: {ran.message.strip()}"


def _changed(ran: RunResult) -> str:
    response = ran.response
    if response.get("kind") in ("append", "read-only"):
        return f"+{response['rows_inserted']:,} -{response['rows_deleted']:,}"
    return "unchanged" if response.get("kind") == "none" else str(response.get("kind") or ran.message)


def values(done: WatchRound, others: Sequence[RunResult]) -> dict[str, Any]:
    """A round as JSON. Times are ms."""
    return {
        "started": done.started,
        "ended": done.ended,
        "delay": done.delay,
        "models": [_values(ran, done.reasons.get(ran.unique_id)) for ran in (*done.results, *others)],
    }


def _values(ran: RunResult, reason: Reason | None) -> dict[str, Any]:
    return {
        "model": ran.name,
        "unique_id": ran.unique_id,
        "reason": reason.text if reason else None,
        "status": ran.status,
        "kind": ran.response.get("kind"),
        "inserted": ran.response.get("rows_inserted"),
        "deleted": ran.response.get("rows_deleted"),
        "error": "" if ran.ok else ran.message.strip(),
    }


def say(line: str, *, err: bool = False) -> None:
    """Print a line with the time, unbuffered."""
    click.echo(f"{time_text(clock() // 1000 * 1000)[11:]}  {line}", err=err)


def watched_models(models: Sequence[Model], manifest: Any, shards: str) -> list[WatchedModel]:
    """``models``, all of them maintained, each with those of them that are upstream of it."""
    ids = {model.unique_id for model in models}
    watched = []
    for model in models:
        node = manifest.nodes[model.unique_id]
        upstream = frozenset(ids & ancestors(manifest, model.unique_id))
        watched.append(
            WatchedModel(model, ProbedPlace(SHARD, f"{shards}/{node.schema}/{node.alias}"), upstream)
        )
    return watched


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """SIGINT and SIGTERM call ``stop`` and interrupt what is running, as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        stop()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with terminated_as_interrupted():
            yield
    except KeyboardInterrupt:
        stop()
    finally:
        signal.signal(signal.SIGINT, before)


def _interval(context: click.Context, option: click.Parameter, value: str) -> int:
    text = f"{value} seconds" if value.isdigit() else value
    parsed = parse_interval(text)
    if not parsed:
        raise InvalidValue(f"got {value!r}, expected an interval like '10 seconds'")
    return parsed


def _until(context: click.Context, option: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    interval = parse_interval(value)
    parsed = parse_time(value) if interval is None else clock() + interval
    if parsed is None:
        raise InvalidValue(f"got {value!r}, expected an interval like '2 minutes', or an ISO 8601 time")
    return parsed


@click.command()
@takes_dbt
@takes_selection
@click.option(
    "--interval",
    default="10 seconds",
    show_default=True,
    callback=_interval,
    help="How often a model runs if changes of its inputs cannot be tracked.",
)
@click.option(
    "--max-rate",
    type=click.FloatRange(min=0, min_open=True),
    default=MAX_RATE,
    show_default=True,
    help="Maximum number of rounds per minute.",
)
@click.option(
    "--until", callback=_until, help="When to stop: an interval like '2 minutes', or an ISO 8601 time."
)
@takes_output
def watch(
    target: Target,
    dbt: Dbt,
    select: list[str],
    exclude: list[str],
    interval: int,
    max_rate: float,
    until: int | None,
    output: Printer,
) -> None:
    """Run models when they are due, until stopped.

    The first round runs the selected views and maintained models. After that a maintained model
    runs when a file, a Delta table or a shard that it reads has changed, when its schedule requires
    it, or every --interval if changes of its inputs cannot be tracked. Downstream models run with
    it. A model that fails is reported and retried, after a longer wait each time.

    Exit code: 0 when stopped (Ctrl-C, SIGTERM, --until; a running query is cancelled); 1 if dbt
    cannot parse the project, or if Spark itself has ended; 2 for wrong usage.

    \b
    Examples:
      mvsink watch
      mvsink watch orders+ --until '2 hours'
    """
    manifest = dbt.parsed()
    models = dbt.models(select, exclude, manifest)
    maintained = [model for model in models if model.maintained]
    if not maintained:
        raise NoSuchModel("no maintained models are selected")
    watching = _watch(target, dbt, manifest, models, interval)
    watching.min_period, watching.until = 60 / max_rate, until
    watching.as_json = not output.is_text
    watching.say(f"watching {', '.join(sorted(model.name for model in maintained))}")

    def stop() -> None:
        watching.stopping = True

    with stopped_by_signals(stop):
        watching.run()
    watching.say("stopped")


def _watch(target: Target, dbt: Dbt, manifest: Any, models: Sequence[Model], interval: int) -> Watch:
    prober = Prober(target.shards, target.storage_options)
    scheduler = Scheduler(
        watched_models([model for model in models if model.maintained], manifest, target.shards),
        prober.probe,
        _written_by_others(prober),
        interval,
        clock(),
    )
    views = [model for model in models if model.materialized == VIEW]
    return Watch(dbt, manifest, prober, scheduler, views)


def _written_by_others(prober: Prober) -> Callable[[ProbedPlace, Observation | None], bool]:
    """A check to be called after a run, when dbt's newest invocation is that run."""

    def written_by_others(place: ProbedPlace, before: Observation | None) -> bool:
        from dbt_common.invocation import get_invocation_id

        return prober.written_by_others(place, before, str(get_invocation_id()))

    return written_by_others
