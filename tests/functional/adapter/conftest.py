"""Every module here runs on a session for tiny data. dbt writes no manifest.json and the like: that
is a sixth of what a test waits for.

A module whose tests read them says ARTIFACTS = True.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def on_small_data(small_data: None, request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if not getattr(request.module, "ARTIFACTS", False):
            patch.setenv("DBT_WRITE_JSON", "false")
        yield
