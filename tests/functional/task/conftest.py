"""No fault outlives its test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dbt.adapters.mvsink.sink import faults


@pytest.fixture(autouse=True)
def no_faults() -> Iterator[None]:
    yield
    faults.install(None)
