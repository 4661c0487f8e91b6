"""Measures corrections of a wide join: `make bench` runs it.

The model joins six tables of TPC-H (20 columns; 6 million rows at scale 1). In each round other
rows change, spread by a hash over the whole table: of those that a round changes, one in ten is
deleted or comes back. Every step alternates with a rebuild as a Parquet table, and two rounds of
each do not count; a figure is the median of `--rounds`, a ratio that to the rebuild.

The others, given the same changes:

- *Delta MERGE*: the whole query merged into a Delta table; what changed is updated, what the query
  no longer has is deleted.
- *incremental*: what dbt's `incremental` model does with `merge` and the exact condition for the
  rows that changed, which a user has to know. Deleted rows stay.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bench import in_turn, make_tpch, merge, start
from benchmarks.figures import DELTA_MERGE, KNOWN_CHANGES, VIEW, Figure
from tests.support.session_engine import T0, Model

TABLES = ("lineitem", "orders", "customer", "part", "supplier", "nation")
PARTS = 1_000_000  # of all rows, by a hash; a round changes the next so many
HOUR = 3_600_000
SHARES = {"nothing": 0.0, "0.1 %": 0.001, "1 %": 0.01, "10 %": 0.1, "100 %": 1.0}
KEY = ("l_orderkey", "l_linenumber")
# Measured: how often a row's part has been reached by the rounds so far.
REACHED = "greatest(0L, ({end}L - pmod(xxhash64(l_orderkey, l_linenumber), 1000000L) + 999999L) div 1000000L)"


def query(end: int, begin: int | None = None) -> str:
    """The model after the parts up to ``end`` have changed, in turn; with ``begin`` only the rows
    of those parts.
    """
    reached = REACHED.format(end=end)
    changed = "" if begin is None else f" and {reached} <> {REACHED.format(end=begin)}"
    return (
        f"select l_orderkey, l_linenumber, o_custkey, c_name, c_mktsegment, n_name, o_orderdate, o_orderpriority, "
        "l_partkey, p_name, p_brand, l_suppkey, s_name, l_quantity, "
        f"cast(l_extendedprice + {reached} as decimal(15, 2)) l_extendedprice, l_discount, "
        "cast(l_extendedprice * (1 - l_discount) as decimal(18, 4)) net, l_shipdate, l_shipmode, l_comment "
        "from lineitem join orders on l_orderkey = o_orderkey join customer on o_custkey = c_custkey "
        "join nation on c_nationkey = n_nationkey join part on l_partkey = p_partkey join supplier on l_suppkey = s_suppkey "
        f"where not (pmod(xxhash64(l_linenumber, l_orderkey), 10) = 0 and {reached} % 2 = 1){changed}"
    )


class Rounds:
    """The parts that have changed so far."""

    def __init__(self) -> None:
        self.begin = self.end = 0

    def next(self, share: float) -> str:
        """The model's query after the next ``share`` of all rows has changed."""
        self.begin, self.end = self.end, self.end + int(PARTS * share)
        return query(self.end)


@dataclass(frozen=True)
class Step:
    """What is measured: ``run``, after ``share`` of the rows changed; None for a first load."""

    name: str
    way: str
    share: float | None
    run: Callable[[], object]


def main() -> None:
    """Measure the chosen steps and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm", type=int, default=2, help="rounds that do not count")
    parser.add_argument("--scale", type=float, default=1.0, help="of TPC-H: 1 is 6 million rows")
    parser.add_argument("--shares", nargs="*", default=list(SHARES), choices=list(SHARES))
    parser.add_argument("--against", nargs="*", default=[], choices=["merge", "incremental"])
    parser.add_argument("--against-rounds", type=int, help="rounds of the others, without warm ones")
    parser.add_argument("--first-load", action="store_true")
    parser.add_argument("--verify", action="store_true", help="also a verification that finds nothing")
    parser.add_argument("--json", type=Path, help="append the figures to this file, a line each")
    arguments = parser.parse_args()
    session = start(formats=("delta",) if arguments.against else ())
    make_tpch(session, TABLES, arguments.scale)
    place = Path(tempfile.mkdtemp(prefix="mvsink-bench-"))
    try:
        for step in steps(session, place, arguments):
            rounds, warm = arguments.rounds, arguments.warm
            if not step.way.startswith(VIEW) and arguments.against_rounds:
                rounds, warm = arguments.against_rounds, 0
            seconds, reference = in_turn(rounds, step.run, lambda: rebuild(session), warm)
            figure = Figure("wide join", step.way, step.share, arguments.scale, seconds, reference, rounds)
            print(f"\n{step.name:<24}{seconds:>9.2f}{reference:>9.2f}{figure.ratio:>8.2f}", flush=True)
            if arguments.json:
                figure.append_to(arguments.json)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def steps(session: Any, place: Path, chosen: argparse.Namespace) -> Iterator[Step]:
    """Each step; shards and tables are made when they are first needed."""
    if chosen.first_load:
        yield Step("first load", VIEW, None, lambda: load(session, place / "first"))
    if chosen.verify:
        run = corrections(session, place / "verified", 0.0, verify=True)
        yield Step("nothing, verified", f"{VIEW}, verified", 0.0, run)
    for name in chosen.shares:
        share = SHARES[name]
        yield Step(name, VIEW, share, corrections(session, place / f"{share}", share))
        if "merge" in chosen.against:
            yield Step(f"{name}, Delta MERGE", DELTA_MERGE, share, merges(session, share))
        if "incremental" in chosen.against and share:
            yield Step(f"{name}, incremental", KNOWN_CHANGES, share, merges(session, share, known=True))


def rebuild(session: Any) -> None:
    """What dbt's `table` materialization does on Spark."""
    session.sql("drop table if exists rebuilt")
    session.sql(f"create table rebuilt using parquet as {query(0)}")


def load(session: Any, root: Path) -> None:
    Model(session, root).run(query(0))
    shutil.rmtree(root)


def corrections(session: Any, root: Path, share: float, *, verify: bool = False) -> Callable[[], None]:
    """Runs of one model, an hour apart, each after a change."""
    model = Model(session, root, clock=itertools.count(T0, HOUR))
    rounds = Rounds()

    def step() -> None:
        if not root.exists():
            model.run(query(0))
        outcome = model.run(rounds.next(share), verify=verify)
        print(f"[{ {step: round(took, 1) for step, took in outcome.seconds.items()} }]", end="", flush=True)

    return step


def merges(session: Any, share: float, known: bool = False) -> Callable[[], None]:
    """Merges into one Delta table; ``known``: of the rows that changed."""
    rounds, table = Rounds(), f"merged_{'known' if known else 'all'}"
    session.sql(f"create or replace table {table} using delta as {query(0)}")

    def step() -> None:
        whole = rounds.next(share)
        source = query(rounds.end, rounds.begin) if known else whole
        merge(session, table, source, KEY, known=known)

    return step


if __name__ == "__main__":
    main()
