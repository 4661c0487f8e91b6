"""Measures what small models cost, against as many `table` models: `make bench` runs it.

    python -m benchmarks.small_models                     # 1, 10 and 50 models, warm
    python -m benchmarks.small_models --models 10 --rounds 3
    python -m benchmarks.small_models --cold              # each run in a process of its own

Every model filters a source of 5,000 rows; every other one adds it up. All models of a run are of
one kind: `table`, a `self_correcting_mv` whose source has changed, or one whose source has not. The
kinds take turns. What a run without models takes is subtracted: a figure is what the models add, as
the median of ``--rounds``. CPU is that of the whole process tree, Java's included.

Warm: all runs are invocations in one process, after ``--warm`` rounds that do not count.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 5_000
REGIONS = 50
KINDS = {"nothing": "", "table": "t", "changed": "m", "unchanged": "m"}  # and the models' prefix
WANTED = {"changed": 1.5, "unchanged": 0.5}
QUERIES = (
    "select id, name, amount, ordered from {source} where region = {region}",
    "select name, count(*) orders, sum(amount) amount, max(ordered) ordered from {source} where region = {region} group by name",
)
DBT = "from dbt.cli.main import cli; cli()"
DBT_PROJECT = (
    "name: p\nversion: '1.0'\nprofile: p\nmodels: {p: {+file_format: parquet}}\n"
    "flags: {send_anonymous_usage_stats: false}\n"
)
PROFILES = "p: {target: dev, outputs: {dev: {type: mvsink, schema: s, threads: 1}}}\n"


class Cost(NamedTuple):
    """Seconds."""

    wall: float
    cpu: float


@dataclass
class Project:
    """A dbt project of ``models`` models of either kind over one source."""

    place: Path
    models: int
    written: int = 0
    costs: dict[str, list[Cost]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    @property
    def source(self) -> Path:
        return self.place / "source" / "part-00000.parquet"

    def make(self) -> None:
        """Write the project's files."""
        models = self.place / "models"
        models.mkdir(parents=True)
        for number in range(self.models):
            query = QUERIES[number % 2].format(source="{{ source('raw', 'orders') }}", region=number)
            for prefix, kind in (("t", "table"), ("m", "self_correcting_mv")):
                text = f"{{{{ config(materialized='{kind}', tags=['{prefix}']) }}}} {query}"
                (models / f"{prefix}{number:02}.sql").write_text(text)
        (models / "sources.yml").write_text(
            "sources: [{name: raw, schema: default, tables: [{name: orders}]}]\n"
        )
        (self.place / "dbt_project.yml").write_text(DBT_PROJECT)
        (self.place / "profiles.yml").write_text(PROFILES)
        self.source.parent.mkdir()

    def change(self) -> None:
        """Write the source again; one row in a hundred differs, in every region."""
        self.written += 1
        ids = range(ROWS)
        changed = [self.written if (i // REGIONS + self.written) % 100 == 0 else 0 for i in ids]
        table = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "region": pa.array([i % REGIONS for i in ids], pa.int32()),
                "name": [f"customer {i // REGIONS % 20}" for i in ids],
                "amount": pa.array([i * 100 + extra for i, extra in zip(ids, changed, strict=True)]).cast(
                    pa.decimal128(19, 0)
                ),
                "ordered": pa.array([i * 1_000_000 for i in ids], pa.timestamp("us", tz="UTC")),
            }
        )
        partial = self.source.with_suffix(".partial")
        pq.write_table(table, partial)
        partial.replace(self.source)

    def arguments(self, kind: str) -> list[str]:
        """The command line of a run of one kind of models."""
        chosen = f"tag:{KINDS[kind]}" if KINDS[kind] else "tag:none"
        return run_arguments(str(self.place), chosen)

    def rounds(self, run: Callable[[Sequence[str]], object], *, warm: int, rounds: int) -> None:
        """Run all kinds in turn; ``run`` is given dbt's arguments."""
        for number in range(warm + rounds):
            for kind in KINDS:
                if kind == "changed":
                    self.change()
                cost = measured(lambda kind=kind: run(self.arguments(kind)))  # type: ignore[misc]
                if number >= warm:
                    self.costs[kind].append(cost)
            print(".", end="", flush=True)

    def added(self, kind: str) -> Cost:
        """What the models of ``kind`` add to a run without models."""
        of_kind, of_none = self.costs[kind], self.costs["nothing"]
        return Cost(*(statistics.median(a) - statistics.median(b) for a, b in zip(zip(*of_kind), zip(*of_none))))  # fmt: skip


def run_arguments(place: str, selected: str) -> list[str]:
    """The command line of a run of the ``selected`` models of the project at ``place``."""
    return ["--quiet", "run", "--select", selected, "--project-dir", place, "--profiles-dir", place]


def measured(run: Callable[[], object]) -> Cost:
    """What ``run`` takes, in this process and in those that it started."""
    wall, cpu = time.monotonic(), cpu_seconds()
    run()
    return Cost(time.monotonic() - wall, cpu_seconds() - cpu)


def cpu_seconds() -> float:
    """Of this process, of its children that have ended, and of those that run."""
    own = os.times()
    ended = own.user + own.system + own.children_user + own.children_system
    return ended + sum(map(_seconds, _descendants(os.getpid())))


def _descendants(parent: int) -> list[int]:
    children: list[int] = []
    for task in Path(f"/proc/{parent}/task").glob("*"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread or process has just ended
            children += map(int, (task / "children").read_text().split())
    return children + [below for child in children for below in _descendants(child)]


def _seconds(process: int) -> float:
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(map(int, stat.rpartition(")")[2].split()[11:15])) / os.sysconf("SC_CLK_TCK")


def start_dbt() -> tuple[Callable[[Sequence[str]], Any], Any]:
    """What runs dbt in this process and gives its result, and the Spark session."""
    from dbt.cli.main import dbtRunner

    from benchmarks.bench import start

    session = start()

    def run(arguments: Sequence[str]) -> Any:
        result = dbtRunner().invoke(list(arguments))
        if not result.success:
            raise SystemExit(f"dbt {' '.join(arguments)}: {result.exception or result.result}")
        return result.result

    return run, session


def cold_run(place: Path) -> Callable[[Sequence[str]], object]:
    """A run in a process of its own."""

    def run(arguments: Sequence[str]) -> None:
        subprocess.run([sys.executable, "-c", DBT, *arguments], cwd=place, check=True)

    return run


def main() -> None:
    """Run the kinds in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", type=int, nargs="+", default=[1, 10, 50])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm", type=int, default=3)
    parser.add_argument("--cold", action="store_true", help="each run in a process of its own")
    arguments = parser.parse_args()
    projects = []
    if not arguments.cold:
        run, session = start_dbt()
    for models in arguments.models:
        with tempfile.TemporaryDirectory(prefix="mvsink-small-") as directory:
            project = Project(Path(directory) / "p", models)
            project.make()
            project.change()
            if arguments.cold:
                run = cold_run(project.place)
                create_cold(project)
            else:
                session.sql("drop table if exists default.orders")
                session.sql(statement(project))
            project.rounds(run, warm=1 if arguments.cold else arguments.warm, rounds=arguments.rounds)
            projects.append(project)
            if not arguments.cold:
                session.sql("drop schema s cascade")
    report(projects)


def statement(project: Project) -> str:
    """The source as a table of the catalog."""
    return f"create table default.orders using parquet location '{project.source.parent}'"


def create_cold(project: Project) -> None:
    """The same, by a dbt process, in the project's own metastore."""
    macros = project.place / "macros"
    macros.mkdir()
    (macros / "create.sql").write_text(
        f'{{% macro create_source() %}}{{% do run_query("{statement(project)}") %}}{{% endmacro %}}'
    )
    cold_run(project.place)(["--quiet", "run-operation", "create_source"])


def report(projects: Sequence[Project]) -> None:
    """What the models add, and its ratio to what as many tables add."""
    print(f"\n{'models':<8}{'kind':<12}{'wall s':>9}{'CPU s':>9}{'ratio of wall':>15}{'of CPU':>9}")
    for project in projects:
        table = project.added("table")
        for kind in list(KINDS)[1:]:
            cost = project.added(kind)
            wanted = f"   wanted: <= {WANTED[kind]} of the CPU" if kind in WANTED else ""
            print(
                f"{project.models:<8}{kind:<12}{cost.wall:>9.2f}{cost.cpu:>9.2f}"
                f"{cost.wall / table.wall:>15.2f}{cost.cpu / table.cpu:>9.2f}{wanted}"
            )


if __name__ == "__main__":
    main()
