"""SIGTERM is the Ctrl-C of a CI server: it cancels what is running, and clean-up follows."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

BOTH = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM does what SIGINT does, other handlers of Ctrl-C included, such as a wait for the
    metastore.
    """

    def terminate(number: int, frame: FrameType | None) -> None:
        if not callable(signal.getsignal(signal.SIGINT)):  # ignored, as in a job of a shell's background
            raise KeyboardInterrupt
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Both signals are ignored meanwhile: what is short, and must be complete."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in BOTH}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
