"""The `refresh` config, read once: a list of entries, one mapping, or text like ``every 1 hour``.

Every refusal is an `InvalidOption` that names the model, what was given and what is allowed;
nothing needs SQL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from dbt.adapters.mvsink.durations import (
    INTERVAL_UNITS,
    SMALLEST_BARE_INTEGER,
    parse_interval,
    parse_time,
)
from dbt.adapters.mvsink.exceptions import InvalidOption
from dbt.adapters.mvsink.physical import LARGEST_TIME
from dbt.adapters.mvsink.refresh_schedule import RefreshSpec

ON_COMMIT = "on_commit"
KEYS = ("every", "aligned_to", "at", "at_creation")
ALLOWED = "'on_commit', or entries with `every` (and `aligned_to`), `at` or `at_creation: true`, like [{'every': '1 hour'}] or 'every 1 hour'"
_EVERY = re.compile(r"every\s+(?P<every>.+?)(?:\s+aligned[ _]to\s+(?P<aligned_to>.+))?", re.IGNORECASE)
_AT = re.compile(r"at\s+(?P<at>.+)", re.IGNORECASE)
_AT_CREATION = re.compile(r"at[ _]creation", re.IGNORECASE)
_CALENDAR = re.compile(r"\bmonths?\b|\byears?\b|\bquarters?\b", re.IGNORECASE)
_AMOUNT = re.compile(r"\s*([+-]?\d+)\s*([a-z]+)\s*", re.IGNORECASE)


def parse_refresh(model: str, given: Any) -> RefreshSpec:
    """The schedule that ``given`` asks for. Raises `InvalidOption`."""
    return _Parser(model, given).parse()


class _Parser:
    def __init__(self, model: str, given: Any):
        self.model, self.given = model, given

    def parse(self) -> RefreshSpec:
        if self.given is None:
            return RefreshSpec()
        entries = self.given if _is_list(self.given) else [self.given]
        if any(_is_on_commit(entry) for entry in entries):
            if len(entries) > 1:
                self._refuse("'on_commit' alone and once: with it every run is a refresh")
            return RefreshSpec()
        everies: list[tuple[int, int | None]] = []
        ats: list[int] = []
        at_creation = False
        for entry in map(self._mapping, entries):
            if "every" in entry:
                everies.append((self._interval(entry["every"]), self._aligned_to(entry)))
            elif "aligned_to" in entry:
                self._refuse("`aligned_to` beside an `every`, whose refreshes it aligns")
            if "at" in entry:
                ats.append(self._time("at", entry["at"]))
            at_creation = self._at_creation(entry) or at_creation
        return RefreshSpec(tuple(everies), tuple(sorted(set(ats))), at_creation)

    def _mapping(self, entry: Any) -> Mapping[str, Any]:
        """An entry as a mapping with known keys, at least one of which makes it an entry."""
        if isinstance(entry, str):
            text = entry.strip()
            if _AT_CREATION.fullmatch(text):
                return {"at_creation": True}
            match = _EVERY.fullmatch(text) or _AT.fullmatch(text)
            if match is None:
                self._refuse(ALLOWED, entry)
            return {key: value for key, value in match.groupdict().items() if value is not None}
        if not isinstance(entry, Mapping):
            self._refuse(ALLOWED, entry)
        unknown = [key for key in entry if key not in KEYS]
        if unknown:
            self._refuse(f"the keys {', '.join(f'`{key}`' for key in KEYS)}", unknown[0])
        if not entry:
            self._refuse(f"an entry with {ALLOWED.partition('with ')[2]}", entry)
        return entry

    def _interval(self, given: Any) -> int:
        form = f"`every`: an interval greater than zero in {INTERVAL_UNITS}, like '1 hour'"
        match = _AMOUNT.fullmatch(given) if isinstance(given, str) else None
        if isinstance(given, str) and _CALENDAR.search(given):
            self._refuse(f"{form}; months and years have no fixed length", given)
        if match is None or (parse_interval(f"1 {match[2]}")) is None:
            self._refuse(form, given)
        if int(match[1]) <= 0:
            self._refuse(form, given)
        interval = parse_interval(f"{int(match[1])} {match[2]}")
        if interval is None:
            self._refuse(f"{form}, and at most {LARGEST_TIME} ms: it must fit in 64 bits", given)
        return interval

    def _aligned_to(self, entry: Mapping[str, Any]) -> int | None:
        return None if entry.get("aligned_to") is None else self._time("aligned_to", entry["aligned_to"])

    def _time(self, key: str, given: Any) -> int:
        time = parse_time(given)
        if time is not None:
            return time
        form = f"`{key}`: a constant time, not before 1970: ISO 8601 text like '2026-12-31 23:59:00' (UTC if it names no zone), or ms"
        digits = str(given).strip()
        if not isinstance(given, bool) and digits.isdigit() and int(digits) < SMALLEST_BARE_INTEGER:
            form += f" from {SMALLEST_BARE_INTEGER} on; YAML turns 23:59 without quotes into 1439: quote times, and give the date"
        self._refuse(form, given)

    def _at_creation(self, entry: Mapping[str, Any]) -> bool:
        if "at_creation" not in entry:
            return False
        if entry["at_creation"] is not True:
            self._refuse(
                "`at_creation: true`; leave the entry out where creation is no refresh", entry["at_creation"]
            )
        return True

    def _refuse(self, allowed: str, part: Any = None) -> NoReturn:
        """Of the whole config, or of ``part`` of it."""
        named = "" if part is None or part is self.given else f" (here {part!r})"
        raise InvalidOption(self.model, "refresh", self.given, allowed + named)


def _is_list(given: Any) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, str)


def _is_on_commit(entry: Any) -> bool:
    return isinstance(entry, str) and entry.strip().lower() == ON_COMMIT
