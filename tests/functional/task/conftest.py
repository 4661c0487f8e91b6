"""Tiny data: no code is generated for it, and nothing is spread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dbt.adapters.mvsink.sink import faults

QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
    "spark.sql.files.minPartitionNum": "1",
}


@pytest.fixture(scope="session")
def quick(spark: Any) -> Iterator[Any]:
    """A session of its own on the same context, set up for tiny data."""
    session = spark.newSession()
    for name, value in QUICK.items():
        session.conf.set(name, value)
    yield session


@pytest.fixture(autouse=True)
def no_faults() -> Iterator[None]:
    yield
    faults.install(None)
