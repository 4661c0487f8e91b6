"""Short commands on a warm session, beside a cold `dbt run` and what no adapter can go below.

    python -m benchmarks.warm_session                          # medians of 9 after 2
    python -m benchmarks.warm_session --duckdb ../venv/bin/dbt  # beside a model of dbt-duckdb
    python -m benchmarks.warm_session --rounds 0 --runs 500     # the server's memory

`dbt parse` is the floor: what is left above it is the connection, the listing and the model. Every
command is a process of its own, all take turns. The commands of `mvsink` are for the example
project, with January and February loaded. Memory: Java's heap in use after a collection.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cold_start import ROOT, Variant, make_items
from benchmarks.example_choice import EXAMPLE, Example

MVSINK = "from dbt.adapters.mvsink.cli.main import main; main()"
FLIGHT = "carrier = 'UA' and flight = 1545"
COMMANDS = {
    "status": ("status",),
    "history": ("history", "fct_flights"),
    "blame": ("blame", "fct_flights", "--where", FLIGHT, "--limit", "3"),
    "plan": ("plan",),
    "explain": ("explain", "fct_flights"),
    "diff": ("diff", "fct_flights", "-1"),
    "undo": ("undo", "fct_flights", "-1", "--yes"),
}
USED = re.compile(r"used (\d+)K")
EVERY = 100  # runs
WARM = ", session: warm, class_archive: false"  # an archive is made when the session has ended


class Timed:
    """Commands by their names, with the seconds of each run."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def run(self, name: str, command: Sequence[str], cwd: Path) -> None:
        ours = ("JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "PYTHONDONTWRITEBYTECODE")
        environment = {key: value for key, value in os.environ.items() if key not in ours}
        environment["PYTHONPYCACHEPREFIX"] = str(cwd.parent / "bytecode")
        started = time.monotonic()
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{name}: {done.stdout}{done.stderr}")
        self.seconds.setdefault(name, []).append(time.monotonic() - started)

    def report(self, warm: int) -> None:
        for name, every in self.seconds.items():
            print(f"{name:<36}{statistics.median(every[warm:]):>8.2f}", flush=True)


def mvsink(*arguments: str) -> list[str]:
    """The command."""
    return [sys.executable, "-c", MVSINK, *arguments]


def example_at(place: Path) -> Example:
    """The example project with two months loaded, on a warm session."""
    example = Example(None, place)
    example.make()
    shutil.copy(EXAMPLE / "dbt_project.yml", place)  # with its tasks, which have no `verify`
    (place / "profiles.yml").write_text(
        "nyc_flights: {target: dev, outputs: {dev: {type: mvsink, schema: flights, threads: 4, session: warm}}}\n"
    )
    timed = Timed()
    dbt = [sys.executable, "-c", "from dbt.cli.main import cli; cli()"]
    timed.run("seed", [*dbt, "seed"], place)
    timed.run("run", [*dbt, "run"], place)
    example.correct(0.01)
    timed.run("run", [*dbt, "run"], place)
    return example


def commands(place: Path, warm: int, rounds: int, duckdb: Path | None) -> None:
    """Print the seconds of each command."""
    items = make_items(place)
    cold = Variant("cold", ROOT, place / "cold", ", session: own")
    warmed = Variant("warm", ROOT, place / "warm", WARM)
    for variant in (cold, warmed):
        variant.make_project(items)
        variant.warm_up()
    example_at(place / "example")
    timed = Timed()
    dbt = [sys.executable, "-c", "from dbt.cli.main import cli; cli()"]
    if duckdb is not None:
        make_duckdb(place / "duckdb")
    for _ in range(warm + rounds):
        timed.run("dbt parse", [*dbt, "parse"], warmed.place)
        cold.run()
        warmed.run()
        if duckdb is not None:
            timed.run("dbt-duckdb: dbt run", [str(duckdb), "run"], place / "duckdb")
        for name, arguments in COMMANDS.items():
            timed.run(f"mvsink {name}", mvsink(*arguments), place / "example")
        timed.run("dbt run, example, after undo", [*dbt, "run"], place / "example")
    print(f"{'command':<36}{'s':>8}")
    timed.report(warm)
    for variant in (cold, warmed):
        print(f"{f'dbt run, {variant.name}':<36}{statistics.median(variant.wall[warm:]):>8.2f}")
    for variant in (warmed.place, place / "example"):
        subprocess.run(mvsink("session", "stop"), cwd=variant, check=True)


def make_duckdb(place: Path) -> None:
    """A project of one small model of dbt-duckdb."""
    (place / "models").mkdir(parents=True)
    (place / "models" / "m.sql").write_text("{{ config(materialized='table') }} select 1 a")
    (place / "dbt_project.yml").write_text(
        "name: p\nversion: '1.0'\nprofile: p\nflags: {send_anonymous_usage_stats: false}\n"
    )
    (place / "profiles.yml").write_text("p: {target: dev, outputs: {dev: {type: duckdb, path: d.db}}}\n")


def memory(place: Path, runs: int) -> None:
    """Print what Java's heap holds after each hundred runs, by one process and by killed ones."""
    items = make_items(place)
    warmed = Variant("warm", ROOT, place / "warm", WARM)
    warmed.make_project(items)
    warmed.warm_up()
    stored = next((warmed.place / ".mvsink" / "session").glob("*.json"))
    server = json.loads(stored.read_text())["process"]
    [java] = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    os.chdir(warmed.place)
    from dbt.cli.main import dbtRunner

    for number in range(runs + 1):
        if number % EVERY == 0:
            subprocess.run(["jcmd", java, "GC.run"], check=True, capture_output=True)
            answered = subprocess.run(
                ["jcmd", java, "GC.heap_info"], check=True, capture_output=True, text=True
            )
            resident = Path(f"/proc/{java}/status").read_text().partition("VmRSS:")[2].split()[0]
            used = int(USED.search(answered.stdout)[1]) / 1024  # type: ignore[index]
            print(
                f"{number:>5} runs: {used:>8.0f} MB of heap, {int(resident) / 1024:>6.0f} MB resident",
                flush=True,
            )
        result = dbtRunner().invoke(["--quiet", "run"])
        if not result.success:
            raise SystemExit(str(result.exception))
    subprocess.run(mvsink("session", "stop", "--force"), check=True)


def main() -> None:
    """Print the table, and with `--runs` the memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--warm", type=int, default=2, help="rounds that do not count")
    parser.add_argument("--duckdb", type=Path, help="the command dbt of an environment with dbt-duckdb")
    parser.add_argument(
        "--runs", type=int, default=0, help="how many runs the server's memory is watched for"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mvsink-warm-") as directory:
        if arguments.rounds:
            commands(Path(directory), arguments.warm, arguments.rounds, arguments.duckdb)
        if arguments.runs:
            memory(Path(directory) / "memory", arguments.runs)


if __name__ == "__main__":
    main()
