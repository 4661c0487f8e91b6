"""Tiny data: no code is generated for it, and nothing is spread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dbt.adapters.mvsink.sink import faults
from tests.support.small_data import INTERPRETED


@pytest.fixture(scope="session")
def quick(spark: Any) -> Iterator[Any]:
    """A session of its own on the same context, set up for tiny data."""
    session = spark.newSession()
    for name, value in INTERPRETED.items():
        session.conf.set(name, value)
    yield session


@pytest.fixture(autouse=True)
def no_faults() -> Iterator[None]:
    yield
    faults.install(None)
