"""The project of the tests of `mvsink`. No Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbt.adapters.mvsink.cli.commands import status
from dbt.adapters.mvsink.shard import WriteHandle
from tests.unit.cli.shop import HOUR, NOW, Shop, write


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The project, at 2025-11-20T15:00:00Z."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(status, "clock", lambda: NOW)
    for variable in ("DBT_PROJECT_DIR", "DBT_PROFILES_DIR", "DBT_PROFILE", "DBT_TARGET"):
        monkeypatch.delenv(variable, raising=False)
    return Shop(tmp_path)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a broken log fails at once."""
    monkeypatch.setattr("dbt.adapters.mvsink.cli.discovery.TIMEOUT", 0.0)


@pytest.fixture
def orders(shop: Shop) -> WriteHandle:
    """Three rows written two hours ago, one more an hour ago."""
    handle = shop.shard("s.orders", "orders")
    write(handle, NOW - 2 * HOUR, ("a", 1), ("b", 1), ("c", 1))
    write(handle, NOW - HOUR, ("d", 1))
    return handle
