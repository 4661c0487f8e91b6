"""Measures whether `incremental: auto` chooses what costs less: `make bench` runs it.

Three runs of each model of `benchmarks.incremental` follow each change, in turn: with `always`,
with `never`, with `auto`; the one that is first pays for files that none has read, so each is
first in a third of the rounds. From 0.01 % to 30 % of lines and orders are replaced, scattered,
each change a day after the one before it. A choice is right if its way took no more than 1.1 times
the other or 0.15 s longer, by the medians of the rounds that count; a way's are all runs that took
it, those of `auto` among them. `to never` is the ratio of the time with `auto` to that of
evaluating the query.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.bench import make_tpch, start
from benchmarks.incremental import DAY, MODELS, TABLES, Inputs, correction, fresh, remove
from dbt.adapters.mvsink.sink import Incremental, Outcome

SHARES = (0.0001, 0.001, 0.01, 0.1, 0.3)
TOLERATED = 1.1
ALIKE = 0.15  # seconds by which two ways may differ and count as equal
Run = Callable[[], Outcome]


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
    inputs = fresh(session, ("lineitem", "orders"), recent=False, share=0.0)
    inputs.every = DAY
    try:
        models = {name: Measured.loaded(session, inputs, name) for name in arguments.models}
        for share in arguments.shares:
            inputs.share = share
            measure(inputs, models, arguments.rounds)
    finally:
        remove(inputs)
    ratios = [ratio for model in models.values() for ratio in model.ratios]
    right = sum(model.right for model in models.values())
    slower = sum(ratio > TOLERATED for ratio in ratios)
    summary = f"to never: median {statistics.median(ratios):.2f}, worst {max(ratios):.2f}, {slower} over {TOLERATED}"
    print(f"right: {right} of {len(ratios)}; {summary}")


@dataclass
class Measured:
    """A model in each way. ``seconds``, and the ``outcomes`` of `auto`: of the rounds that count.
    ``ratios``, `auto` to `never`, and how many choices were ``right``: of all shares.
    """

    name: str
    ways: dict[Incremental, Run]
    seconds: dict[Incremental, list[float]] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    right: int = 0

    @classmethod
    def loaded(cls, session: Any, inputs: Inputs, name: str) -> Measured:
        """After the first load of each."""
        places = {way: inputs.root / name.replace(" ", "_") / way.value for way in Incremental}
        ways = {way: correction(session, inputs, MODELS[name], place, way) for way, place in places.items()}
        for run in ways.values():
            run()
        return cls(name, ways)

    def run(self, number: int) -> None:
        """Each way, another first in each round; the first round does not count."""
        if number == 0:
            self.seconds, self.outcomes = {way: [] for way in self.ways}, []
        for way, run in rotated(list(self.ways.items()), number):
            started = time.monotonic()
            outcome = run()
            if number > 0:
                self.seconds[way].append(time.monotonic() - started)
                self.outcomes += [outcome] if way is Incremental.AUTO else []

    def report(self, share: float) -> None:
        """Print the medians, and how `auto` ran in each round; its last choice is judged."""
        medians = {way: statistics.median(each) for way, each in self.seconds.items()}
        always, never, auto = (
            medians[way] for way in (Incremental.ALWAYS, Incremental.NEVER, Incremental.AUTO)
        )
        incremental = self.outcomes[-1].written.incremental
        self.ratios.append(auto / never)
        changes, query = self._way(Incremental.ALWAYS), self._way(Incremental.NEVER)
        right = is_right(changes, query) if incremental else is_right(query, changes)
        self.right += right
        figures = f"{share:>9.2%}{always:>9.2f}{never:>9.2f}{auto:>9.2f}{auto / never:>9.2f}"
        ran = ", ".join(
            "incremental" if each.written.incremental else f"full ({each.written.full.text})"
            for each in self.outcomes
        )
        print(f"{self.name:<24}{figures}  {'right' if right else 'wrong'}: {ran}", flush=True)

    def _way(self, policy: Incremental) -> float:
        """The median of all runs that went as with this ``policy``."""
        incremental = policy is Incremental.ALWAYS
        auto = zip(self.seconds[Incremental.AUTO], self.outcomes, strict=True)
        alike = [took for took, each in auto if each.written.incremental is incremental]
        return statistics.median([*self.seconds[policy], *alike])


def is_right(taken: float, other: float) -> bool:
    """Whether a way that took ``taken`` seconds was the better one, or as good as the ``other``."""
    return taken <= max(TOLERATED * other, other + ALIKE)


def measure(inputs: Inputs, models: Mapping[str, Measured], rounds: int) -> None:
    """Change the inputs, then run all models; and again."""
    for number in range(rounds + 1):
        inputs.change()
        for model in models.values():
            model.run(number)
    print(f"{'model':<24}{'changed':>9}{'always':>9}{'never':>9}{'auto':>9}{'to never':>9}  auto was")
    for model in models.values():
        model.report(inputs.share)


def rotated(ways: list[tuple[Incremental, Run]], number: int) -> list[tuple[Incremental, Run]]:
    """The ways, beginning with another one in each round."""
    first = number % len(ways)
    return ways[first:] + ways[:first]


if __name__ == "__main__":
    main()
