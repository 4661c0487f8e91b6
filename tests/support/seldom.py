"""Tests that CI has no time for: `make seldom` runs them, before a release and when what they test
changes. The mark is `seldom`, the command line's `-m "not seldom"` leaves them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest


def often(cases: Iterable[Any], *chosen: Any) -> list[Any]:
    """``cases`` as parameters of a test. Only the ``chosen`` ones run each time."""
    listed = list(cases)
    unknown = [each for each in chosen if each not in listed]
    if unknown:
        raise ValueError(f"no case is called {unknown}: {listed}")
    return [each if each in chosen else pytest.param(each, marks=pytest.mark.seldom) for each in listed]


def often_of(cases: Mapping[str, Any], *chosen: str) -> dict[str, Any]:
    """Named ``cases`` as the values and ids of `pytest.mark.parametrize`, see `often`."""
    return {"argvalues": often(cases.values(), *(cases[name] for name in chosen)), "ids": list(cases)}


def often_rows(cases: Mapping[str, tuple[Any, ...]], *chosen: str) -> dict[str, Any]:
    """The same for several parameters at once: each case has a value for each."""
    names = often(cases, *chosen)
    rows = [
        pytest.param(*values, marks=() if name in names else pytest.mark.seldom)
        for name, values in cases.items()
    ]
    return {"argvalues": rows, "ids": list(cases)}
