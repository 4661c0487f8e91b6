"""Dates and timestamps far from today: before the calendar's reform, after nanoseconds' end, and
beyond Python's.
"""

from __future__ import annotations

import pytest

from tests.functional.rough.base import Case, Table

pytestmark = pytest.mark.usefixtures("small_data")

DATES = (
    "0001-01-01",
    "1582-10-04",
    "1582-10-10",
    "1582-10-15",
    "1677-09-21",
    "1899-12-31",
    "1970-01-01",
    "2262-04-12",
    "9999-12-31",
)
CLOCK = (" 00:00:00", " 12:34:56.789123", " 23:59:59.999999")


def values(kind: str, texts: list[str]) -> Case:
    """One row per value; the third run changes one of them by a microsecond or a day."""
    listed = ", ".join(f"({number}, {kind}'{text}')" for number, text in enumerate(texts))
    step = (
        "date_sub(v, cast(:n as int))" if kind == "date" else "v - interval 1 microsecond * cast(:n as int)"
    )
    return Case(f"select i, if(i = 2, {step}, v) as v from values {listed} as t(i, v)")


def far(kind: str) -> str:
    """Columns of every nesting."""
    first, last = f"{kind}'0001-01-02'", f"{kind}'9999-12-31'"
    nested = f"array({first}, {last}) as a, map('k', {last}, 'l', {first}) as m, named_struct('f', {first}, 'l', array({last})) as s"
    return f"{first} as first, {last} as last, {nested}"


STAMPS = [date + clock for date in DATES for clock in CLOCK]


class TestFar(Table):
    CASES = {
        "dates": values("date", list(DATES)),
        "timestamps": values("timestamp", STAMPS),
        "timestamps_ntz": values("timestamp_ntz", STAMPS),
        "date_nested": Case(f"select id, {far('date')}, :n as n from range(3)"),
        "timestamp_nested": Case(f"select id, {far('timestamp')}, :n as n from range(3)"),
        "timestamp_ntz_nested": Case(f"select id, {far('timestamp_ntz')}, :n as n from range(3)"),
        "as_the_first_column": Case("select timestamp'9999-12-31' as valid_to, id * :n as v from range(40)"),
        "beyond_year_9999": Case("select id, date'+12345-06-07' as d, timestamp'+12345-06-07 08:09:10' as t, timestamp_ntz'+12345-06-07' as z, :n as n from range(3)"),
        "before_year_1": Case("select id, date'-0044-03-15' as d, timestamp'-0044-03-15 12:00:00' as t, timestamp_ntz'-0044-03-15' as z, :n as n from range(3)"),
        "from_text": Case("select id, cast(concat(1900 + id, '-02-28') as timestamp) as t, to_timestamp('31.12.9999', 'dd.MM.yyyy') as z, :n as n from range(3)"),
    }  # fmt: skip
