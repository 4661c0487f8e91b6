"""Seconds per step of a run, for the log line, `run_results.json` and the commit's metadata.

Each step is also an OpenTelemetry span if its API package is installed; without a configured SDK
that costs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

try:
    from opentelemetry import trace
except ImportError:
    trace = None  # type: ignore[assignment]


def span(name: str, **attributes: str) -> AbstractContextManager[object]:
    """A span ``mvsink.<name>``, or nothing."""
    if trace is None:
        return nullcontext()
    return trace.get_tracer("mvsink").start_as_current_span(f"mvsink.{name}", attributes=attributes)


class Stopwatch:
    """Adds up wall-clock seconds by the name of the step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, step: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            with span(step):
                yield
        finally:
            self.seconds[step] = self.seconds.get(step, 0.0) + time.monotonic() - started
