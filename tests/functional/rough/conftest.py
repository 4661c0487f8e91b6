"""A test that takes `case` runs for every case of its class's table."""

from __future__ import annotations

from typing import Any

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", list(metafunc.cls.CASES))


@pytest.fixture(scope="session")
def dbt_profile_target(dbt_profile_target: dict[str, Any]) -> dict[str, Any]:
    """Four models at once: the cases have nothing to do with each other."""
    return {**dbt_profile_target, "threads": 4}
