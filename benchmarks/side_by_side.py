"""Measures an incremental run beside the other ways to bring a table up to date, after the same
changes of its inputs (`benchmarks.incremental`):

- *rebuild*: dbt's `table`, as a Parquet table from plain tables
- *Delta MERGE*: the whole query merged into a Delta table; what changed is updated, what the query
  no longer has is deleted
- *incremental*: what dbt's `incremental` model does with `merge` and the exact condition for the
  keys that changed, which a user has to know; deleted rows stay

They run in turn. The incremental run reads shards, the merges plain tables with the same contents,
the rebuild the tables as they were first. The figures are medians, the ratios those to the rebuild;
`benchmarks.figures` draws them by share or by scale:

python -m benchmarks.side_by_side --shares 0.0001 0.001 0.01 0.1 --json shares.jsonl
python -m benchmarks.side_by_side --scale 0.5 --json scales.jsonl
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.bench import make_tpch, merge, start
from benchmarks.figures import DELTA_MERGE, KNOWN_CHANGES, VIEW, Figure
from benchmarks.incremental import MODELS, SHARDS, TABLES, Inputs, correction, fresh, rebuild, remove

REBUILD = "rebuild"
KEYS = {  # of models that have the key of the lines and orders that change
    "wide join": ("l_orderkey", "l_linenumber"),
    "newest line": ("l_orderkey",),
    "TPC-H 18, inner": ("l_orderkey",),
}


def main() -> None:
    """Measure the chosen models and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=2, help="rounds that do not count")
    parser.add_argument("--others", type=int, default=1, help="last rounds in which the others run, too")
    parser.add_argument("--scale", type=float, default=1.0, help="of TPC-H: 1 is 6 million rows")
    parser.add_argument("--shares", type=float, nargs="*", default=[0.001])
    parser.add_argument("--models", nargs="*", default=["wide join"], choices=list(KEYS))
    parser.add_argument("--where", default="scattered", choices=["recent", "scattered"])
    parser.add_argument("--json", type=Path, help="append the figures to this file, a line each")
    arguments = parser.parse_args()
    session = start(formats=("delta",))
    make_tpch(session, TABLES, arguments.scale)
    for share in arguments.shares:
        inputs = fresh(session, ("lineitem", "orders"), arguments.where == "recent", share)
        try:
            for name in arguments.models:
                report(measured(session, inputs, name, arguments), name, share, arguments)
        finally:
            remove(inputs)


def measured(
    session: Any, inputs: Inputs, name: str, chosen: argparse.Namespace
) -> Mapping[str, list[float]]:
    """Seconds of each way, by round."""
    run = correction(session, inputs, MODELS[name], inputs.root / name.replace(" ", "_"))
    run()
    ways: dict[str, Callable[[], object]] = {VIEW: run, REBUILD: lambda: rebuild(session, MODELS[name])}
    others: dict[str, Callable[[], object]] = {}
    if chosen.others:
        others[DELTA_MERGE] = Merge(session, inputs, name)
        others[KNOWN_CHANGES] = Merge(session, inputs, name, known=True)
    seconds: dict[str, list[float]] = {way: [] for way in [*ways, *others]}
    rounds = chosen.rounds + chosen.warm
    for number in range(rounds):
        inputs.change()
        compared = others if number >= rounds - chosen.others else {}
        for way, act in {**ways, **compared}.items():
            started = time.monotonic()
            act()
            if number >= chosen.warm:
                seconds[way].append(time.monotonic() - started)
        print(".", end="", flush=True)
    return seconds


class Merge:
    """Merges into one Delta table; ``known``: of the keys that changed since the last one."""

    def __init__(self, session: Any, inputs: Inputs, name: str, *, known: bool = False) -> None:
        self.session, self.inputs, self.name, self.known = session, inputs, name, known
        self.table = "merged_known" if known else "merged"
        self.reached = inputs.reached
        session.sql(f"create or replace table {self.table} using delta as {self._query()}")

    def _query(self) -> str:
        current = {each: f"({self.inputs.current(each)}) {each}" for each in SHARDS}
        return MODELS[self.name].format(**current)

    def __call__(self) -> None:
        source = self._query()
        if self.known:
            source = f"select * from ({source}) where {self.inputs.changed_since('lineitem', self.reached)}"
        self.reached = self.inputs.reached
        merge(self.session, self.table, source, KEYS[self.name], known=self.known)


def report(seconds: Mapping[str, list[float]], name: str, share: float, chosen: argparse.Namespace) -> None:
    """A line for each way."""
    reference = statistics.median(seconds[REBUILD])
    for way, took in seconds.items():
        if way == REBUILD or not took:
            continue
        median = statistics.median(took)
        figure = Figure(name, way, share, chosen.scale, median, reference, len(took))
        label = f"{name}, {share:.4%} {chosen.where}, {way}"
        print(f"\n{label:<70}{median:>9.2f}{reference:>9.2f}{figure.ratio:>8.2f}", flush=True)
        if chosen.json:
            figure.append_to(chosen.json)


if __name__ == "__main__":
    main()
