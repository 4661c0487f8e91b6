"""A test that takes `case` runs for every case of its class's table; where that has
`OFTEN`, the others run in `make seldom` only.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.seldom import often


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        cases = list(metafunc.cls.CASES)
        metafunc.parametrize("case", often(cases, *getattr(metafunc.cls, "OFTEN", cases)))


@pytest.fixture(scope="session")
def dbt_profile_target(dbt_profile_target: dict[str, Any]) -> dict[str, Any]:
    """Four models at once: the cases have nothing to do with each other."""
    return {**dbt_profile_target, "threads": 4}
