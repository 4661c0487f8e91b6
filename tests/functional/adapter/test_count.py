"""How many of dbt's families run here: a lower bound, so that none goes missing unseen."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RUN = 168


def families() -> set[type]:
    """The nearest base class of dbt-tests-adapter of each test class here that is not skipped as a
    whole.
    """
    tests = set()
    for path in HERE.glob("test_*.py"):
        module = importlib.import_module(f"tests.functional.adapter.{path.stem}")
        for name, test in inspect.getmembers(module, inspect.isclass):
            if name.startswith("Test") and test.__module__ == module.__name__ and not skipped(test):
                tests.update(theirs(test)[:1])
    return tests


def theirs(test: type) -> list[type]:
    """The classes of dbt-tests-adapter that a class derives from, nearest first."""
    return [base for base in test.__mro__ if base.__module__.startswith("dbt.tests.adapter.")]


def skipped(test: type) -> bool:
    """Is the class marked to be skipped?"""
    return any(mark.name == "skip" for mark in getattr(test, "pytestmark", []))


@pytest.mark.seldom
def test_the_families_that_run():
    assert len(families()) >= RUN > 44
