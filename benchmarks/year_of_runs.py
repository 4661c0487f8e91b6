"""Measures a shard after a year of hourly runs with maintenance: load time of its log, its files.

    python benchmarks/year_of_runs.py [runs]

Every run appends two updates. Its commit's file is dated as if the year ended now, so that clean-up
treats old commits as old.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from dbt.adapters.mvsink.shard import (
    Antichain,
    ShardClient,
    WriteHandle,
    checkpoint,
    collect_garbage,
    compact_with_pyarrow,
)

HOUR = 3_600
SCHEMA = pa.schema([("x", pa.string())])


def run(handle: WriteHandle, number: int, began: float) -> None:
    """One run: an append, and what it leaves to do. The grace period of removed files is as long as
    168 runs have taken so far.
    """
    rows = {"x": [f"{number % 50}", f"{number}"], "_mv_time": [number] * 2, "_mv_diff": [1, 1]}
    lower, upper = Antichain.of(number), Antichain.of(number + 1)
    if number == 0:  # the first load
        rows = {"x": [f"base {n}" for n in range(10**6)], "_mv_time": [0] * 10**6, "_mv_diff": [1] * 10**6}
    done = handle.compare_and_append_batch(
        [handle.batch(pa.table(rows), lower, upper)], lower, upper, since=lower
    )

    if done.maintenance.compact is not None:
        compact_with_pyarrow(handle, done.maintenance.compact)
    if done.maintenance.collect_garbage:
        now = time.time()
        week = (now - began) / (number + 1) * 168
        collect_garbage(
            handle,
            removed_grace_ms=int(week * 1000),
            staged_grace_ms=int(week * 1000),
        )
        checkpoint(handle)


def date(log: Path, before: set[str], clock: float) -> set[str]:
    """Give what is new in the log the time ``clock``; all that is there now."""
    names = set(os.listdir(log))
    for name in names - before:
        os.utime(log / name, times=(clock, clock))
    return names


def measured(uri: str) -> str:
    """How long a log takes to load, and what is left of the past."""
    seconds = []
    for _ in range(9):
        started = time.perf_counter()
        state = ShardClient().open_reader(uri).state()
        seconds.append(time.perf_counter() - started)
    live = len({file.batch_id for file in state.files})
    commits = sum(path.suffix == ".json" for path in (Path(uri) / "_delta_log").iterdir())
    directories = len(list((Path(uri) / "table").iterdir()))
    return (
        f"version {state.version}: the log loads in {1000 * sorted(seconds)[4]:.0f} ms (median of 9; at most {1000 * max(seconds):.0f}), {commits} commits are "
        f"kept, {directories} directories of batches, {live} of them live"
    )


def main(runs: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        uri, began = f"{place}/shard", time.time()
        with ShardClient().open_writer(uri, SCHEMA) as handle:
            dated: set[str] = set()
            for number in range(runs):
                run(handle, number, began)
                dated = date(Path(uri) / "_delta_log", dated, began - (runs - number) * HOUR)
                if number % 1000 == 999:
                    print(f"{number + 1} runs in {time.time() - began:.0f} s; {measured(uri)}", flush=True)
        print(measured(uri))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 365 * 24)
