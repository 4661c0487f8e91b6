"""Measures what a week of history costs readers: `make bench` runs it.

Two shards of the model of `benchmarks.wide_join` get the same changes, a day apart: of 1 % of the
rows, spread over the whole table, for eight days. One keeps a day of history, the other a week.
Then a query of five columns reads each through its view, in turn, and each beside a plain table
with the same rows. A figure is the median of ``--rounds`` after two that do not count.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.bench import in_turn, make_tpch, start
from benchmarks.wide_join import TABLES, Rounds, query
from tests.support.session_engine import T0, Model

DAY = 86_400_000  # ms
DAYS = 8
READ = (
    "select sum(l_quantity), sum(l_extendedprice), count(distinct o_custkey), max(l_shipmode), min(o_orderdate) "
    "from ({})"
)


def main() -> None:
    """Change both shards day by day, and print the table of reads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--scale", type=float, default=1.0, help="of TPC-H: 1 is 6 million rows")
    parser.add_argument("--share", type=float, default=0.01)
    arguments = parser.parse_args()
    session = start()
    make_tpch(session, TABLES, arguments.scale)
    place = Path(tempfile.mkdtemp(prefix="mvsink-bench-"))
    try:
        day, week = (kept(session, place, days, arguments.share) for days in (1, 7))
        session.sql("drop table if exists plain")
        session.sql(f"create table plain using parquet as select * from ({day.view()})")
        views = {"a day": day.view(), "a week": week.view()}
        print(f"{'history of':<12}{'a read':>9}{'other':>9}{'ratio':>8}")
        for name, other in (("a week", "a day"), ("a day", "plain"), ("a week", "plain")):
            reads = [reading(session, views.get(each, "select * from plain")) for each in (name, other)]
            seconds, reference = in_turn(arguments.rounds, reads[0], reads[1])
            print(
                f"{name:<12}{seconds:>9.2f}{reference:>9.2f}{seconds / reference:>8.2f}  ({other})",
                flush=True,
            )
    finally:
        shutil.rmtree(place, ignore_errors=True)


def kept(session: Any, place: Path, days: int, share: float) -> Model:
    """A shard that keeps so many days of history, after `DAYS` days."""
    options = {"retain_history": days * DAY}
    model = Model(session, place / f"{days}", clock=itertools.count(T0, DAY), options=options)
    rounds = Rounds()
    model.run(query(0))
    for _ in range(DAYS):
        model.run(rounds.next(share))
        print(f"[{days} days kept]", end="", flush=True)
    print()
    return model


def reading(session: Any, view: str) -> Any:
    """What reads ``view``, a query."""
    return lambda: session.sql(READ.format(view)).collect()


if __name__ == "__main__":
    main()
