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
BERLIN = "Europe/Berlin"


def cron(expression, zone="UTC"):
    return RefreshSpec(crons=((expression, zone),))


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
    "cron": ("0 6 * * *", cron("0 6 * * *")),
    "cron with a zone": (" 15,45  6-18/2 * JAN-MAR mon-fri  Europe/Berlin", cron("15,45 6-18/2 * JAN-MAR mon-fri", BERLIN)),
    "cron, a mapping": ({"cron": "0 6 * * *", "zone": BERLIN}, cron("0 6 * * *", BERLIN)),
    "cron, of any minute": ("* * * * *", cron("* * * * *")),
    "hourly": ("hourly", cron("0 * * * *")),
    "hourly at a minute": ("hourly at :15", cron("15 * * * *")),
    "daily": ("daily", cron("0 0 * * *")),
    "daily at a time": ("daily at 06:00 Europe/Berlin", cron("0 6 * * *", BERLIN)),
    "daily, otherwise spelled": ("Daily  at 6:30", cron("30 6 * * *")),
    "weekdays": ("weekdays at 23:59", cron("59 23 * * MON-FRI")),
    "weekly": ("weekly on Sunday at 04:00 UTC", cron("0 4 * * 0")),
    "monthly": ("monthly on 1 at 00:30 Asia/Kolkata", cron("30 0 1 * *", "Asia/Kolkata")),
    "a mix with cron": (["every 1 hour", "daily at 06:00"], RefreshSpec(((HOUR, None),), crons=(("0 6 * * *", "UTC"),))),
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
    "unknown keys": ([{"every": "1 hour", "align": T}], "`aligned_to`, `cron`, `zone`, `at`, `at_creation` (here 'align')"),
    "on_commit as a key": ({"on_commit": True}, "(here 'on_commit')"),
    "at_creation as text": ([{"at_creation": "yes"}], "`at_creation: true`"),
    "at_creation false": ([{"at_creation": False}], "`at_creation: true`"),
    "an empty entry": ([{}], "`every`"),
    "cron of four fields": ({"cron": "0 6 * *"}, "five fields, minute, hour"),
    "cron of six fields": ({"cron": "0 0 6 * * *"}, "five fields, minute, hour"),
    "cron out of range": ("61 6 * * *", "Bad minute (here '61 6 * * *')"),
    "cron that never comes": ({"cron": "0 6 31 4,6 *"}, "Bad day-of-month"),
    "cron as a number": ({"cron": 6}, "five fields"),
    "a zone that there is not": ("daily at 06:00 Berlin", "`zone`: the name of a time zone that this machine knows"),
    "a zone outside of the zones": ({"cron": "0 6 * * *", "zone": "../etc/passwd"}, "`zone`: the name"),
    "a zone as a number": ({"cron": "0 6 * * *", "zone": 1}, "`zone`: the name"),
    "a zone without cron": ({"every": "1 hour", "zone": "UTC"}, "`zone` beside a `cron`"),
    "daily without an hour": ("daily at :15", "everything else with a time like 06:00"),
    "hourly with an hour": ("hourly at 06:15", "`hourly at :15` without an hour"),
    "daily at 25": ("daily at 25:00", "Bad hour"),
    "weekly on no day": ("weekly on mon at 06:00", "`weekly on` one of sunday, monday"),
    "monthly on 32": ("monthly on 32", "Bad day-of-month"),
    "text that is not a schedule": ("sometimes", "'on_commit', or entries with `every`"),
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
