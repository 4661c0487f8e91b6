"""The `refresh` config: a list of entries, one mapping, or text like ``every 1 hour``,
``0 6 * * *`` or ``daily at 06:00 Europe/Berlin``.

Every refusal says what is allowed, and which part of the config it is about; nothing needs SQL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from dbt.adapters.mvsink.durations import INTERVAL_UNITS, SMALLEST_BARE_INTEGER, parse_interval, parse_time
from dbt.adapters.mvsink.materialization.options.kinds import INTERVAL_PATTERN, NotAllowed, ValueKind
from dbt.adapters.mvsink.physical import LARGEST_TIME
from dbt.adapters.mvsink.refresh_schedule import RefreshSpec, cron_problem

ON_COMMIT = "on_commit"
KEYS = ("every", "aligned_to", "cron", "zone", "at", "at_creation")
ENTRIES = (
    "entries with `every` (and `aligned_to`), `cron` (and `zone`), `at` or `at_creation: true`, "
    "like [{'every': '1 hour'}], 'every 1 hour', '0 6 * * *' or 'daily at 06:00 Europe/Berlin'"
)
ALLOWED = f"'{ON_COMMIT}', or {ENTRIES}"
_EVERY = re.compile(r"every\s+(?P<every>.+?)(?:\s+aligned[ _]to\s+(?P<aligned_to>.+))?", re.IGNORECASE)
_AT = re.compile(r"at\s+(?P<at>.+)", re.IGNORECASE)
_AT_CREATION = re.compile(r"at[ _]creation", re.IGNORECASE)
_CRON = re.compile(r"(?P<cron>[\d*]\S*(?:\s+\S+){4})(?:\s+(?P<zone>[A-Za-z]\S*))?")
_WORDS = re.compile(
    r"(?:(?P<plain>hourly|daily|weekdays)|weekly\s+on\s+(?P<weekday>[a-z]+)|monthly\s+on\s+(?P<day>\d+))"
    r"(?:\s+at\s+(?P<hour>\d{1,2})?:(?P<minute>\d{2}))?(?:\s+(?P<zone>[A-Za-z]\S*))?",
    re.IGNORECASE,
)
WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
UTC = "UTC"
_CALENDAR = re.compile(r"\bmonths?\b|\byears?\b|\bquarters?\b", re.IGNORECASE)
_AMOUNT = re.compile(r"\s*([+-]?\d+)\s*([a-z]+)\s*", re.IGNORECASE)


def _refresh(value: Any) -> RefreshSpec:
    entries = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    if any(isinstance(entry, str) and entry.strip().lower() == ON_COMMIT for entry in entries):
        if len(entries) > 1:
            raise NotAllowed("'on_commit' alone and once: with it every run is a refresh")
        return RefreshSpec()
    everies: list[tuple[int, int | None]] = []
    ats: set[int] = set()
    crons: list[tuple[str, str]] = []
    at_creation = False
    for entry in entries:
        fields = _fields(entry, value)
        if "every" in fields:
            aligned_to = fields.get("aligned_to")
            everies.append(
                (_every(fields["every"]), None if aligned_to is None else _time("aligned_to", aligned_to))
            )
        elif "aligned_to" in fields:
            raise NotAllowed("`aligned_to` beside an `every`, whose refreshes it aligns")
        if "cron" in fields:
            crons.append(_cron(fields["cron"], fields.get("zone", UTC)))
        elif "zone" in fields:
            raise NotAllowed("`zone` beside a `cron`, whose times it is about")
        if "at" in fields:
            ats.add(_time("at", fields["at"]))
        at_creation = _at_creation(fields) or at_creation
    return RefreshSpec(tuple(everies), tuple(sorted(ats)), at_creation, tuple(crons))


def _fields(entry: Any, config: Any) -> Mapping[str, Any]:
    """An entry as a mapping with known keys, of which at least one is enough to make an entry."""
    if isinstance(entry, str):
        text = entry.strip()
        if _AT_CREATION.fullmatch(text):
            return {"at_creation": True}
        if (words := _WORDS.fullmatch(text)) is not None:
            return _of_words(words)
        if (match := _EVERY.fullmatch(text) or _AT.fullmatch(text) or _CRON.fullmatch(text)) is not None:
            return {key: part for key, part in match.groupdict().items() if part is not None}
    if not isinstance(entry, Mapping):
        raise NotAllowed(ALLOWED if entry is config else f"{ALLOWED} (here {entry!r})")
    unknown = [key for key in entry if key not in KEYS]
    if unknown:
        _refuse(f"the keys {', '.join(f'`{key}`' for key in KEYS)}", unknown[0])
    if not entry:
        raise NotAllowed(f"an entry with {ENTRIES.partition('with ')[2]}")
    return entry


def _every(value: Any) -> int:
    form = f"`every`: an interval greater than zero in {INTERVAL_UNITS}, like '1 hour'"
    match = _AMOUNT.fullmatch(value) if isinstance(value, str) else None
    if isinstance(value, str) and _CALENDAR.search(value):
        _refuse(f"{form}; months and years have no fixed length", value)
    if match is None or parse_interval(f"1 {match[2]}") is None or int(match[1]) <= 0:
        _refuse(form, value)
    interval = parse_interval(f"{int(match[1])} {match[2]}")
    if interval is None:
        _refuse(f"{form}, and at most {LARGEST_TIME} ms: it must fit in 64 bits", value)
    return interval


def _of_words(words: re.Match[str]) -> Mapping[str, Any]:
    """The entry that ``daily at 06:00 Europe/Berlin`` and the like stand for."""
    plain, weekday = (words["plain"] or "").lower(), (words["weekday"] or "").lower()
    hour, minute = words["hour"], words["minute"]
    if (hour is None and minute is not None) != (plain == "hourly" and minute is not None):
        _refuse("`hourly at :15` without an hour, everything else with a time like 06:00", words[0])
    if weekday and weekday not in WEEKDAYS:
        _refuse(f"`weekly on` one of {', '.join(WEEKDAYS)}", words[0])
    days = {"weekdays": "* * MON-FRI"}.get(plain, "* * *")
    if weekday:
        days = f"* * {WEEKDAYS.index(weekday)}"
    if words["day"]:
        days = f"{int(words['day'])} * *"
    at = "*" if plain == "hourly" else int(hour or 0)
    return {"cron": f"{int(minute or 0)} {at} {days}", "zone": words["zone"] or UTC}


def _cron(expression: Any, zone: Any) -> tuple[str, str]:
    form = "`cron`: five fields, minute, hour, day of the month, month and day of the week, like '0 6 * * MON-FRI'"
    if not isinstance(expression, str):
        _refuse(form, expression)
    if not isinstance(zone, str):
        _refuse("`zone`: the name of a time zone, like 'Europe/Berlin'", zone)
    problem = cron_problem(expression, zone)
    if problem == "the zone":
        _refuse("`zone`: the name of a time zone that this machine knows, like 'Europe/Berlin'", zone)
    if problem is not None:
        _refuse(f"{form}; {problem.removeprefix('the expression: ')}", expression)
    return " ".join(expression.split()), zone


def _time(key: str, value: Any) -> int:
    time = parse_time(value)
    if time is not None:
        return time
    form = f"`{key}`: a constant time, not before 1970: ISO 8601 text like '2026-12-31 23:59:00' (UTC if it names no zone), or ms"
    digits = str(value).strip()
    if not isinstance(value, bool) and digits.isdigit() and int(digits) < SMALLEST_BARE_INTEGER:
        form += f" from {SMALLEST_BARE_INTEGER} on; YAML turns 23:59 without quotes into 1439: quote times, and give the date"
    _refuse(form, value)


def _at_creation(fields: Mapping[str, Any]) -> bool:
    if fields.get("at_creation", True) is not True:
        _refuse(
            "`at_creation: true`; without such an entry the creation is not a refresh", fields["at_creation"]
        )
    return "at_creation" in fields


def _refuse(allowed: str, part: Any) -> NoReturn:
    raise NotAllowed(f"{allowed} (here {part!r})")


_TIME_SCHEMA = {"type": ["string", "integer"], "minimum": SMALLEST_BARE_INTEGER}
_ENTRY_SCHEMA = {
    "anyOf": [
        {"type": "string", "pattern": r"^\s*([eE][vV][eE][rR][yY]\s|[aA][tT][\s_])"},
        {"type": "string", "pattern": r"^\s*[\d*]\S*(\s+\S+){4,5}\s*$"},
        {"type": "string", "pattern": r"^\s*(hourly|daily|weekdays|weekly|monthly)\b"},
        {
            "type": "object",
            "properties": {
                "every": {"type": "string", "pattern": INTERVAL_PATTERN},
                "aligned_to": _TIME_SCHEMA,
                "cron": {"type": "string"},
                "zone": {"type": "string"},
                "at": _TIME_SCHEMA,
                "at_creation": {"const": True},
            },
            "dependentRequired": {"aligned_to": ["every"], "zone": ["cron"]},
            "additionalProperties": False,
            "minProperties": 1,
        },
    ]
}
REFRESH = ValueKind(
    _refresh,
    ALLOWED,
    {
        "anyOf": [
            {"const": ON_COMMIT},
            *_ENTRY_SCHEMA["anyOf"],
            {"type": "array", "items": {"anyOf": [{"const": ON_COMMIT}, *_ENTRY_SCHEMA["anyOf"]]}},
        ]
    },
)
