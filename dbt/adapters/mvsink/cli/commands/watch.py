"""`mvsink watch`: runs models when their schedule or their inputs say so, until it is stopped.
`rounds` decides when.

One Spark for the whole watch; between rounds it lets go of the embedded metastore, so that a `dbt
run` from another terminal gets its turn. The project is parsed once: models that are added or
changed while it runs are seen by the next watch.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

import click
from dbt.cli import params

from dbt.adapters.mvsink.cli.dbt_runner import TASK, Dbt, DbtFailed, Model, Ran, flat
from dbt.adapters.mvsink.cli.discovery import words
from dbt.adapters.mvsink.cli.probes import Inputs, Kind, Look, Looker, Place
from dbt.adapters.mvsink.cli.render import duration_text, time_text
from dbt.adapters.mvsink.cli.scheduler import Round, Rounds, Watched, Why
from dbt.adapters.mvsink.cli.target import Place as Target
from dbt.adapters.mvsink.cli.target import takes_dbt
from dbt.adapters.mvsink.connection.factory import EMBEDDED
from dbt.adapters.mvsink.continual_task.parse import parse
from dbt.adapters.mvsink.durations import parse_interval, parse_time

POLL = 0.5  # seconds between looks
LEARN_AGAIN = 60_000  # ms after which it is asked again what a model reads
VIEW = "view"
MAX_RATE = 30  # rounds a minute


class SparkEnded(click.ClickException):
    """Spark's process is gone, and a process has only one."""


def clock() -> int:
    """Now, in ms."""
    return int(time.time() * 1000)


@dataclass
class Watch:
    """One watch. ``stopping`` is set by a signal; what is running is cancelled by dbt, as for
    Ctrl-C.
    """

    dbt: Dbt
    manifest: Any
    looker: Looker
    rounds: Rounds
    views: Sequence[Model] = ()
    least: float = 60 / MAX_RATE  # seconds from the start of a round to that of the next
    until: int | None = None  # ms
    stopping: bool = False
    learned_at: dict[str, int] = field(default_factory=dict)

    def run(self) -> None:
        """Rounds until it is told to stop, or ``until``."""
        while not self._over():
            started = time.monotonic()
            due, looks = self.rounds.due(clock())
            if due:
                self._round(due, looks)
                self._let_go()
                time.sleep(max(0.0, self.least - (time.monotonic() - started)))
            else:
                time.sleep(POLL)

    def _over(self) -> bool:
        return self.stopping or (self.until is not None and clock() >= self.until)

    def _round(self, due: Mapping[str, Why], looks: Mapping[Place, Look | None]) -> None:
        started = clock()
        models = [self.rounds.watched[name].model for name in due]
        try:
            ran = self.dbt.run([*self.views, *models], self.manifest.deepcopy())
        except DbtFailed as error:
            self.rounds.failed(due, clock())
            say(f"dbt failed: {words(error)}; trying again{self._when(due)}")
            self._check_spark()
            return
        self.views = [
            view
            for view in self.views
            if not any(each.ok and each.unique_id == view.unique_id for each in ran)
        ]
        done = Round(tuple(each for each in ran if each.unique_id in due), due, started, clock())
        self.rounds.done(ran, looks, started, done.ended)
        for line in lines(done, [each for each in ran if each.unique_id not in due]):
            say(line)
        failed = [each.unique_id for each in done.ran if not each.ok]
        if failed:
            say(f"  trying again{self._when(failed)}")
            self._check_spark()
        self._learn(done.ran)

    def _when(self, names: Any) -> str:
        first = min(self.rounds.watched[name].wait_until for name in names)
        return f" in {duration_text(max(0, first - clock()))}"

    def _learn(self, ran: Sequence[Ran]) -> None:
        """Ask Spark what the models read, while the metastore is ours."""
        session = EMBEDDED.running()
        for each in ran:
            if not each.ok or session is None or clock() < self.learned_at.get(each.unique_id, 0):
                continue
            own = None
            try:
                own = self.looker.shard_of(session, *each.relation.split(".", 1))
                inputs = self._inputs(session, each)
            except Exception as error:
                say(f"  cannot tell what {each.name} reads, so it runs every interval: {words(error)}")
                inputs = Inputs(blind=True)
            self.rounds.learned(each.unique_id, inputs, clock(), own)
            self.learned_at[each.unique_id] = clock() + LEARN_AGAIN

    def _inputs(self, session: Any, ran: Ran) -> Inputs:
        """What the model is to be run for. A task looks at its input alone, unless it waits for
        references.
        """
        if self.rounds.watched[ran.unique_id].model.materialized != TASK:
            return self.looker.inputs(session, ran.compiled)
        program = parse(ran.compiled, ran.relation, ran.name)
        found = self.looker.inputs(session, program.with_ctes(f"select * from {program.input.name}"))
        waits = self.manifest.nodes[ran.unique_id].config.get("on_late_reference") == "wait"
        return replace(found, blind=found.blind or waits)

    def _let_go(self) -> None:
        if EMBEDDED.running() is not None:
            EMBEDDED.release_metastore()

    def _check_spark(self) -> None:
        ended = EMBEDDED.ended() if EMBEDDED.running() is not None else None
        if ended:
            raise SparkEnded(ended)


def lines(done: Round, others: Sequence[Ran]) -> Iterator[str]:
    """A round in words: one line, and one more for each model that failed."""
    changes = [f"{ran.name} {_changed(ran)}" for ran in done.ran if ran.ok]
    why = sorted({done.why[ran.unique_id].text for ran in done.ran} - {"upstream"})
    fresh = "" if done.fresh is None else f"fresh {done.fresh / 1000:.1f} s after the change, "
    took = f"{(done.ended - done.started) / 1000:.1f} s"
    yield f"{', '.join(changes) or 'nothing ran'}  ({'; '.join(why)}; {fresh}ran {took})"
    for ran in (*done.ran, *others):
        if not ran.ok:
            yield f"  {ran.name} {'skipped' if ran.skipped else 'failed'}: {ran.message.strip()}"


def _changed(ran: Ran) -> str:
    told = ran.response
    if told.get("kind") in ("append", "read-only"):
        return f"+{told['rows_inserted']:,} -{told['rows_deleted']:,}"
    return "unchanged" if told.get("kind") == "none" else str(told.get("kind") or ran.message)


def say(line: str) -> None:
    """Print at once, with the time: somebody is watching."""
    click.echo(f"{time_text(clock() // 1000 * 1000)[11:]}  {line}")


def watched_models(models: Sequence[Model], manifest: Any, shards: str) -> list[Watched]:
    """The maintained ones among ``models``, with what is upstream of each."""
    ids = {model.unique_id for model in models}
    found = []
    for model in models:
        node = manifest.nodes[model.unique_id]
        upstream = frozenset(ids & _ancestors(manifest, model.unique_id))
        found.append(Watched(model, Place(Kind.SHARD, f"{shards}/{node.schema}/{node.alias}"), upstream))
    return found


def _ancestors(manifest: Any, unique_id: str) -> set[str]:
    found: set[str] = set()
    waiting = [unique_id]
    while waiting:
        node = manifest.nodes.get(waiting.pop())
        new = set(getattr(getattr(node, "depends_on", None), "nodes", ())) - found
        found |= new
        waiting += new
    return found


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """SIGINT and SIGTERM call ``stop`` and interrupt whatever is going on, as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        stop()
        raise KeyboardInterrupt

    def terminate(number: int, frame: FrameType | None) -> None:
        # whoever else listens for Ctrl-C, such as a wait for the metastore, hears it too
        os.kill(os.getpid(), signal.SIGINT)

    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, interrupt),
        signal.SIGTERM: signal.signal(signal.SIGTERM, terminate),
    }
    try:
        yield
    except KeyboardInterrupt:
        stop()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interval(context: click.Context, option: click.Parameter, given: str) -> int:
    text = f"{given} seconds" if given.replace(".", "", 1).isdigit() and "." not in given else given
    parsed = parse_interval(text)
    if not parsed:
        raise click.BadParameter(f"got {given!r}, expected an interval like '10 seconds'")
    return parsed


def _until(context: click.Context, option: click.Parameter, given: str | None) -> int | None:
    if given is None:
        return None
    interval = parse_interval(given)
    parsed = parse_time(given) if interval is None else clock() + interval
    if parsed is None:
        raise click.BadParameter(f"got {given!r}, expected an interval like '2 minutes', or an ISO 8601 time")
    return parsed


@click.command()
@takes_dbt
@params.select
@params.exclude
@click.option(
    "--interval",
    default="10 seconds",
    show_default=True,
    callback=_interval,
    help="How often a model runs whose inputs cannot be looked at.",
)
@click.option(
    "--max-rate",
    type=click.FloatRange(min=0, min_open=True),
    default=MAX_RATE,
    show_default=True,
    help="Most rounds a minute.",
)
@click.option(
    "--until", callback=_until, help="When to stop: an interval like '2 minutes', or an ISO 8601 time."
)
def watch(
    target: Target, dbt: Dbt, select: Any, exclude: Any, interval: int, max_rate: float, until: int | None
) -> None:
    """Run models when their schedule or their inputs say so, until stopped.

    The first round runs the selected views and maintained models. After that a maintained model
    runs when a file, a Delta table or a shard that it reads has changed, when its schedule says so,
    or every --interval if its inputs cannot be looked at; and whatever is downstream of it with it.
    An error is told and tried again, later each time.

    Exit code: 0 when stopped (Ctrl-C, SIGTERM, --until; a running query is cancelled); 1 if dbt
    cannot parse the project, or if Spark itself has ended; 2 for wrong usage.
    """
    manifest = dbt.parsed()
    models = dbt.models(flat(select), flat(exclude), manifest)
    maintained = [model for model in models if model.maintained]
    if not maintained:
        raise click.UsageError("no maintained models are selected")
    looker = Looker(target.shards, target.storage_options)
    rounds = Rounds(
        watched_models(maintained, manifest, target.shards), looker.look, _intruded(looker), interval, clock()
    )
    views = [model for model in models if model.materialized == VIEW]
    watching = Watch(dbt, manifest, looker, rounds, views, 60 / max_rate, until)
    say(f"watching {', '.join(sorted(model.name for model in maintained))}")

    def stop() -> None:
        watching.stopping = True

    with stopped_by_signals(stop):
        watching.run()
    say("stopped")


def _intruded(looker: Looker) -> Callable[[Place, Look | None], bool]:
    """Asked after a run: dbt's invocation is then the newest one."""

    def intruded(place: Place, before: Look | None) -> bool:
        from dbt_common.invocation import get_invocation_id

        return looker.intruded(place, before, str(get_invocation_id()))

    return intruded
