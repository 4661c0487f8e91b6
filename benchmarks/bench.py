"""Measures what a maintained table costs compared with rebuilding it: `make bench`.

Two workloads: 10 million generated rows by 8 columns, and a join over TPC-H at scale 1 (6 million
rows). For each, in one process and one Spark session: rebuild as a plain table, first load, a run
in which nothing changed, a run in which 0.1 % changed, and a read through the view against the
plain table, when it is compacted, with one recent batch and with several. A step and its reference
(the rebuild or the plain read) alternate, so that a drift in the machine's speed affects both.
Each runs twice without being measured, so that neither pays for starting up. A figure is the median
of `--rounds`.
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.session_engine import Model

HERE = Path(__file__).resolve().parent
TPCH = HERE / "data" / "tpch"
WANTED = {
    "first load": 1.5,
    "0.1 % changed": 1.5,
    "nothing changed": 0.75,
    "read": 1.3,
    "read, 1 recent batch": 1.3,
}


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
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the generated workload")
    parser.add_argument("--only", choices=["generated", "join"])
    arguments = parser.parse_args()
    session = start()
    workloads = []
    if arguments.only != "join":
        workloads.append(
            Workload(GENERATED.name, lambda n: GENERATED.query(n).format(rows=arguments.rows), GENERATED.read)
        )
    if arguments.only != "generated":
        make_tpch(session)
        workloads.append(JOIN)
    for workload in workloads:
        print(f"\n{workload.name}", flush=True)
        place = Path(tempfile.mkdtemp(prefix="mvsink-bench-"))
        try:
            report(measure(session, workload, place, arguments.rounds))
        finally:
            shutil.rmtree(place, ignore_errors=True)


def measure(session: Any, workload: Workload, place: Path, rounds: int) -> dict[str, tuple[float, float]]:
    """Seconds of each step, with those of what it is compared with: rebuild or plain read."""
    rounds_of_changes, loads = itertools.count(1), itertools.count()
    model = Model(session, place / "load0")

    def rebuild() -> None:
        rebuild_table(session, workload)

    def change() -> None:
        model.run(workload.query(next(rounds_of_changes)))

    def reads() -> tuple[float, float]:
        session.sql(f"create or replace view published as {model.view()}")
        through_view, plain = (workload.read.format(name) for name in ("published", "rebuilt"))
        return in_turn(
            rounds, lambda: session.sql(through_view).collect(), lambda: session.sql(plain).collect()
        )

    measured = {
        "first load": in_turn(rounds, lambda: load(session, workload, place / f"load{next(loads)}"), rebuild),
        "nothing changed": in_turn(rounds, lambda: model.run(workload.query(0)), rebuild),
        "read": reads(),
    }
    change()
    measured["read, 1 recent batch"] = reads()
    measured["0.1 % changed"] = in_turn(rounds, change, rebuild)
    measured[f"read, {next(rounds_of_changes) - 1} recent batches"] = reads()
    return measured


def load(session: Any, workload: Workload, root: Path) -> None:
    """A first load; of all of them only `load0` is kept."""
    Model(session, root).run(workload.query(0))
    if root.name != "load0":
        shutil.rmtree(root)


def rebuild_table(session: Any, workload: Workload) -> None:
    """What dbt's `table` materialization does on Spark."""
    session.sql("drop table if exists rebuilt")
    session.sql(f"create table rebuilt using parquet as {workload.query(0)}")


def in_turn(
    rounds: int,
    step: Callable[[], object],
    reference: Callable[[], object],
    warm: int = 2,
    before: Callable[[], object] = lambda: None,
) -> tuple[float, float]:
    """Median wall-clock seconds of both, in ``rounds`` after ``warm`` that do not count. ``before``
    prepares a round and is not measured.
    """
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + warm):
        before()
        for run, times in zip((step, reference), seconds, strict=True):
            started = time.monotonic()
            run()
            if number >= warm:
                times.append(time.monotonic() - started)
        print(".", end="", flush=True)
    return statistics.median(seconds[0]), statistics.median(seconds[1])


def report(measured: dict[str, tuple[float, float]]) -> None:
    """The table."""
    print(f"\n{'step':<24}{'seconds':>9}{'against':>9}{'ratio':>8}{'wanted':>8}")
    for step, (seconds, reference) in measured.items():
        wanted = f"<= {WANTED[step]}" if step in WANTED else ""
        print(f"{step:<24}{seconds:>9.2f}{reference:>9.2f}{seconds / reference:>8.2f}{wanted:>8}", flush=True)


def make_tpch(session: Any, names: Sequence[str] = ("lineitem", "orders"), scale: float = 1.0) -> None:
    """TPC-H as Parquet, generated once per ``scale``, and its tables in the catalog, where a
    model's sources are.
    """
    place = TPCH if scale == 1 else TPCH.with_name(f"tpch-{scale:g}")
    missing = [name for name in names if not (place / name).is_dir()]
    if missing:
        place.mkdir(parents=True, exist_ok=True)
        command = [str(Path(sys.executable).parent / "tpchgen-cli"), "parquet", "-s", f"{scale:g}"]
        subprocess.run([*command, f"--tables={','.join(missing)}", f"--output-dir={place}"], check=True)
    for name in missing:  # a table of the catalog is a directory
        (place / name).mkdir()
        (place / f"{name}.parquet").rename(place / name / "part-0.parquet")
    for name in names:
        session.sql(f"create table {name} using parquet location '{place}/{name}'")


def merge(session: Any, table: str, source: str, keys: Sequence[str], *, known: bool) -> None:
    """Merge the query ``source`` into a Delta table: either all rows, so that the table is the same
    afterwards, or those ``known`` to have changed, as dbt's `incremental` does.
    """
    on = " and ".join(f"t.{key} = s.{key}" for key in keys)
    differs = " or ".join(f"not (t.{name} <=> s.{name})" for name in session.table(table).columns)
    session.sql(
        f"merge into {table} t using ({source}) s on {on} when matched{'' if known else f' and ({differs})'} "
        "then update set * when not matched then insert *"
        f"{'' if known else ' when not matched by source then delete'}"
    )


def start(formats: Sequence[str] = ()) -> Any:
    """A session as the embedded default makes it."""
    import os

    from dbt.adapters.mvsink.connection.factory import EMBEDDED
    from dbt.adapters.mvsink.credentials import MvsinkCredentials

    os.chdir(tempfile.mkdtemp(prefix="mvsink-bench-home-"))
    return EMBEDDED.session(MvsinkCredentials(schema="default", formats=list(formats) or None))


if __name__ == "__main__":
    main()
