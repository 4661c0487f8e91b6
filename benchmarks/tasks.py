"""Measures what a continual task costs, by the size of its input and the number of pending times.

`make bench` runs it. The first part is an upsert task over a shard of `--rows` rows: its first run,
which reads all of them, compared with a later run for a change of 1,000 rows, and whether the
latter, by Spark's metrics, read any file of the input that the change did not touch. The second
part is `--times` pending times of a stateless task, all in one run, compared with one by one
(`--singly` of them). Every kind of run is executed once on little data before it is measured.
"""

from __future__ import annotations

import argparse
import itertools
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.bench import start
from dbt.adapters.mvsink.engine import shard_columns
from dbt.adapters.mvsink.inputs.reference import References
from dbt.adapters.mvsink.sink import Driver, SinkRequest
from tests.functional.continual_task.driver import DAY, UPSERT, Shard, Task
from tests.support.session_engine import SessionEngine

T0 = 1_800_000_000_000
CHANGED = 1_000
WANTED = 0.1  # of the first run
TRANSFORM = "from transform db.i using (select key, val + 1 from db.i where val >= 0)"
_GROUPS = itertools.count()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the input")
    parser.add_argument("--rounds", type=int, default=5, help="later runs; the figure is their median")
    parser.add_argument("--times", type=int, default=1_000, help="pending at once")
    parser.add_argument("--singly", type=int, default=100, help="of them, one by one")
    arguments = parser.parse_args()
    session = start()
    # a scan's description holds its whole location
    session.conf.set("spark.sql.maxMetadataStringLength", 100_000)
    place = Path(tempfile.mkdtemp(prefix="mvsink-tasks-"))
    try:
        by_size(session, place / "warm", 10_000, 5)
        by_number(session, place / "warm again", 3, 2)
        print(f"\nupsert task, input of {arguments.rows:,} rows, a change of {CHANGED:,}", flush=True)
        first, later, read = by_size(session, place / "size", arguments.rows, arguments.rounds)
        print(f"  first run                          {first:8.2f} s")
        print(
            f"  later run                          {later:8.2f} s   x{later / first:.3f} (wanted: under {WANTED})"
        )
        print(f"  files of the input that the change did not touch, read by later runs: {read}")
        print(f"\ntask without state, {arguments.times:,} pending times", flush=True)
        (together, jobs), (singly, many) = by_number(
            session, place / "number", arguments.times, arguments.singly
        )
        print(
            f"  in one run, each                   {1000 * together / arguments.times:8.1f} ms, {jobs} Spark jobs in all"
        )
        print(
            f"  one by one ({arguments.singly}), each            {1000 * singly / arguments.singly:8.1f} ms, {many / arguments.singly:.1f} Spark jobs each"
        )
        print(
            f"  ratio                              x{(together / arguments.times) / (singly / arguments.singly):.4f}"
        )
    finally:
        shutil.rmtree(place)


def by_size(session: Any, place: Path, rows: int, rounds: int) -> tuple[float, float, int]:
    """Seconds of the first and of a later run, and how many files that no change touched were read
    by later ones.
    """
    task = Task(session, place, UPSERT)
    refresh(session, task.input, rows, 0)
    untouched = {file.path for file in task.input.state().files}
    first = seconds(lambda: task.run(T0))
    runs, read = [], set()
    for n in range(1, rounds + 1):
        refresh(session, task.input, rows, n)
        before = len(scans(session))
        runs.append(seconds(lambda n=n: task.run(T0 + n)))
        read |= {
            batch for location in scans(session)[before:] for batch in re.findall(r"/i/table/(\w+)", location)
        }
    assert read, "later runs read the change"
    return first, sorted(runs)[len(runs) // 2], sum(path.split("/")[1] in read for path in untouched)


def scans(session: Any) -> list[str]:
    """Where Spark read files, by its own metrics: the location of every scan so far that opened
    any.
    """
    session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    store = session._jsparkSession.sharedState().statusStore()
    executions, locations = store.executionsList(), []
    for index in range(executions.size()):
        number = executions.apply(index).executionId()
        values, nodes = store.executionMetrics(number), store.planGraph(number).allNodes()
        for node in (nodes.apply(i) for i in range(nodes.size())):
            metrics = (node.metrics().apply(i) for i in range(node.metrics().size()))
            files = [
                values.get(metric.accumulatorId())
                for metric in metrics
                if metric.name() == "number of files read"
            ]
            if any(count.isDefined() and count.get() != "0" for count in files):
                locations.append(node.desc())
    return locations


def refresh(session: Any, shard: Shard, rows: int, n: int) -> None:
    """The input's contents at ``T0 + n``, as a view of them is kept: `CHANGED` rows are other ones
    than at the time before.
    """
    step = max(1, rows // CHANGED)
    query = f"select id as key, if(id % {step} < {n}, 1000 + id % {step}, id % 97) as val from range({rows})"
    with shard.open() as handle:
        request = SinkRequest(
            model="db.i",
            query=query,
            columns=shard_columns(shard.schema),
            time=T0 + n,
            references=References(),
            clock=T0 + n,
            retain_history=DAY,
        )
        Driver(request, handle, SessionEngine(session)).run()


def by_number(
    session: Any, place: Path, times: int, singly: int
) -> tuple[tuple[float, int], tuple[float, int]]:
    """Seconds and Spark jobs for all pending times in one run, and for ``singly`` of them one by
    one.
    """
    results = []
    for name, number, one_by_one in (("together", times, False), ("singly", singly, True)):
        task = Task(session, place / name, TRANSFORM)
        task.input.write(T0, [(0, 0, 1)])
        task.run(T0)
        for n in range(number):
            task.input.write(T0 + 1 + n, [(n, n, 1)])
        group = f"tasks-{next(_GROUPS)}"
        session.sparkContext.setJobGroup(group, name)
        took = seconds(
            lambda task=task, number=number, one_by_one=one_by_one: task.run(
                T0 + number, one_by_one=one_by_one
            )
        )
        results.append((took, len(session.sparkContext.statusTracker().getJobIdsForGroup(group))))
        assert len(task.output.contents()) == number + 1
    return results[0], results[1]


def seconds(act: Callable[[], object]) -> float:
    started = time.monotonic()
    act()
    return time.monotonic() - started


if __name__ == "__main__":
    main()
