"""The `refresh` config: what it may hold; every refusal of docs/design/refresh.md, *Bad input*."""

from __future__ import annotations

from datetime import date, datetime

import pytest

from dbt.adapters.mvsink.exceptions import InvalidOption
from dbt.adapters.mvsink.materialization.options.refresh import REFRESH
from dbt.adapters.mvsink.refresh_schedule import RefreshSpec

T = 1_795_186_800_000  # 2026-11-20T15:00:00Z
HOUR, DAY = 3_600_000, 86_400_000
HOURLY = RefreshSpec(((HOUR, None),))
ALIGNED = RefreshSpec(((HOUR, T),))
AT_T = RefreshSpec(ats=(T,))

ACCEPTED = {
    "no entry": ([], RefreshSpec()),
    "on_commit": ("on_commit", RefreshSpec()),
    "on_commit in a list": (["on_commit"], RefreshSpec()),
    "text": ("every 1 hour", HOURLY),
    "text in a list": (["every 60 minutes"], HOURLY),
    "one mapping": ({"every": "1 hour"}, HOURLY),
    "a list": ([{"every": "1 hour"}], HOURLY),
    "units": ([{"every": text} for text in ("250 ms", "2 seconds", "1 MINUTE", "1 hours", "3 days", "2 weeks")],
              RefreshSpec(tuple((i, None) for i in (250, 2000, 60_000, HOUR, 3 * DAY, 14 * DAY)))),
    "the largest interval": ({"every": f"{2**63 - 2} ms"}, RefreshSpec(((2**63 - 2, None),))),
    "aligned, text": ("every 1 hour aligned to 2026-11-20 15:00", ALIGNED),
    "aligned, ISO with a space: UTC": ([{"every": "1 hour", "aligned_to": "2026-11-20 15:00:00"}], ALIGNED),
    "aligned, ISO with T and a zone": ([{"every": "1 hour", "aligned_to": "2026-11-20T16:00:00+01:00"}], ALIGNED),
    "aligned, ms": ([{"every": "1 hour", "aligned_to": T}], ALIGNED),
    "aligned, ms as rendered text": ([{"every": "1 hour", "aligned_to": str(T)}], ALIGNED),
    "aligned, as YAML reads it": ([{"every": "1 hour", "aligned_to": datetime(2026, 11, 20, 15)}], ALIGNED),
    "aligned to nothing": ([{"every": "1 hour", "aligned_to": None}], HOURLY),
    "at": ([{"at": "2026-11-20T15:00:00Z"}], AT_T),
    "at, text": ("at 2026-11-20 15:00:00", AT_T),
    "at, a date": ([{"at": date(2026, 11, 20)}], RefreshSpec(ats=(T - 15 * HOUR,))),
    "at, repeated": ([{"at": T + HOUR}, {"at": T}, {"at": T}], RefreshSpec(ats=(T, T + HOUR))),
    "at_creation": ([{"at_creation": True}], RefreshSpec(at_creation=True)),
    "at_creation, text": ("at_creation", RefreshSpec(at_creation=True)),
    "a mix": ([{"every": "1 hour", "aligned_to": T}, "every 1 day", {"at": T}, {"at_creation": True}],
              RefreshSpec(((HOUR, T), (DAY, None)), (T,), True)),
    "a mix in one mapping": ({"every": "1 hour", "at_creation": True}, RefreshSpec(((HOUR, None),), at_creation=True)),
}  # fmt: skip


@pytest.mark.parametrize(("value", "spec"), ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(value, spec):
    assert REFRESH.read(value) == spec


GREATER, CONSTANT = (
    "an interval greater than zero in ms, seconds, minutes, hours, days, weeks",
    "a constant time",
)
REFUSED = {
    "on_commit with anything else": (["on_commit", {"every": "1 hour"}], "'on_commit' alone and once"),
    "on_commit twice": (["on_commit", "on_commit"], "'on_commit' alone and once"),
    "interval zero": ([{"every": "0 hours"}], f"{GREATER}, like '1 hour' (here '0 hours')"),
    "interval negative": ([{"every": "-1 hour"}], f"{GREATER}, like '1 hour' (here '-1 hour')"),
    "interval with months": ([{"every": "1 month"}], "months and years have no fixed length (here '1 month')"),
    "interval with years": ("every 2 years", "months and years have no fixed length (here '2 years')"),
    "interval too large": ([{"every": "9999999999999999999 days"}], "it must fit in 64 bits"),
    "one more than the largest interval": ([{"every": f"{2**63 - 1} ms"}], "it must fit in 64 bits"),
    "unknown unit": ([{"every": "3 fortnights"}], GREATER),
    "malformed interval": ([{"every": "hour"}], GREATER),
    "an interval of two units": ([{"every": "1 hour 30 minutes"}], GREATER),
    "interval as a number": ([{"every": 3600}], GREATER),
    "interval as nothing": ([{"every": None}], GREATER),
    "at that is not a time": ([{"at": "noon"}], f"`at`: {CONSTANT}"),
    "at that is not a constant": ([{"at": "timestamp_millis(0L) /* mv_now */"}], f"`at`: {CONSTANT}"),
    "at as nothing": ([{"at": None}], f"`at`: {CONSTANT}"),
    "at before 1970": ([{"at": "1969-12-31"}], "not before 1970"),
    "at beyond the range of times": ([{"at": 2**63 - 1}], f"`at`: {CONSTANT}"),
    "at true": ([{"at": True}], f"`at`: {CONSTANT}"),
    "at 23:59 in YAML": ([{"at": 1439}], "YAML turns 23:59 without quotes into 1439: quote times"),
    "aligned_to 23:59 in YAML, as text": ([{"every": "1 hour", "aligned_to": "1439"}], "YAML turns 23:59"),
    "aligned_to that is not a time": ([{"every": "1 hour", "aligned_to": "midnight"}], f"`aligned_to`: {CONSTANT}"),
    "aligned_to without every": ([{"aligned_to": T}], "`aligned_to` beside an `every`"),
    "aligned_to beside an at": ([{"at": T, "aligned_to": T}], "`aligned_to` beside an `every`"),
    "unknown keys": ([{"every": "1 hour", "align": T}], "`every`, `aligned_to`, `at`, `at_creation` (here 'align')"),
    "on_commit as a key": ({"on_commit": True}, "(here 'on_commit')"),
    "at_creation as text": ([{"at_creation": "yes"}], "`at_creation: true`"),
    "at_creation false": ([{"at_creation": False}], "`at_creation: true`"),
    "an empty entry": ([{}], "`every`"),
    "text that is not a schedule": ("hourly", "'on_commit', or entries with `every`"),
    "an interval alone": ("1 hour", "'on_commit', or entries with `every`"),
    "a number": (3600, "'on_commit', or entries with `every`"),
    "true": (True, "'on_commit', or entries with `every`"),
    "an entry that is nothing": ([None], "'on_commit', or entries with `every`"),
}  # fmt: skip


@pytest.mark.parametrize(("value", "allowed"), REFUSED.values(), ids=REFUSED)
def test_refused_naming_the_model_what_was_given_and_what_is_allowed(value, allowed):
    with pytest.raises(InvalidOption) as error:
        REFRESH.parse("dev.orders", "refresh", value)
    message = str(error.value)
    assert (
        "dev.orders" in message and "`refresh`" in message and repr(value) in message and allowed in message
    )
