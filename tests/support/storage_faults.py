"""A storage that fails on demand, around one that works."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from dbt.adapters.mvsink.shard.errors import TransientError, UnknownOutcome


class FaultyStorage:
    """Passes everything on to ``inner``. Before each load and commit ``plan`` names a failure.

    ``"before"``: a transient failure, nothing happens. ``"lost"``: the commit happens, and its
    outcome is reported as unknown. ``"unknown"``: it does not happen, and is reported as unknown.
    Anything callable is called (to kill the process, say).
    """

    def __init__(self, inner: Any, plan: Callable[[str], Any]):
        self.inner = inner
        self.plan = plan

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def load(self) -> Any:
        if self.plan("load") == "before":
            raise TransientError("injected: the log cannot be read")
        return self.inner.load()

    def commit(self, version: int, change: Any) -> None:
        fault = self.plan("commit")
        if fault == "before":
            raise TransientError("injected: the commit was not sent")
        if fault == "unknown":
            raise UnknownOutcome("injected: no reply, and it did not happen")
        self.inner.commit(version, change)
        if fault == "lost":
            raise UnknownOutcome("injected: no reply, but it happened")
        if callable(fault):
            fault()


def random_faults(seed: int, share: float = 0.2) -> Callable[[str], Any]:
    """A plan that goes wrong in ``share`` of the calls, in every way."""
    chance = random.Random(seed)

    def plan(call: str) -> Any:
        if chance.random() >= share:
            return None
        return "before" if call == "load" else chance.choice(["before", "lost", "unknown"])

    return plan
