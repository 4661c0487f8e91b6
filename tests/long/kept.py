"""What a long test has found so far, in a file: it can be stopped at any time, and goes on.

`python -m tests.long.<thing> --seed N --count M` appends one line of JSON for each case that ends.
Called again with the same seed it leaves out cases that have a line.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOME = Path(__file__).parents[2] / ".long"


@dataclass
class Kept:
    """The lines of one seed. ``count``: how many cases there shall be in the end."""

    thing: str
    seed: int
    count: int
    path: Path
    cases: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            # a line that was being written when the process was killed is not whole
            for line in self.path.read_text().splitlines():
                try:
                    kept = json.loads(line)
                except ValueError:
                    continue
                self.cases[kept["case"]] = kept

    def __contains__(self, case: str) -> bool:
        return case in self.cases

    def add(self, case: str, outcomes: list[str], **details: Any) -> None:
        """``outcomes``: one for each round, `what` or `what: reason`."""
        kept = {"case": case, "outcomes": outcomes, **details}
        self.cases[case] = kept
        with open(self.path, "a") as file:
            file.write("\n" * (file.tell() > 0 and not _ends_line(self.path)) + json.dumps(kept) + "\n")

    def run(
        self, outcomes: Callable[[int], list[str]], defects: tuple[str, ...], name: str = "history"
    ) -> None:
        """Run `count` cases of this ``name``, but for those that are kept. ``outcomes`` runs that
        of a seed.
        """
        for number in range(self.count):
            case = f"{name} {number}"
            if case not in self:
                self.add(case, outcomes(1_000_000 * self.seed + number))
                if number % 10 == 9:
                    print(f"{case} of {self.count}, {len(self.defects(defects))} wrong", flush=True)

    def conclude(self, defects: tuple[str, ...]) -> int:
        """Print the summary; returns the process's exit code."""
        print(self.summary(defects))
        return 1 if self.defects(defects) else 0

    @property
    def counts(self) -> Counter[str]:
        return Counter(each for kept in self.cases.values() for each in kept["outcomes"])

    def defects(self, kinds: tuple[str, ...]) -> dict[str, dict[str, Any]]:
        """The cases with an outcome of these kinds."""
        return {
            case: kept
            for case, kept in self.cases.items()
            if any(outcome.startswith(kinds) for outcome in kept["outcomes"])
        }

    def summary(self, defects: tuple[str, ...]) -> str:
        """Counts by outcome, the most frequent first, and the cases that are defects."""
        lines = [
            f"{self.thing}, seed {self.seed}: {len(self.cases)} cases, {sum(self.counts.values())} outcomes"
        ]
        lines += [f"{times:7} {outcome}" for outcome, times in self.counts.most_common()]
        for case, kept in self.defects(defects).items():
            lines.append(f"DEFECT {case}: {json.dumps(kept)[:2000]}")
        return "\n".join(lines)


def _ends_line(path: Path) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, 2)
        return file.read() == b"\n"


def arguments(
    thing: str, count: int, more: Mapping[str, str] | None = None
) -> tuple[Kept, argparse.Namespace]:
    """The file of this call's arguments. ``more``: other options, with what they are for."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.long.{thing}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=count, help="cases, of all calls with this seed")
    parser.add_argument("--state", type=Path, help="the file that keeps outcomes (default: below .long)")
    parser.add_argument("--again", action="store_true", help="forget what earlier calls found")
    for name, help_text in (more or {}).items():
        parser.add_argument(f"--{name}", default="", help=help_text)
    options = parser.parse_args()
    path = options.state or HOME / f"{thing}-{options.seed}.jsonl"
    if options.again:
        path.unlink(missing_ok=True)
    return Kept(thing, options.seed, options.count, path), options
