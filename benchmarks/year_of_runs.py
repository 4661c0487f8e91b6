"""A shard after a year of hourly runs, each with its maintenance: how long its log takes to load, and how many files are left.

    python benchmarks/year_of_runs.py [runs]

Every run appends two updates. Its commit's file is dated as if the year ended now, so that clean-up finds old commits old.
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
    CompactionPlan,
    ShardClient,
    WriteHandle,
    compact_with_pyarrow,
    perform_maintenance,
)

HOUR = 3_600
SCHEMA = pa.schema([("x", pa.string())])


def run(handle: WriteHandle, number: int, clock: float) -> None:
    """One run: an append, and what it leaves to do."""
    rows = {"x": [f"{number % 50}", f"{number}"], "_mv_time": [number] * 2, "_mv_diff": [1, 1]}
    lower, upper = Antichain.of(number), Antichain.of(number + 1)
    if number == 0:  # the first load
        rows = {"x": [f"base {n}" for n in range(10**6)], "_mv_time": [0] * 10**6, "_mv_diff": [1] * 10**6}
    done = handle.compare_and_append_batch([handle.batch(pa.table(rows), lower, upper)], lower, upper, since=lower)

    def compact(plan: CompactionPlan) -> bool:
        return compact_with_pyarrow(handle, plan)

    perform_maintenance(handle, done.maintenance, int(clock * 1000), compact)


def main(runs: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        uri, began = f"{place}/shard", time.time()
        log = Path(uri) / "_delta_log"
        with ShardClient().open_writer(uri, SCHEMA) as handle:
            dated = 0
            for number in range(runs):
                clock = began - (runs - number) * HOUR
                run(handle, number, clock)
                for version in range(dated, handle.state().version + 1):
                    path = log / f"{version:020d}.json"
                    if path.exists():
                        os.utime(path, times=(clock, clock))
                dated = handle.state().version + 1
        print(f"{runs} runs in {time.time() - began:.0f} s, version {dated - 1}")
        seconds = []
        for _ in range(9):
            started = time.perf_counter()
            state = ShardClient().open_reader(uri).state()
            seconds.append(time.perf_counter() - started)
        print(f"the log loads in {1000 * sorted(seconds)[4]:.0f} ms (median of 9), {1000 * max(seconds):.0f} ms at most")
        print(f"{len(list(log.iterdir()))} files in the log, {len(list((Path(uri) / 'batches').iterdir()))} directories of batches, "
              f"{len({file.batch_id for file in state.files})} of them live, {sum(file.rows or 0 for file in state.files)} rows")  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 365 * 24)
