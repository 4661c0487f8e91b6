"""The README's story, played: `make demo`.

January arrives and is loaded. February arrives with late and corrected January records: only the
difference is written, and it is computed from what changed in the inputs. A third run finds nothing
to do. Then rows are deleted behind the adapter's back, and the next run repairs them. In the end,
Polars and DuckDB read the flights as a plain Delta table. Four continual tasks watch what arrives
and what is corrected.

dbt works in a warm session (`mvsink session`), which stays for the commands that the demo ends
with.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import duckdb_delta  # noqa: E402
from arrivals import Arrivals, read  # noqa: E402

TASKS = ("corrections", "latest_reports", "planes_seen", "last_week")
MARTS = ("dim_planes", "fct_flights", "delays_by_carrier_and_hour")
SHARDS = HERE / ".mvsink" / "shards" / "flights"
TABLE = SHARDS / "fct_flights" / "table"  # see models/marts/fct_flights.sql
SAYS_EVERY = 3.0  # seconds
TRY_NEXT = """
Try next, in example_project (a warm session answers; it ends after an hour without a command):
   mvsink status
   mvsink history fct_flights
   mvsink plan
   mvsink explain fct_flights
   mvsink diff fct_flights -2 -1
   mvsink blame fct_flights --where "carrier = 'UA' and flight = 1545" --limit 3
   dbt run
   dbt test
   mvsink session stop"""


@dataclass(frozen=True)
class Ran:
    """What one run did to each mart and to each task's output: rows inserted and deleted; and how
    it computed each mart.
    """

    changes: dict[str, tuple[int, int]]
    tasks: dict[str, tuple[int, int]]
    modes: dict[str, str]
    seconds: float

    def __str__(self) -> str:
        how = ", ".join(f"{name} {mode}" for name, mode in self.modes.items())
        return f"{signed(self.changes)}   ({self.seconds:.0f} s)\n   {how}\n   tasks: {signed(self.tasks)}"


def signed(changes: dict[str, tuple[int, int]]) -> str:
    """Names and what was inserted and deleted."""
    return ", ".join(f"{name} +{plus:,} -{minus:,}" for name, (plus, minus) in changes.items())


def main() -> None:
    """Play it. Exits with an error where a number is not what the data say it must be."""
    os.chdir(HERE)
    mvsink("stop", "--all", "--force")  # an earlier demo's, which has the metastore
    shutil.rmtree(HERE / ".mvsink", ignore_errors=True)
    with progress("Spark starts"), ThreadPoolExecutor() as meanwhile:
        started = meanwhile.submit(mvsink, "start")
        arrivals = Arrivals.fresh(HERE / "data" / "arrivals")
        read("airlines.csv")
        write_seed()
        january = arrivals.january()
        import_module("dbt.cli.main")  # which takes seconds, too
        started.result()

    say("1. January arrives")
    first = run("build", "--exclude-resource-type", "test", "unit_test")  # `dbt test` runs these
    say(f"   {january['flights']:,} flights arrived; {first}")
    expect(
        first.changes["fct_flights"] == (january["flights"], 0), "the first load writes every flight, once"
    )
    expect(
        first.tasks["latest_reports"] == (january["flights"], 0),
        "the upsert has the newest report of every flight",
    )
    expect(first.tasks["corrections"] == (0, 0), "nothing is corrected yet")

    say("2. February arrives, with late and corrected records of January")
    february = arrivals.february()
    second = run("run")
    new, changed = february["flights"] + february["late"], february["corrected"]
    say(f"   {february['flights']:,} new, {february['late']:,} late, {changed:,} corrected; {second}")
    expect(second.changes["fct_flights"] == (new + changed, changed), "only the difference is written")
    expect(
        second.modes
        == {
            "dim_planes": "unchanged",
            "fct_flights": "incremental",
            "delays_by_carrier_and_hour": "incremental",
        },
        "what changed is computed from the changes of the inputs, without evaluating the queries",
    )
    expect(second.changes["dim_planes"] == (0, 0), "planes did not change, and nothing is written for them")
    expect(second.tasks["corrections"] == (changed, 0), "the audit log has one row for every correction")
    expect(
        second.tasks["latest_reports"] == (new + changed, changed),
        "the upsert read February's file only",
    )

    say("3. Nothing new")
    third = run("run")
    say(f"   {third}")
    done = (*third.changes.values(), *third.tasks.values())
    expect(all(change == (0, 0) for change in done), "nothing changed, nothing is written")

    say("4. United's flights are deleted from the stored table, behind the adapter's back")
    before = read_with_duckdb()
    delete_united()
    deleted = before - read_with_duckdb()
    say(f"   {deleted:,} flights are gone")
    fourth = run("run", incremental="auto")  # with `always` it would not be evaluated
    say(f"   {fourth}")
    expect(fourth.changes["fct_flights"] == (deleted, 0), "the next run restores exactly what was missing")
    expect(
        set(fourth.tasks.values()) == {(0, 0)},
        "nothing arrived and nothing was corrected: the tasks have nothing to do",
    )

    say("5. An independent reader agrees")
    total = january["flights"] + new
    total_read = read_with_duckdb()
    say(f"   DuckDB adds up the updates in the shard: {total_read:,} flights")
    expect(total_read == total, f"every flight that arrived is there once ({total:,})")

    say("6. Other engines read fct_flights as a Delta table, which is over the same files")
    say(f"   place = {TABLE}")
    rows = read_with_polars()
    expect(rows.num_rows == total, f"Polars reads every flight by `select *` ({total:,})")
    compare_with_duckdb(rows)
    files, size = files_of_the_table()
    say(f"   beside the shard's files the table has {files} of its own, {size / 1000:,.0f} kB in all")
    say("\nEvery number is what the data say it must be.")
    say(TRY_NEXT)


def run(command: str, *options: str, incremental: str = "always") -> Ran:
    """Run one dbt command over the project, with that option for its marts; what it did."""
    from dbt.cli.main import dbtRunner

    started = time.monotonic()
    variables = json.dumps({"incremental": incremental})
    options = (*options, "--profiles-dir", str(HERE), "--project-dir", str(HERE), "--vars", variables)
    with progress(f"dbt {command}") as done:
        result = dbtRunner(callbacks=[done.note]).invoke([command, "--quiet", *options])
    if not result.success:
        raise SystemExit(f"dbt {command} failed: {result.exception or 'see above'}")
    results = json.loads((HERE / "target" / "run_results.json").read_text())
    responses = {entry["unique_id"].split(".")[-1]: entry["adapter_response"] for entry in results["results"]}

    def changes(names: tuple[str, ...]) -> dict[str, tuple[int, int]]:
        return {name: (responses[name]["rows_inserted"], responses[name]["rows_deleted"]) for name in names}

    modes = {name: responses[name]["mode"] for name in MARTS}
    return Ran(changes(MARTS), changes(TASKS), modes, time.monotonic() - started)


def mvsink(*arguments: str) -> None:
    """`mvsink session` with these arguments; exits with its words if it fails."""
    code = "from dbt.adapters.mvsink.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "session", *arguments], capture_output=True, text=True, cwd=HERE
    )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)


class Progress:
    """What is under way, and dbt's newest result of it."""

    def __init__(self, what: str):
        self.what, self._began, self._newest = what, time.monotonic(), ""

    def note(self, event: Any) -> None:
        """Keep the name of a node that has ended, from an event of dbt."""
        if event.info.name == "NodeFinished":
            self._newest = f", {event.data.node_info.node_name} is done"

    def __str__(self) -> str:
        return f"   ... {self.what}: {time.monotonic() - self._began:.0f} s{self._newest}"


@contextmanager
def progress(what: str) -> Iterator[Progress]:
    """A context in which a line is printed every few seconds."""
    done, ended = Progress(what), threading.Event()

    def tell() -> None:
        while not ended.wait(SAYS_EVERY):
            say(str(done))

    teller = threading.Thread(target=tell)
    teller.start()
    try:
        yield done
    finally:
        ended.set()
        teller.join()


def delete_united() -> None:
    """A DELETE with another tool (the deltalake package), not through the adapter."""
    from deltalake import DeltaTable

    DeltaTable(str(SHARDS / "fct_flights")).delete("carrier = 'UA'")


def read_with_duckdb() -> int:
    """The contents of the shard, read without Spark and without this adapter."""
    import duckdb
    from deltalake import DeltaTable

    shard = DeltaTable(str(SHARDS / "fct_flights")).to_pyarrow_dataset()  # noqa: F841 - DuckDB reads it by name
    [row] = duckdb.sql("select sum(_mv_diff) from shard where _mv_error is null").fetchall()
    return int(row[0]) if row else 0


def read_with_polars() -> pa.Table:
    """The table's rows, read as any Delta table."""
    import polars as pl

    say(f'   Polars {pl.__version__}: pl.scan_delta(place).sql("select * from self")')
    return pl.scan_delta(str(TABLE)).sql("select * from self").collect().to_arrow()


def compare_with_duckdb(expected: pa.Table) -> None:
    """Read the table with DuckDB, too; if its extension is not available, say so."""
    try:
        version, rows = duckdb_delta.read(TABLE)
    except duckdb_delta.NoExtension as error:
        say(f"   DuckDB does not read it here: {error}")
        return
    say(f"   DuckDB {version}: select * from delta_scan(place)")
    order = [(name, "ascending") for name in rows.column_names]
    same = rows.sort_by(order).equals(expected.cast(rows.schema).sort_by(order))
    expect(same, f"DuckDB reads the same rows ({rows.num_rows:,})")


def files_of_the_table() -> tuple[int, int]:
    """How many files only the table has, and their bytes: the others are the shard's."""
    sizes = [file.stat().st_size for file in TABLE.rglob("*") if file.is_file() and is_of_the_table(file)]
    return len(sizes), sum(sizes)


def is_of_the_table(file: Path) -> bool:
    """Whether a file is of the log, or holds deletion vectors or copies of equal rows."""
    return file.relative_to(TABLE).parts[0].startswith(("_", "copies-"))


def write_seed() -> None:
    """The airlines, as a dbt seed."""
    import pyarrow.csv as pacsv

    pacsv.write_csv(read("airlines.csv"), HERE / "seeds" / "airlines.csv")


def expect(holds: bool, claim: str) -> None:
    """Print the claim if it holds, else fail."""
    if not holds:
        raise SystemExit(f"   FAILED: {claim}")
    say(f"   ok: {claim}")


def say(line: str) -> None:
    """Print at once."""
    print(line, flush=True)


if __name__ == "__main__":
    main()
