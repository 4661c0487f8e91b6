"""The session settings under which files are staged.

Spark takes some properties of a file's types from its session, and no option of a statement
overrides them. These settings therefore hold while we stage, whatever a profile or a hook has set,
and are restored afterwards: the user's own tables are written as the user says.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from dbt.adapters.mvsink.engine import SettingRefused

log = logging.getLogger("mvsink.sink.write")
EXACT = {
    # Milliseconds would lose digits; few other readers know INT96, and not for every year.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Days before 1582 in the calendar that every reader knows.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    # Decimals and lists in the current format.
    "spark.sql.parquet.writeLegacyFormat": "false",
}

Get = Callable[[str], "str | None"]
Set = Callable[[str, str], None]


@dataclass
class _Pin:
    """The settings pinned in one session: by how many users at once, and the values before."""

    users: int = 0
    before: dict[str, str] = field(default_factory=dict)


_pins: dict[object, _Pin] = {}
_lock = threading.RLock()


@contextmanager
def pinned(session: object, settings: Mapping[str, str], get: Get, set_: Set) -> Iterator[None]:
    """Keep ``settings`` in ``session`` (any key that identifies it) until the last thread leaves.

    ``get`` returns None for a setting that cannot be read: it stays as it is. Raises
    `SettingRefused` if one cannot be set.
    """
    with _lock:
        pin = _pins.setdefault(session, _Pin())
        if pin.users == 0:
            _pin(pin, settings, get, set_)
        pin.users += 1
    try:
        yield
    finally:
        with _lock:
            pin.users -= 1
            if pin.users == 0:
                _pins.pop(session, None)
                _restore(pin, set_)


def _pin(pin: _Pin, settings: Mapping[str, str], get: Get, set_: Set) -> None:
    # all are read before one is set: what is remembered of a session holds until then
    values = {name: get(name) for name in settings}
    for name, wanted in settings.items():
        value = values[name]
        if value is None or value.upper() == wanted.upper():
            continue
        try:
            set_(name, wanted)
        except Exception as error:
            _restore(pin, set_)
            raise SettingRefused(name, value, wanted, str(error)) from error
        pin.before[name] = value


def _restore(pin: _Pin, set_: Set) -> None:
    """Errors are only logged: a session that has ended has no settings."""
    for name, value in pin.before.items():
        try:
            set_(name, value)
        except Exception as error:
            log.debug("%s keeps its value for staging: %s", name, error)
    pin.before.clear()


class Conf(Protocol):
    """PySpark's runtime configuration."""

    def get(self, key: str) -> str | None: ...
    def set(self, key: str, value: str) -> None: ...


def by_conf(conf: Conf) -> tuple[Get, Set]:
    """The getter and setter for `pinned` in a session of this process."""

    # `get` with a default would return that for every setting that was not set explicitly
    def get(name: str) -> str | None:
        try:
            return conf.get(name)
        except Exception:  # unknown to this Spark
            return None

    return get, conf.set


def by_statements(
    execute: Callable[[str], None],
    listed: Callable[[], Mapping[str, str]],
    default: Callable[[str], str | None],
) -> tuple[Get, Set]:
    """The getter and setter for `pinned` in a session that is reached by SQL alone. ``listed``: the
    settings that are not defaults; ``default``: the value of any other, None if there is none.
    """

    def get(name: str) -> str | None:
        value = listed().get(name)
        return default(name) if value is None else value

    return get, lambda name, value: execute(f"set {name} = {value}")
