"""Forwards what the lower layers log with the standard library to dbt, as debug events."""

from __future__ import annotations

import logging

from dbt.adapters.events.logging import AdapterLogger

from dbt.adapters.mvsink.masking import masked


class _Forward(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.events = AdapterLogger("mvsink")

    def emit(self, record: logging.LogRecord) -> None:
        self.events.debug(masked(f"{record.name}: {record.getMessage()}"))


def install() -> None:
    """Forward the `mvsink.*` loggers, once."""
    root = logging.getLogger("mvsink")
    if not any(isinstance(handler, _Forward) for handler in root.handlers):
        root.addHandler(_Forward())
        root.setLevel(logging.DEBUG)
        root.propagate = False
