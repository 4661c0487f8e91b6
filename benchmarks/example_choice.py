"""Measures whether `incremental: auto` chooses what costs less for the models of `example_project`,
of some thousand rows each: as `benchmarks.choice` does for large ones.

    python -m benchmarks.example_choice --shares 0.01 --rounds 1

Before each round a share of the flights and planes arrives again, corrected. Then the project's
views run with `always`, `never` and `auto`, another way first in each round, by dbt in one process.
A figure is what dbt says that a model took.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from benchmarks.choice import SHARES
from benchmarks.small_models import start_dbt
from benchmarks.tpcdi.report import choices
from benchmarks.tpcdi.variants import VariantRun, model_run

EXAMPLE = Path(__file__).resolve().parents[1] / "example_project"
sys.path.insert(0, str(EXAMPLE))
WAYS = ("always", "never", "ours")
MULTIPLIER = 2_654_435_761  # Knuth's: spreads the corrected records over the file
VIEWS = "config.materialized:self_correcting_mv"


@dataclass
class Example:
    """A copy of the project at ``place``, run by ``invoke`` with dbt's arguments."""

    invoke: Any
    place: Path
    arrived: dict[str, pa.Table] = field(default_factory=dict)
    version: int = 1

    def make(self) -> None:
        """Copy the project, make a target for each way, and let January arrive."""
        from arrivals import Arrivals  # type: ignore[import-not-found]

        ignored = shutil.ignore_patterns("target", "logs", "data", ".*")
        shutil.copytree(EXAMPLE, self.place, ignore=ignored, dirs_exist_ok=True)
        # Verifications evaluate whatever changed, and are due by the clock.
        project = yaml.safe_load((self.place / "dbt_project.yml").read_text())
        project["models"]["nyc_flights"]["+verify"] = "never"
        (self.place / "dbt_project.yml").write_text(yaml.safe_dump(project))
        outputs = {way: {"type": "mvsink", "schema": way, "threads": 1} for way in WAYS}
        profiles = {"nyc_flights": {"target": "ours", "outputs": outputs}}
        (self.place / "profiles.yml").write_text(yaml.safe_dump(profiles))
        Arrivals(self.place / "data" / "arrivals").january()
        for what in ("flights", "planes"):
            [path] = (self.place / "data" / "arrivals" / what).glob("*.parquet")
            self.arrived[what] = pq.read_table(path)

    def correct(self, share: float) -> None:
        """A ``share`` of the records arrives again, as a new version with another value."""
        self.version += 1
        for what, column in (("flights", "dep_delay"), ("planes", "seats")):
            table = self.arrived[what]
            chosen = [(i * MULTIPLIER + self.version) % 2**32 < share * 2**32 for i in range(table.num_rows)]
            again = table.filter(pa.array(chosen))
            values = {column: pc.add(again.column(column), self.version)}
            values["version"] = pa.array([self.version] * again.num_rows, pa.int32())
            for name, value in values.items():
                again = again.set_column(again.schema.get_field_index(name), name, value)
            path = self.place / "data" / "arrivals" / what / f"{self.version:05}.parquet"
            pq.write_table(again.cast(table.schema), path)

    def run(self, step: str, way: str, *, command: Sequence[str] = ("run", "--select", VIEWS)) -> VariantRun:
        """Run the views of one way."""
        incremental = "auto" if way == "ours" else way
        place = str(self.place)
        options = {"arrivals": str(self.place / "data" / "arrivals"), "incremental": incremental}
        arguments = ["--quiet", *command, "--project-dir", place, "--profiles-dir", place, "--target", way]
        arguments += ["--target-path", str(self.place / "target" / way), "--vars", yaml.safe_dump(options)]
        runs = [run for run in map(model_run, self.invoke(arguments)) if run]
        return VariantRun(step, way, {run.model: run for run in runs}, 0.0)


def main() -> None:
    """Print a line for each changed model and share, and how many choices were right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shares", type=float, nargs="*", default=list(SHARES))
    arguments = parser.parse_args()
    invoke, _ = start_dbt()
    runs: list[VariantRun] = []
    with tempfile.TemporaryDirectory() as directory:
        example = Example(invoke, Path(directory) / "example")
        example.make()
        for way in WAYS:
            example.run("load", way, command=("seed",))
            example.run("load", way)
        for share in arguments.shares:
            for number in range(arguments.rounds + 1):
                example.correct(share)
                for way in (*WAYS[number % 3 :], *WAYS[: number % 3]):
                    runs.append(example.run(f"{share:.2%}", way))
    print("\n".join(choices(runs)))


if __name__ == "__main__":
    main()
