"""What users read of work under way: progress lines for slow work (the start of the embedded
Spark, and the statements of a model), and what the lower layers log, as dbt's debug events.

One background thread per process checks the current work every second, and reports each piece at
most every `EVERY` seconds. Short work is never reported. Lines are dbt events of level info, so
`--quiet` and `--log-level` apply to them; ``progress: false`` in the profile turns them off.
"""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dbt.adapters.events.logging import AdapterLogger
from dbt_common.events.contextvars import get_node_info

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.masking import masked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


EVERY = 10.0  # seconds between two lines about one piece of work
TICK = 1.0  # seconds
CATALOG = "the catalog"  # the subject of statements outside of the project's nodes
STARTING = "starting Spark"

logger = AdapterLogger("mvsink")


@dataclass(eq=False)
class Work:
    """One piece of work and when it was last reported. The reporting thread calls ``details``."""

    name: str
    details: Callable[[float], str]
    began: float = field(default_factory=lambda: wall_clock.now_ms() / 1000)
    context: contextvars.Context = field(default_factory=contextvars.copy_context)

    def __post_init__(self) -> None:
        self.reported = self.began

    def report(self, now: float) -> None:
        """Log one line if the last one was `EVERY` seconds ago or more."""
        if now - self.reported < EVERY:
            return
        self.reported = now
        try:
            details = self.details(self.began)
        except Exception as error:  # the statement is ending, or its Spark is
            logger.debug(f"no progress of {self.name}: {error}")
            return
        line = ", ".join(part for part in (f"{self.name}: {now - self.began:.0f} s", details) if part)
        self.context.run(logger.info, line)


class Reporter:
    """The current work of this process, and the thread that reports it. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._work: list[Work] = []
        self._thread: threading.Thread | None = None

    @contextmanager
    def reporting(self, work: Work) -> Iterator[None]:
        """A context in which ``work`` is current."""
        with self._changed:
            self._work.append(work)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="dbt-mvsink progress", daemon=True)
                self._thread.start()
            elif len(self._work) == 1:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._work.remove(work)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._work:
                    self._changed.wait()
                current = list(self._work)
            for work in current:
                work.report(wall_clock.now_ms() / 1000)
            time.sleep(TICK)


_reporter = Reporter()


@contextmanager
def starting_spark(on: bool) -> Iterator[None]:
    """A context in which Spark starts. It is reported at once, because it takes from 5 seconds to a
    minute.
    """
    if not on:
        yield
        return
    logger.info(STARTING)
    with _reporter.reporting(Work(STARTING, lambda _: "")):
        yield


class StatementProgress:
    """A connection's progress, used by the connection's thread only. ``details`` gives the progress
    of its jobs since a time (seconds since the epoch).

    Time counts from the node's first statement, because many short statements take as long as one
    long statement.
    """

    def __init__(self, details: Callable[[float], str], on: bool):
        self._details, self._on = details, on
        self._node: object = None
        self._work: Work | None = None

    @contextmanager
    def statement(self) -> Iterator[None]:
        """A context in which a statement runs."""
        if not self._on:
            yield
            return
        info = get_node_info()
        node = (info.get("unique_id"), info.get("node_started_at")) if info else None
        if self._work is None or node is None or node != self._node:
            name = str(info.get("node_name") or CATALOG)
            self._node, self._work = node, Work(name, self._details)
        with _reporter.reporting(self._work):
            yield


def jobs_text(session: SparkSession, tag: str, since: float) -> str:
    """The progress of the tag's Spark jobs since then (seconds since the epoch):
    `stage 3, 120 of 200 tasks, 4.2 M rows read`. Empty while no job runs.
    """
    core: Any = session.sparkContext._jsc.sc()
    store = core.statusStore()
    finished = tasks = done = rows = 0
    for number in sorted(core.statusTracker().getJobIdsForTag(tag), reverse=True):
        job = store.job(number)
        submitted = job.submissionTime()
        if submitted.isDefined() and submitted.get().getTime() < since * 1000:
            break
        finished += job.numCompletedStages()
        if job.status().toString() == "RUNNING":
            tasks += job.numTasks() - job.numSkippedTasks()
            done += job.numCompletedTasks()
            rows += sum(_rows(store.lastStageAttempt(stage)) for stage in _items(job.stageIds()))
    if not tasks:
        return ""
    return f"stage {finished + 1}, {done} of {tasks} tasks" + (f", {amount(rows)} rows read" if rows else "")


def _rows(stage: Any) -> int:
    """The rows that an active stage has read so far, from files and from other stages; else 0."""
    return (
        int(stage.inputRecords() + stage.shuffleReadRecords()) if stage.status().toString() == "ACTIVE" else 0
    )


def _items(sequence: Any) -> list[int]:
    """A Scala sequence's items."""
    return [int(sequence.apply(index)) for index in range(sequence.size())]


def amount(rows: int) -> str:
    """
    >>> [amount(rows) for rows in (999, 12_345, 4_190_000, 3_000_000_000)]
    ['999', '12.3 k', '4.2 M', '3.0 G']
    """
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if rows >= size:
            return f"{rows / size:.1f} {unit}"
    return str(rows)


class _Forward(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.events = AdapterLogger("mvsink")

    def emit(self, record: logging.LogRecord) -> None:
        self.events.debug(masked(f"{record.name}: {record.getMessage()}"))


def install() -> None:
    """Forward the `mvsink.*` loggers, once."""
    root = logging.getLogger("mvsink")
    if not any(isinstance(handler, _Forward) for handler in root.handlers):
        root.addHandler(_Forward())
        root.setLevel(logging.DEBUG)
        root.propagate = False
