"""What a test of the sink runs on: Spark where Spark decides what comes out, DuckDB where we do."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def session(request: pytest.FixtureRequest) -> Any:
    """None, which is DuckDB (`tests.support.duck_engine`); with `--on-spark`, Spark set up for tiny data."""
    return request.getfixturevalue("quick") if request.config.getoption("--on-spark") else None
