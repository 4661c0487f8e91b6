"""The project that the tests of `mvsink` look at. No Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbt.adapters.mvsink.cli.commands import status
from tests.unit.cli.shop import NOW, Shop


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
    """A broken log is given up at once."""
    monkeypatch.setattr("dbt.adapters.mvsink.cli.discovery.PATIENCE", 0.0)
