"""What the models of one dbt invocation share in this process; kept for the newest few
invocations.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

MAX_INVOCATIONS = 16
Shared = TypeVar("Shared")


class PerInvocation(Generic[Shared]):
    """One value per invocation, made on first use. Thread-safe.

    >>> values = PerInvocation(list)
    >>> values.of("a").append(1)
    >>> values.of("a"), values.of("b")
    ([1], [])
    """

    def __init__(self, make: Callable[[], Shared]):
        self._make = make
        self._lock = threading.Lock()
        self._values: OrderedDict[str, Shared] = OrderedDict()

    def of(self, invocation_id: str) -> Shared:
        """The invocation's value."""
        with self._lock:
            if invocation_id not in self._values:
                self._values[invocation_id] = self._make()
            self._values.move_to_end(invocation_id)
            while len(self._values) > MAX_INVOCATIONS:
                self._values.popitem(last=False)
            return self._values[invocation_id]
