"""A cold `dbt run`: one small model, unchanged, in a process of its own, as the second run on a
machine.

    python -m benchmarks.cold_start                       # with and without an archive of classes
    python -m benchmarks.cold_start --against ../other    # this tree and another one's package

Each variant has a project and a cache directory of its own. Runs that do not count load the model,
let the archive be made, and compile Python's modules. Then the variants take turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[1]
WANTED = 0.65  # of the wall time
MAKING = 600.0  # seconds that making an archive may take
DBT = "from dbt.cli.main import cli; cli()"
MESSAGE = "starting Spark"


@dataclass
class Variant:
    """A source tree and a profile, with what its runs took."""

    name: str
    tree: Path
    place: Path
    profile: str = ""
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    silence: list[float] = field(default_factory=list)  # seconds from the start to `MESSAGE`

    def make_project(self, source: Path) -> None:
        """One model over a table of Parquet files, which `register` makes."""
        models, macros = self.place / "models", self.place / "macros"
        models.mkdir(parents=True)
        macros.mkdir()
        (models / "mv.sql").write_text(
            "{{ config(materialized='self_correcting_mv') }} select id, name from {{ source('raw', 'items') }}"
        )
        (models / "sources.yml").write_text(
            "sources: [{name: raw, schema: default, tables: [{name: items}]}]\n"
        )
        table = f"create table default.items using parquet location '{source.parent}'"
        (macros / "register.sql").write_text(
            f"{{% macro register() %}}{{% do run_query({table!r}) %}}{{% endmacro %}}"
        )
        (self.place / "dbt_project.yml").write_text(
            "name: p\nversion: '1.0'\nprofile: p\nflags: {send_anonymous_usage_stats: false}\n"
        )
        (self.place / "profiles.yml").write_text(
            f"p: {{target: dev, outputs: {{dev: {{type: mvsink, schema: s{self.profile}}}}}}}\n"
        )

    def run(self, command: Sequence[str] = ("run",)) -> None:
        """One run, measured. Its CPU time includes Java's."""
        started, announced = time.monotonic(), None
        process = subprocess.Popen(
            [sys.executable, "-c", DBT, *command],
            cwd=self.place,
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        lines = []
        for line in process.stdout or ():
            lines.append(line)
            if MESSAGE in line and announced is None:
                announced = time.monotonic() - started
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit("".join(lines))
        self.wall.append(time.monotonic() - started)
        self.cpu.append(usage.ru_utime + usage.ru_stime)
        self.silence.append(announced or 0.0)

    def _environment(self) -> dict[str, str]:
        """As users have it: no options for Java, modules of Python compiled once."""
        ours = ("JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "PYTHONDONTWRITEBYTECODE")
        return {
            **{name: value for name, value in os.environ.items() if name not in ours},
            "PYTHONPATH": str(self.tree),
            "PYTHONPYCACHEPREFIX": str(self.place.parent / "bytecode"),
            "PYTHONUNBUFFERED": "1",
            "XDG_CACHE_HOME": str(self.place / "cache"),
        }

    def warm_up(self) -> None:
        """What does not count. A variant without archives makes no lock file to wait for."""
        self.run(("run-operation", "register"))
        self.run()
        cache = self.place / "cache" / "dbt-mvsink" / "java-classes"
        deadline = time.monotonic() + MAKING
        while cache.exists() and not list(cache.glob("*.jsa")):
            if time.monotonic() > deadline:
                raise SystemExit(f"no archive in {cache} after {MAKING:.0f} s")
            time.sleep(1)
        self.run()
        for measured in (self.wall, self.cpu, self.silence):
            measured.clear()


def make_items(place: Path) -> Path:
    """The file that the model reads."""
    numbers = range(1000)
    path = place / "items" / "part-0.parquet"
    path.parent.mkdir(parents=True)
    columns = {"id": pa.array(numbers, pa.int32()), "name": [str(number) for number in numbers]}
    pq.write_table(pa.table(columns), path)
    return path


def main() -> None:
    """Print the medians of each variant and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, help="the source tree of another version of the package")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mvsink-cold-start-") as directory:
        place = Path(directory)
        items = make_items(place)
        if arguments.against:
            before = Variant(str(arguments.against), arguments.against.resolve(), place / "before")
        else:
            before = Variant("without an archive", ROOT, place / "before", ", class_archive: false")
        variants = [before, Variant("now", ROOT, place / "now")]
        for variant in variants:
            variant.make_project(items)
            variant.warm_up()
        for _ in range(arguments.rounds):
            for variant in variants:
                variant.run()
        report(variants)


def report(variants: list[Variant]) -> None:
    """Medians; the last variant's ratio to the first's."""
    print(f"\n{'one cold dbt run':<28}{'wall s':>9}{'CPU s':>9}{'silent s':>10}")
    for variant in variants:
        wall, cpu, silence = map(statistics.median, (variant.wall, variant.cpu, variant.silence))
        print(f"{variant.name[-27:]:<28}{wall:>9.1f}{cpu:>9.1f}{silence:>10.1f}")
    first, last = variants[0], variants[-1]
    wall, cpu = (
        statistics.median(last_ones) / statistics.median(first_ones)
        for first_ones, last_ones in ((first.wall, last.wall), (first.cpu, last.cpu))
    )
    print(f"{'ratio':<28}{wall:>9.2f}{cpu:>9.2f}{'':>10}   wanted: <= {WANTED} of the wall time")


if __name__ == "__main__":
    main()
