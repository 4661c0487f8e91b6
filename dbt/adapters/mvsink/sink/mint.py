"""Mint: decide the next batch description.

Keeps four things: the desired frontier, the persist frontier, the last minted lower, and whether it
may write at all. It mints ``[persist frontier, desired frontier)`` when all three hold:

1. not read-only;
2. the desired frontier is ahead of the persist frontier;
3. the persist frontier has advanced since the last description was minted.

The persist frontier starts at the as-of, so nothing is written for times before it. Hence lowers
are unique and strictly increasing, uppers never decrease, and at most one description is valid at a
time.

>>> m = Mint("dbt.orders", as_of=4)
>>> m.observe_persist(Antichain.of(0)); m.observe_desired(Antichain.of(7))
>>> m.mint()
BatchDescription(lower=Antichain(4), upper=Antichain(7))
>>> m.mint() is None
True
"""

from __future__ import annotations

import logging

from dbt.adapters.mvsink.shard import Antichain
from dbt.adapters.mvsink.shard_sql import BatchDescription

log = logging.getLogger("mvsink.sink.mint")


class Mint:
    """See the module."""

    def __init__(self, model: str, *, as_of: int = 0, read_only: bool = False):
        self.model = model
        self.read_only = read_only
        self.as_of = Antichain.of(as_of)
        self.desired = Antichain.of(0)
        self.persist = self.as_of
        self.last_lower: Antichain | None = None

    def observe_desired(self, frontier: Antichain) -> None:
        """The model's SQL can be evaluated for all times before ``frontier``."""
        self.desired = self.desired.join(frontier)

    def observe_persist(self, upper: Antichain) -> None:
        """The shard's upper, as a write handle read it; never below the as-of."""
        self.persist = self.persist.join(upper)

    def allow_writes(self) -> None:
        """Switch read-only off: the very same description is minted now."""
        self.read_only = False
        log.debug("%s: read-only switched off", self.model)

    def peek(self) -> BatchDescription | None:
        """The description that would be minted if it were not for read-only."""
        ahead = self.persist.less_than(self.desired)
        advanced = self.last_lower is None or self.last_lower.less_than(self.persist)
        return BatchDescription(self.persist, self.desired) if ahead and advanced else None

    def mint(self) -> BatchDescription | None:
        """The next description, or None; see the module for when."""
        description = None if self.read_only else self.peek()
        if description is None:
            log.debug("%s: nothing to mint: persist %s, desired %s", self.model, self.persist, self.desired)
            return None
        self.last_lower = description.lower
        log.debug("%s: minted [%s, %s)", self.model, description.lower, description.upper)
        return description
