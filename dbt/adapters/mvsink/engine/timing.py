"""Seconds per step of a run, for the log line, `run_results.json` and the commit's metadata.

A model's run and each of its steps are also OpenTelemetry spans, if its API package is installed
(docs/observability.md lists names and attributes); without a configured SDK that costs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from dbt.adapters.mvsink.masking import masked

try:
    from opentelemetry import trace
except ImportError:
    trace = None  # type: ignore[assignment]

Attributes = Mapping[str, "str | int | float | bool"]


@contextmanager
def span(name: str, attributes: Attributes | None = None) -> Iterator[Callable[[Attributes], None]]:
    """A span ``mvsink.<name>``, or nothing. What it yields adds attributes to it.

    An error becomes its status, without the stack trace, which could show secrets that the message
    does not.
    """
    if trace is None:
        yield lambda _: None
        return
    tracer = trace.get_tracer("mvsink")
    with tracer.start_as_current_span(
        f"mvsink.{name}", attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield current.set_attributes
        except BaseException as error:
            current.set_status(trace.Status(trace.StatusCode.ERROR, masked(str(error))))
            current.set_attribute("error.type", type(error).__name__)
            raise


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
