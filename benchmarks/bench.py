"""How much a maintained table costs, against rebuilding it: `make bench`.

Two workloads: 10 million generated rows by 8 columns, and a join over TPC-H at scale 1 (6 million rows). For each, in one process and
one Spark session: rebuild as a plain table, first load, a run in which nothing changed, a run in which 0.1 % changed, and a
read through the view against the plain table, when it is compacted and with one recent batch and several. Every step runs once
unmeasured, so that neither side pays for starting up; a figure is the median of `--rounds` after that; the ratio is to the
rebuild (or to the plain read).
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.session_engine import Model

HERE = Path(__file__).resolve().parent
TPCH = HERE / "data" / "tpch"
WANTED = {"first load": 1.5, "0.1 % changed": 1.5, "nothing changed": 0.75, "read": 1.3, "read, 1 recent batch": 1.3}


@dataclass(frozen=True)
class Workload:
    """``query`` takes a round; in each one more thousandth of the rows changes."""

    name: str
    query: Callable[[int], str]
    read: str


GENERATED = Workload(
    "10 M rows x 8 columns",
    lambda n: (
        f"select id, pmod(xxhash64(id), 1000000) as customer, concat('item ', pmod(xxhash64(id, 1), 50000)) as item, "
        f"cast(pmod(xxhash64(id, 2), 97) as int) as quantity, cast(pmod(xxhash64(id, 3), 10000000) / 100 as decimal(12, 2)) as price, "
        f"timestamp_millis(1600000000000 + pmod(xxhash64(id, 4), 100000000000)) as ordered, id % 3 = 0 as paid, "
        f"concat(hex(xxhash64(id, 5)), if(id % 1000 < {n}, ' changed', ' as ordered')) as note from range({{rows}})"
    ),
    "select sum(quantity), count(distinct customer), max(note), min(ordered) from {}",
)
JOIN = Workload(
    "TPC-H join, 6 M rows",
    lambda n: (
        "select l_orderkey, l_linenumber, o_custkey, o_orderdate, l_partkey, l_quantity, "
        f"if(l_orderkey % 1000 < {n}, l_extendedprice + 1, l_extendedprice) as l_extendedprice, l_discount, l_shipmode, o_orderpriority "
        "from lineitem join orders on l_orderkey = o_orderkey"
    ),
    "select sum(l_quantity), count(distinct o_custkey), max(l_shipmode), min(o_orderdate) from {}",
)


def main() -> None:
    """Run both workloads and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the generated workload")
    parser.add_argument("--only", choices=["generated", "join"])
    given = parser.parse_args()
    session = start()
    workloads = []
    if given.only != "join":
        workloads.append(Workload(GENERATED.name, lambda n: GENERATED.query(n).format(rows=given.rows), GENERATED.read))
    if given.only != "generated":
        make_tpch(session)
        workloads.append(JOIN)
    for workload in workloads:
        print(f"\n{workload.name}", flush=True)
        place = Path(tempfile.mkdtemp(prefix="mvsink-bench-"))
        try:
            report(measure(session, workload, place, given.rounds))
        finally:
            shutil.rmtree(place, ignore_errors=True)


def measure(session: Any, workload: Workload, place: Path, rounds: int) -> dict[str, tuple[float, float]]:
    """Seconds of each step, with those of what it is compared with."""
    changes = itertools.count(1)
    table = workload.read.format("rebuilt")
    rebuild = median(rounds, lambda: rebuild_table(session, workload))
    loads = itertools.count()
    first = median(rounds, lambda: load(session, workload, place / f"load{next(loads)}"))
    model = Model(session, place / "load0")
    nothing = median(rounds, lambda: model.run(workload.query(0)))
    plain = median(rounds, lambda: session.sql(table).collect())
    read = median(rounds, lambda: read_view(session, model, workload))
    model.run(workload.query(next(changes)))
    one = median(rounds, lambda: read_view(session, model, workload))
    changed = median(rounds, lambda: model.run(workload.query(next(changes))))
    several = median(rounds, lambda: read_view(session, model, workload))
    return {
        "rebuild": (rebuild, rebuild),
        "first load": (first, rebuild),
        "nothing changed": (nothing, rebuild),
        "0.1 % changed": (changed, rebuild),
        "read": (read, plain),
        "read, 1 recent batch": (one, plain),
        f"read, {next(changes) - 1} recent": (several, plain),
    }


def load(session: Any, workload: Workload, root: Path) -> None:
    """A first load; of all of them only `load0` is kept."""
    Model(session, root).run(workload.query(0))
    if root.name != "load0":
        shutil.rmtree(root)


def rebuild_table(session: Any, workload: Workload) -> None:
    """What dbt's `table` materialization does on Spark."""
    session.sql("drop table if exists rebuilt")
    session.sql(f"create table rebuilt using parquet as {workload.query(0)}")


def read_view(session: Any, model: Model, workload: Workload) -> None:
    """The workload's read, through the published view's query."""
    model.contents().createOrReplaceTempView("published")
    session.sql(workload.read.format("published")).collect()


def median(rounds: int, step: Callable[[], object]) -> float:
    """Median wall-clock seconds of ``rounds``, after one that does not count."""
    step()
    seconds = []
    for _ in range(rounds):
        started = time.monotonic()
        step()
        seconds.append(time.monotonic() - started)
        print(".", end="", flush=True)
    return statistics.median(seconds)


def report(measured: dict[str, tuple[float, float]]) -> None:
    """The table."""
    print(f"\n{'step':<22}{'seconds':>9}{'ratio':>8}{'wanted':>8}")
    for step, (seconds, reference) in measured.items():
        wanted = f"<= {WANTED[step]}" if step in WANTED else ""
        print(f"{step:<22}{seconds:>9.2f}{seconds / reference:>8.2f}{wanted:>8}", flush=True)


def make_tpch(session: Any) -> None:
    """TPC-H at scale 1 as Parquet, generated once, and its tables in the catalog, where a model's sources are."""
    names = ("lineitem", "orders")
    if not all((TPCH / f"{name}.parquet").exists() for name in names):
        TPCH.mkdir(parents=True, exist_ok=True)
        command = [str(Path(sys.executable).parent / "tpchgen-cli"), "parquet", "-s", "1", f"--tables={','.join(names)}"]
        subprocess.run([*command, f"--output-dir={TPCH}"], check=True)
    for name in names:
        session.sql(f"create table {name} using parquet location '{TPCH}/{name}.parquet'")


def start() -> Any:
    """A session as the embedded default makes it."""
    import os

    from dbt.adapters.mvsink.credentials import MvsinkCredentials
    from dbt.adapters.mvsink.session.embedded import session

    os.chdir(tempfile.mkdtemp(prefix="mvsink-bench-home-"))
    return session(MvsinkCredentials(schema="default"))


if __name__ == "__main__":
    main()
