"""Measures how fresh `mvsink watch` keeps the example project's tables while flights arrive.

January is loaded first. Then, for two minutes, March arrives a few days at a time, each time when
the previous arrival is visible in `fct_flights`. For each arrival the output shows how long after
the file landed `watch` reported it in the table, and how much of that the run itself took.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from arrivals import Arrivals, month, read  # noqa: E402

SECONDS = float(os.environ.get("WATCH_DEMO_SECONDS", "120"))
PAUSE = 3.0  # seconds between an arrival that shows and the next one
ALLOWED = 5.0  # seconds beyond the run's own time
LINE = re.compile(r"fct_flights \+([\d,]+) -.*ran ([\d.]+) s")
MARCH, DAYS = 3, 2


@dataclass(frozen=True)
class Arrival:
    """``fresh``: seconds from the file's landing to the watch's line; ``ran``: those of its run."""

    rows: int
    fresh: float
    ran: float


class Watching:
    """`mvsink watch` in a process of its own, and its lines as they come."""

    def __init__(self, variables: dict[str, str]):
        command = [
            sys.executable,
            "-m",
            "dbt.adapters.mvsink.cli.main",
            "watch",
            "--vars",
            json.dumps(variables),
        ]
        self.process = subprocess.Popen(
            [*command, "--project-dir", str(HERE), "--profiles-dir", str(HERE)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=HERE,
        )
        self.lines: list[tuple[float, str]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append((time.monotonic(), line.rstrip()))
            print("   " + line.rstrip(), flush=True)

    def shows(self, rows: int, after: float, patience: float = 400) -> tuple[float, float]:
        """Waits for the round that adds ``rows`` flights: when its line came, how long it ran."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and self.process.poll() is None:
            for at, line in list(self.lines):
                match = LINE.search(line)
                if match and at >= after and int(match[1].replace(",", "")) == rows:
                    return at, float(match[2])
            time.sleep(0.05)
        raise SystemExit(f"no line with fct_flights +{rows:,} within {patience:.0f} s")

    def stop(self) -> int:
        """Stop `watch` as Ctrl-C would; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def main() -> None:
    """Exits with an error if an arrival took longer than `ALLOWED`."""
    os.chdir(HERE)
    shutil.rmtree(HERE / ".mvsink", ignore_errors=True)
    arrivals = Arrivals.fresh(HERE / "data" / "arrivals")
    variables = {"arrivals": str(arrivals.root)}
    pacsv.write_csv(read("airlines.csv"), HERE / "seeds" / "airlines.csv")
    january = arrivals.january()
    dbt("seed", variables)
    began = time.monotonic()
    watching = Watching(variables)
    arrived: list[Arrival] = []
    try:
        watching.shows(january["flights"], began)
        began = time.monotonic()
        for name, flights in days():
            time.sleep(PAUSE)
            if time.monotonic() - began > SECONDS:
                break
            landed = time.monotonic()
            land(arrivals.root / "flights", name, flights)
            at, ran = watching.shows(flights.num_rows, landed)
            arrived.append(Arrival(flights.num_rows, at - landed, ran))
    finally:
        code = watching.stop()
    for each in arrived:
        print(
            f"{each.rows:5,} flights: fresh after {each.fresh:4.1f} s, of which the run took {each.ran:4.1f} s"
        )
    worst = max(each.fresh - each.ran for each in arrived)
    print(f"{len(arrived)} arrivals; at most {worst:.1f} s beyond the run's own time; exit code {code}")
    if worst > ALLOWED or code != 0:
        raise SystemExit(1)


def days() -> Iterator[tuple[str, pa.Table]]:
    """March, `DAYS` days at a time."""
    flights = month(MARCH).drop_columns(["n"])
    for first in range(1, 32, DAYS):
        day = flights.column("day")
        chosen = flights.filter(pc.and_(pc.greater_equal(day, first), pc.less(day, first + DAYS)))
        yield (
            f"2013-03-{first:02}",
            chosen.append_column("version", pa.array([1] * chosen.num_rows, pa.int32())),
        )


def land(place: Path, name: str, table: pa.Table) -> None:
    """Write a file that appears complete."""
    pq.write_table(table, place / f".{name}")
    (place / f".{name}").rename(place / f"{name}.parquet")


def dbt(command: str, variables: dict[str, str]) -> None:
    """Run dbt in its own process, which releases the metastore when it ends."""
    code = "from dbt.cli.main import cli; cli()"
    place = ["--quiet", "--project-dir", str(HERE), "--profiles-dir", str(HERE)]
    subprocess.run([sys.executable, "-c", code, command, *place, "--vars", json.dumps(variables)], check=True)


if __name__ == "__main__":
    main()
