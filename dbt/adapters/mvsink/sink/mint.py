"""Mint: decide the next batch description.

The persist frontier is the shard's upper, but never below the as-of: nothing is written for times
before it. docs/design/sink.md has the three conditions under which ``[persist frontier, desired
frontier)`` is minted. Hence lowers are unique and strictly increasing, uppers never decrease, and
at most one description is valid at a time. A new generation of the shard, whose upper may be lower,
has a mint of its own.

>>> m = Mint("dbt.orders")
>>> m.observe_as_of(Antichain.of(4))
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
START = Antichain.of(0)


class Mint:
    """The mint of one run for one generation of a shard; see the module."""

    def __init__(self, model: str, *, read_only: bool = False):
        self.model = model
        self.read_only = read_only
        self.as_of = START
        self.upper = START
        self.desired = START
        self.last_lower: Antichain | None = None

    def observe_as_of(self, as_of: Antichain) -> None:
        """Nothing is to be written for times before ``as_of``."""
        self.as_of = as_of

    def observe_desired(self, frontier: Antichain) -> None:
        """The model's SQL can be evaluated for all times before ``frontier``."""
        self.desired = self.desired.join(frontier)

    def observe_persist(self, upper: Antichain) -> None:
        """The shard's ``upper``, as a write handle read it."""
        self.upper = self.upper.join(upper)

    @property
    def persist(self) -> Antichain:
        """The persist frontier."""
        return self.as_of.join(self.upper)

    def peek(self) -> BatchDescription | None:
        """The next description, regardless of read-only; nothing is minted."""
        ahead = self.persist.less_than(self.desired)
        advanced = self.last_lower is None or self.last_lower.less_than(self.persist)
        return BatchDescription(self.persist, self.desired) if ahead and advanced else None

    def mint(self) -> BatchDescription | None:
        """The next description, or None; see the module for the conditions."""
        description = None if self.read_only else self.peek()
        if description is None:
            log.debug("%s: nothing to mint: persist %s, desired %s", self.model, self.persist, self.desired)
            return None
        self.last_lower = description.lower
        log.debug("%s: minted [%s, %s)", self.model, description.lower, description.upper)
        return description
