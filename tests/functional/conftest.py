"""What a module of tests sets in the process's one session ends with the module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module", autouse=True)
def settings_stay(spark: Any) -> Iterator[None]:
    """For one: dbt-spark's `insert_overwrite` switches how partitions are overwritten, and leaves it so."""
    before = dict(spark.conf.getAll)
    yield
    after = dict(spark.conf.getAll)
    for name in after.keys() - before.keys():
        spark.conf.unset(name)
    for name, value in before.items():
        if after.get(name) != value:
            spark.conf.set(name, value)
