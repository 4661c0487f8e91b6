"""Every module here runs on a session for tiny data."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def on_small_data(small_data: None) -> None:
    pass
