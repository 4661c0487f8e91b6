"""A binding becomes a literal of its own type, with nothing lost."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from dbt.adapters.mvsink.connection.frames import _literal


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (None, "null"),
        (True, "true"),
        (1, "1"),
        (2**53 + 1, "9007199254740993"),
        (Decimal("1.10"), "1.10"),
        (Decimal("1E+3"), "1000"),
        (1.5, "cast('1.5' as double)"),
        (1e300, "cast('1e+300' as double)"),
        (float("nan"), "cast('nan' as double)"),
        (dt.date(2026, 11, 21), "date '2026-11-21'"),
        (dt.datetime(2026, 11, 21, 7, 5, 3, 123456), "timestamp '2026-11-21 07:05:03.123456'"),
        ("it's", "concat('it', chr(39), 's')"),
        ("back\\slash", "concat('back', chr(92), 'slash')"),
        ("", "''"),
    ],
)
def test_literal(value, literal):
    assert _literal(value) == literal
