"""The ``server_side_parameters`` of the profile in use, in a session shared by several profiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ProfileSettings:
    """What the profile in use has set, and what the session said before, so that it can be undone.

    Settings that Spark reads only when it starts are left alone.
    """

    def __init__(self) -> None:
        self._current: dict[str, str] = {}
        self._before: dict[str, str | None] = {}

    def started_with(
        self, session: SparkSession, parameters: Mapping[str, str], defaults: Mapping[str, str]
    ) -> None:
        """The session was started with ``parameters``; without them it would have ``defaults``."""
        self._current = dict(parameters)
        self._before = {key: defaults.get(key) for key in parameters if session.conf.isModifiable(key)}

    def apply(self, session: SparkSession, parameters: Mapping[str, str]) -> bool:
        """Set this profile's parameters and undo those of the previous profile. False if these are
        the same.
        """
        if parameters == self._current:
            return False
        for key in [key for key in self._before if key not in parameters]:
            before = self._before.pop(key)
            session.conf.unset(key) if before is None else session.conf.set(key, before)
        for key, value in parameters.items():
            if session.conf.isModifiable(key):
                self._before.setdefault(key, session.conf.get(key, None))
                session.conf.set(key, value)
        self._current = dict(parameters)
        return True
