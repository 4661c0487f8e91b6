"""What is tested here is the adapter's; the same statements run with compiled code in `functional/sink` and `functional/connection`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.small_data import interpreted


@pytest.fixture(scope="module", autouse=True)
def small_data(spark: Any) -> Iterator[None]:
    with interpreted(spark):
        yield
