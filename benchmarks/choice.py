"""Measures whether `incremental: auto` chooses what costs less: `make bench` runs it.

Three runs of each model of `benchmarks.incremental` follow each change, in turn: with `always`,
with `never`, with `auto`; the one that is first pays for files that none has read, so each is
first in a third of the rounds. From 0.01 % to 30 % of lines and orders are replaced, scattered. A
choice is right if its way took no more than 1.1 times the other, by the medians of the rounds that
count. `to never` is the ratio of the time with `auto` to that of evaluating the query.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.bench import make_tpch, start
from benchmarks.incremental import MODELS, TABLES, Inputs, correction, fresh, remove
from dbt.adapters.mvsink.sink import Incremental, Outcome

SHARES = (0.0001, 0.001, 0.01, 0.1, 0.3)
TOLERATED = 1.1
Run = Callable[[], Outcome]
Measured = tuple[float, dict[Incremental, float], bool]


def main() -> None:
    """Print a line for each model and share, and how many choices were right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of TPC-H: 1 is 6 million rows")
    parser.add_argument("--shares", type=float, nargs="*", default=list(SHARES))
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    arguments = parser.parse_args()
    session = start()
    make_tpch(session, TABLES, arguments.scale)
    ratios: list[float] = []
    right = 0
    print(f"{'model':<24}{'changed':>9}{'always':>9}{'never':>9}{'auto':>9}{'to never':>9}  auto was")
    for name in arguments.models:
        inputs = fresh(session, ("lineitem", "orders"), recent=False, share=0.0)
        try:
            for share, seconds, incremental in shares(session, inputs, name, arguments):
                always, never, auto = (
                    seconds[way] for way in (Incremental.ALWAYS, Incremental.NEVER, Incremental.AUTO)
                )
                ratios.append(auto / never)
                right += always <= TOLERATED * never if incremental else never <= TOLERATED * always
                figures = f"{share:>9.2%}{always:>9.2f}{never:>9.2f}{auto:>9.2f}{auto / never:>9.2f}"
                print(f"{name:<24}{figures}  {'incremental' if incremental else 'full'}", flush=True)
        finally:
            remove(inputs)
    slower = sum(ratio > TOLERATED for ratio in ratios)
    summary = f"to never: median {statistics.median(ratios):.2f}, worst {max(ratios):.2f}, {slower} over {TOLERATED}"
    print(f"right: {right} of {len(ratios)}; {summary}")


def shares(session: Any, inputs: Inputs, name: str, arguments: argparse.Namespace) -> Iterator[Measured]:
    """Each share, with what `measured` gives for it; fewer rounds where no more rows are left."""
    ways = {
        way: correction(session, inputs, MODELS[name], inputs.root / way.value, way) for way in Incremental
    }
    for run in ways.values():
        run()
    for share in arguments.shares:
        inputs.share = share
        rounds = arguments.rounds if inputs.lasts(arguments.rounds + 1) else 1
        yield (share, *measured(inputs, ways, rounds))


def measured(
    inputs: Inputs, ways: dict[Incremental, Run], rounds: int
) -> tuple[dict[Incremental, float], bool]:
    """Median seconds of each way, and whether `auto` was incremental, after a round for warmth."""
    seconds: dict[Incremental, list[float]] = {way: [] for way in ways}
    outcome: Any = None
    for number in range(rounds + 1):
        inputs.change()
        for way, run in rotated(list(ways.items()), number):
            started = time.monotonic()
            done = run()
            if number > 0:
                seconds[way].append(time.monotonic() - started)
            if way is Incremental.AUTO:
                outcome = done
    return {way: statistics.median(each) for way, each in seconds.items()}, outcome.incremental


def rotated(ways: list[tuple[Incremental, Run]], number: int) -> list[tuple[Incremental, Run]]:
    """The ways, beginning with another one in each round."""
    first = number % len(ways)
    return ways[first:] + ways[:first]


if __name__ == "__main__":
    main()
