"""No fault outlives its test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dbt.adapters.mvsink import failpoints


@pytest.fixture(autouse=True)
def no_faults() -> Iterator[None]:
    yield
    failpoints.install(None)
