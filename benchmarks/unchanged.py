"""Measures a run that finds its inputs unchanged: `make bench` runs it.

The model is the join of six tables of TPC-H of `benchmarks.wide_join`. Runs of dbt, all in one
process, take turns: the model as a `table`, and as a `self_correcting_mv` whose inputs have not
changed. A figure is the median of what dbt says that the model took; Spark's jobs are counted.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.bench import make_tpch
from benchmarks.small_models import DBT_PROJECT, PROFILES, run_arguments, start_dbt
from benchmarks.wide_join import TABLES, query

KINDS = {"rebuilt": "table", "kept": "self_correcting_mv"}  # by the model's name
WANTED = 0.02


def main() -> None:
    """Run both in turn, and print what they took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm", type=int, default=2, help="rounds that do not count; the first is the load")
    parser.add_argument("--scale", type=float, default=1.0, help="of TPC-H: 1 is 6 million rows")
    arguments = parser.parse_args()
    run, session = start_dbt()
    make_tpch(session, TABLES, arguments.scale)
    with tempfile.TemporaryDirectory(prefix="mvsink-unchanged-") as directory:
        make(Path(directory))
        seconds: dict[str, list[float]] = {name: [] for name in KINDS}
        jobs: dict[str, list[int]] = {name: [] for name in KINDS}
        for number in range(arguments.warm + arguments.rounds):
            for name in KINDS:
                before = started_jobs(session)
                [result] = run(run_arguments(directory, name))
                if number >= arguments.warm:
                    seconds[name].append(result.execution_time)
                    jobs[name].append(started_jobs(session) - before)
    rebuilt, kept = (statistics.median(seconds[name]) for name in KINDS)
    for name, kind in KINDS.items():
        print(f"{kind:<20}{statistics.median(seconds[name]):>8.3f} s{max(jobs[name]):>6} jobs at most")
    print(f"ratio {kept / rebuilt:.4f}   wanted: <= {WANTED}, and no job")


def make(place: Path) -> None:
    """Write the project's files."""
    (place / "models").mkdir()
    text = query(0)
    for table in TABLES:
        text = text.replace(f" {table} ", f" {{{{ source('raw', '{table}') }}}} ", 1)
    for name, kind in KINDS.items():
        (place / "models" / f"{name}.sql").write_text(f"{{{{ config(materialized='{kind}') }}}} {text}")
    tables = ", ".join(f"{{name: {table}}}" for table in TABLES)
    (place / "models" / "sources.yml").write_text(
        f"sources: [{{name: raw, schema: default, tables: [{tables}]}}]\n"
    )
    (place / "dbt_project.yml").write_text(DBT_PROJECT)
    (place / "profiles.yml").write_text(PROFILES)


def started_jobs(session: Any) -> int:
    """How many jobs Spark has started so far."""
    return int(session.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


if __name__ == "__main__":
    main()
