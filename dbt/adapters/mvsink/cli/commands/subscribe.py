"""`mvsink subscribe MODEL`: the changes of a model as a stream, read from its shard without Spark.

The feed comes in steps. The updates of a step are written, then its progress line, and then the
output is flushed. Only after that is the position file replaced. So a process that is killed leaves
at most one step unfinished, and the next process writes that step again. A consumer that applies a
step's updates only when it reads the progress line applies every change exactly once.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import click

from dbt.adapters.mvsink.cli.discovery import DiscoveredShard, choose_one, find_shards, words
from dbt.adapters.mvsink.cli.errors import StreamEnded, WasDropped, WrongUsage, failed, misused
from dbt.adapters.mvsink.cli.target import Target, takes_target
from dbt.adapters.mvsink.cli.update_formats import FORMATS, FeedColumnsChanged, UpdateWriter
from dbt.adapters.mvsink.durations import iso, parse_time
from dbt.adapters.mvsink.engine import DataflowError
from dbt.adapters.mvsink.history.points import LATEST, InvalidPoint, find_run, resolve
from dbt.adapters.mvsink.shard import (
    Ahead,
    Antichain,
    Compacted,
    ErrorsRecorded,
    Feed,
    ReadHandle,
    ShardClient,
    ShardError,
    ShardReplaced,
    ShardState,
    Step,
    snapshot_step,
    steps,
)
from dbt.adapters.mvsink.shard.stored import Unreadable, a_text, an_integer, member, optional, parsed, text_of

POLL = 0.2  # seconds


@dataclass(frozen=True)
class FeedPosition:
    """How far a consumer is: it has the updates of this generation before ``frontier`` (ms), or if
    that is None, all that there will ever be.
    """

    shard_id: str
    generation: int
    frontier: int | None


def read_position(path: Path) -> FeedPosition | None:
    """The position in the file; None if the file does not exist. Raises `click.UsageError` if it is
    another kind of file.
    """
    _unfinished(path).unlink(missing_ok=True)  # of a process that was killed as it wrote
    try:
        value = parsed(text_of(path.read_bytes()))
        frontier = optional(member(value, "frontier"), partial(an_integer, least=0))
        return FeedPosition(
            a_text(member(value, "shard_id")), an_integer(member(value, "generation"), least=0), frontier
        )
    except FileNotFoundError:
        return None
    except (Unreadable, OSError) as error:
        raise WrongUsage(f"{path} is not a position that `mvsink subscribe` wrote: {words(error)}") from error


def write_position(path: Path, position: FeedPosition) -> None:
    """Replace the file atomically: even after a power failure, it is the old or the new one."""
    temporary = _unfinished(path)
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(asdict(position), file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _unfinished(path: Path) -> Path:
    """The name of the unfinished file. All processes use the same one: a position has one writer,
    and the next writer finds the file.
    """
    return path.with_name(f".{path.name}.new")


@dataclass(frozen=True)
class Subscription:
    """One consumer's stream of a shard, in one format, from ``frontier`` on.

    ``snapshot`` is the time (ms) whose contents come first. ``resumed`` means that it continues an
    earlier stream.
    """

    shard: DiscoveredShard
    reader: ReadHandle
    frontier: Antichain
    snapshot: int | None
    position: Path | None
    errors: bool
    resumed: bool = False

    def write(self, writer: UpdateWriter, out: BinaryIO, follow: bool) -> None:
        """Write the stream up to the shard's present upper; with ``follow``, go on until the shard
        is final.
        """
        feed, frontier = Feed(self.reader), self.frontier
        state = self._state(feed, frontier)
        writer.start(state.schema, frontier, snapshot=self.snapshot is not None, resumed=self.resumed)
        out.flush()
        if self.snapshot is not None:
            frontier = self._step(feed, state, snapshot_step(state, self.snapshot), writer, out)
        while True:
            for step in steps(state, frontier):
                frontier = self._step(feed, state, step, writer, out)
            if frontier.is_empty() or not follow:
                return
            _wait(out)
            state = self._state(feed, frontier)

    def _state(self, feed: Feed, frontier: Antichain) -> ShardState:
        first = frontier == self.frontier
        state = feed.state(
            frontier,
            snapshot=first and self.snapshot is not None,
            delivered=self.resumed or not first,
        )
        if state.dropped is not None:
            raise WasDropped(f"{self.shard.relation}: was dropped at {iso(state.dropped)}; the stream ends")
        return state

    def _step(
        self, feed: Feed, state: ShardState, step: Step, writer: UpdateWriter, out: BinaryIO
    ) -> Antichain:
        for table in feed.tables(state, step, errors=self.errors):
            writer.updates(table)
        writer.progress(step.upper)
        out.flush()
        if self.position is not None:
            place = FeedPosition(str(state.shard_id), state.generation, step.upper.as_option())
            write_position(self.position, place)
        return step.upper


def begin(
    shard: DiscoveredShard,
    reader: ReadHandle,
    start: str | None,
    snapshot: bool,
    position: Path | None,
    errors: bool = False,
) -> Subscription:
    """A subscription that begins at the point ``start``, or where the position file says. Raises
    `DataflowError` for a point that cannot be resolved, and `click.ClickException`.
    """
    kept = read_position(position) if position else None
    state = reader.state()
    if kept is not None:
        _check_position(shard, state, kept, position)
        frontier = Antichain.empty() if kept.frontier is None else Antichain.of(kept.frontier)
        return Subscription(shard, reader, frontier, None, position, errors, resumed=True)
    if snapshot:
        at = resolve(LATEST if start is None else start, state, reader.history(), shard.relation).time
        return Subscription(shard, reader, Antichain.of(at), at, position, errors)
    return Subscription(shard, reader, _frontier(start, shard, state, reader), None, position, errors)


def _frontier(text: str | None, shard: DiscoveredShard, state: ShardState, reader: ReadHandle) -> Antichain:
    """The frontier at which the stream begins, for a point as the user wrote it.

    A time is where it begins itself. `-N` names a run whose changes come first; an invocation id
    names a run after whose changes it begins. For `latest` or None it begins after all that is
    there.
    """
    time_ = None if text is None else parse_time(text.strip())
    if text is None or text.strip().lower() == LATEST:
        return state.upper
    if time_ is not None:
        return Antichain.of(time_)
    run = find_run(text.strip(), state, reader.history(), shard.relation)
    if not text.strip().startswith("-"):
        return run.upper
    # the first run of a generation began at 0: before its creation there is nothing
    return run.lower.join(state.since) if state.creation == state.since.stored() else run.lower


def _check_position(shard: DiscoveredShard, state: ShardState, kept: FeedPosition, path: Path | None) -> None:
    if kept.shard_id != str(state.shard_id):
        raise WrongUsage(f"{path} is the position of another shard, not of {shard.relation}'s")
    if kept.generation != state.generation:
        raise _replaced(shard, kept.generation, state.generation)


def _replaced(shard: DiscoveredShard, mine: int, current: int) -> StreamEnded:
    return StreamEnded(
        f"{shard.relation}: its contents were replaced as a whole (generation {mine} by {current}), so their changes since the position "
        "are not known. Begin again with --snapshot, without the position file"
    )


def _compacted(shard: DiscoveredShard, error: Compacted) -> StreamEnded:
    upper = error.upper.as_option()
    return StreamEnded(
        f"{shard.relation}: the changes from {iso(error.frontier.stored())} on are no longer complete: history is kept from "
        f"{iso(error.since.stored())} to {'the end' if upper is None else iso(upper)}, so changes are known from "
        f"{error.since.stored() + 1} (ms) on. The config `retain_history` keeps more. To continue, begin again with --snapshot, without the "
        "position file"
    )


def _ahead(shard: DiscoveredShard, error: Ahead) -> StreamEnded:
    position, upper = error.frontier.as_option(), error.upper.stored()
    ahead = "the end" if position is None else f"{iso(position)} ({position})"
    return StreamEnded(
        f"{shard.relation}: the position is {ahead}, and the shard ends before that, at {iso(upper)} ({upper}): its log was restored from a "
        "backup. Changes between the two would be skipped. Begin again with --snapshot, without the position file"
    )


def _wait(out: BinaryIO) -> None:
    """Wait before the log is read again. Raises `BrokenPipeError` if the consumer is gone."""
    try:
        watched = select.poll()
        watched.register(out.fileno(), 0)
    except (OSError, ValueError, AttributeError):  # not a file
        time.sleep(POLL)
        return
    if any(event & (select.POLLERR | select.POLLNVAL) for _, event in watched.poll(POLL * 1000)):
        raise BrokenPipeError


class _Stopped(Exception):
    """Ctrl-C or SIGTERM."""


@contextmanager
def _until_stopped() -> Iterator[None]:
    """Leave the block without an error when the user stops the command, or the consumer is gone."""

    def stop(*_: Any) -> None:
        raise _Stopped

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    except _Stopped:
        pass
    except BrokenPipeError:  # what is still buffered has no reader
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@click.command()
@takes_target
@click.option(
    "--from", "start", metavar="POINT", help="Where to begin; by default with the changes after now."
)
@click.option("--follow", is_flag=True, help="Continue with future changes.")
@click.option("--snapshot", is_flag=True, help="Begin with the contents as of --from (latest).")
@click.option(
    "--output", type=click.Choice(list(FORMATS)), default="ndjson", show_default=True, help="The format."
)
@click.option(
    "--position",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file that keeps the position: where a restart continues, whatever --from says.",
)
@click.option("--errors", is_flag=True, help="Deliver recorded errors as updates with _mv_error.")
@click.argument("model")
def subscribe(
    target: Target,
    model: str,
    start: str | None,
    follow: bool,
    snapshot: bool,
    output: str,
    position: Path | None,
    errors: bool,
) -> None:
    """The changes of MODEL, one line each, without Spark.

    Each update has the model's columns, _mv_time (ms) and _mv_diff: how many copies of the row are
    added or removed. A line {"_mv_progress": F} follows when all updates before F have been
    written. POINT is a time (inclusive: a saved F continues exactly there), an invocation id, -N,
    or latest.

    Exit code: 0, also when it is stopped or its reader is gone; 1 if the changes are not known any
    more, or the shard cannot be read; 2 for wrong usage.

    \b
    Examples:
      mvsink subscribe orders --snapshot --follow
      mvsink subscribe orders --from 2026-11-20
    """
    shard = choose_one(find_shards(target), target, model)
    shard.opened()
    with (
        _until_stopped(),
        ShardClient(target.storage_options).open_reader(shard.uri) as reader,
        _explained(shard, reader, output),
    ):
        out = sys.stdout.buffer
        begun = begin(shard, reader, start, snapshot, position, errors)
        begun.write(FORMATS[output](out, errors), out, follow)


@contextmanager
def _explained(shard: DiscoveredShard, reader: ReadHandle, output: str) -> Iterator[None]:
    """Raise what ends the stream as click's errors, which say what to do."""
    try:
        yield
    except Compacted as error:
        raise _compacted(shard, error) from error
    except Ahead as error:
        raise _ahead(shard, error) from error
    except ShardReplaced as error:
        raise _replaced(shard, reader.generation, reader.generation + 1) from error
    except ErrorsRecorded as error:
        raise StreamEnded(
            f"{shard.relation}: at {iso(error.time)} ({error.time}) it records an error, and has no contents to deliver: {error.message}. "
            "--errors delivers errors as updates"
        ) from error
    except FeedColumnsChanged as error:
        raise StreamEnded(
            f"{shard.relation}: columns were added; now they are {error}. {output} fixes the columns at its beginning: start again, it "
            "continues at its position"
        ) from error
    except InvalidPoint as error:
        raise misused(error) from error
    except (DataflowError, ShardError) as error:
        raise failed(error) from error
