"""Staging: the one statement by which an engine writes files for a shard, and the settings that it
runs under.

Spark takes some of what a file's types are from its session, and no option of a statement overrides
that. So these settings hold while we stage, whatever a profile or a hook has set, and are as before
afterwards: the user's own tables are written as the user says.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from dbt.adapters.mvsink.engine import Engine, EngineError, SettingRefused, sql
from dbt.adapters.mvsink.shard import StagedDirectory, WriteHandle

log = logging.getLogger("mvsink.sink.write")
EXACT = {
    # Milliseconds would lose digits; INT96 is read by few others, and not by them for every year.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Days before 1582 in the calendar that every reader knows.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    # Decimals and lists as the format has them today.
    "spark.sql.parquet.writeLegacyFormat": "false",
}

Get = Callable[[str], "str | None"]
Set = Callable[[str, str], None]


def stage(engine: Engine, handle: WriteHandle, query: str, what: str) -> StagedDirectory:
    """``query``'s rows as files in a directory of their own; nothing is left of them if it fails."""
    staged = handle.stage()
    try:
        with engine.settings(EXACT):
            engine.execute(sql.overwrite_directory(staged.uri, query), what)
    except BaseException:
        staged.delete()
        raise
    return staged


@dataclass
class _Pin:
    """What holds in one session: for how many at once, and what was there before."""

    users: int = 0
    before: dict[str, str] = field(default_factory=dict)


_pins: dict[object, _Pin] = {}
_lock = threading.RLock()


@contextmanager
def pinned(session: object, settings: Mapping[str, str], get: Get, set_: Set) -> Iterator[None]:
    """These ``settings`` hold in ``session`` (any key that stands for it) while somebody is in
    here; threads may share one.

    ``get`` gives None for a setting that cannot be read: then it stays as it is. Raises
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
    for name, wanted in settings.items():
        value = get(name)
        if value is None or value.upper() == wanted.upper():
            continue
        try:
            set_(name, wanted)
        except Exception as error:
            _restore(pin, set_)
            raise SettingRefused(name, value, wanted, str(error)) from error
        pin.before[name] = value


def _restore(pin: _Pin, set_: Set) -> None:
    """A session that is gone has no settings."""
    for name, value in pin.before.items():
        try:
            set_(name, value)
        except Exception as error:
            log.debug("%s stays as it was set for staging: %s", name, error)
    pin.before.clear()


class Conf(Protocol):
    """PySpark's runtime configuration."""

    def get(self, key: str) -> str | None: ...
    def set(self, key: str, value: str) -> None: ...


def by_conf(conf: Conf) -> tuple[Get, Set]:
    """Reading and setting for `pinned`, in this process's session. (`get` with a default gives that
    for what is not set by hand.)
    """

    def get(name: str) -> str | None:
        try:
            return conf.get(name)
        except Exception:  # unknown to this Spark
            return None

    return get, conf.set


def by_statements(
    execute: Callable[[str], None], query: Callable[[str], list[tuple[object, ...]]]
) -> tuple[Get, Set]:
    """The same for a session that is reached by SQL alone."""

    def get(name: str) -> str | None:
        try:
            [(_, value, *_)] = query(f"set {name}")
        except (EngineError, ValueError):
            return None
        return None if str(value) == "<undefined>" else str(value)

    return get, lambda name, value: execute(f"set {name} = {value}")
