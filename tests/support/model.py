"""A shard as a few lines of plain Python: what the property test holds the real one against."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class ModelShard:
    """All updates ever appended, by ``(row, time)``; times are small integers, `FINISHED` the empty
    antichain.
    """

    upper: int = 0
    since: int = 0
    generation: int = 0
    updates: Counter[tuple[str, int]] = field(default_factory=Counter)

    def append(self, rows: list[tuple[str, int, int]], lower: int, upper: int) -> None:
        """Add the rows with ``lower <= time < upper`` and move the upper."""
        for row, time, diff in rows:
            if lower <= time < upper:
                self.updates[row, time] += diff
        self.upper = upper

    def at(self, as_of: int) -> list[tuple[str, int]]:
        """The collection at ``as_of``."""
        sums: Counter[str] = Counter()
        for (row, time), diff in self.updates.items():
            if time <= as_of:
                sums[row] += diff
        return sorted((row, diff) for row, diff in sums.items() if diff)

    def replace(self, rows: list[tuple[str, int, int]], time: int) -> None:
        """A new generation that holds ``rows`` from ``time`` on."""
        self.updates = Counter()
        self.generation += 1
        self.since = time
        self.append(rows, time, time + 1)
