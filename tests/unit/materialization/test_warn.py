"""Warnings are dbt's own events: errors where `warn_error` or `warn_error_options` say so."""

from __future__ import annotations

import pytest
from dbt.events import ALL_EVENT_NAMES
from dbt_common.events.event_manager import EventManager
from dbt_common.exceptions import DbtRuntimeError, EventCompilationError
from dbt_common.helper_types import WarnErrorOptionsV2

from dbt.adapters.mvsink.materialization.warn import warn, warn_of_all, warnings_are_errors

KEY = "s3://key:secret@bucket"


@pytest.fixture
def manager(monkeypatch):
    """dbt's event manager; ``messages`` are the warnings that it got."""
    made = EventManager()
    made.messages = []
    # whatever an earlier test in this process has set for all of them
    made.warn_error, made.warn_error_options = False, options()
    made.callbacks.append(lambda event: made.messages.append((event.info.level, event.info.msg)))
    for module in ("dbt.adapters.mvsink.materialization.warn", "dbt_common.events.functions"):
        monkeypatch.setattr(f"{module}.get_event_manager", lambda: made)
    return made


def options(**values):
    return WarnErrorOptionsV2(**values, valid_error_names=ALL_EVENT_NAMES)


def test_a_warning_is_an_event_of_dbt_without_secrets(manager):
    assert not warnings_are_errors()
    warn(f"shard {KEY}: lost")
    warn_of_all(["a {b}", "c"])
    assert manager.messages == [
        ("warn", "mvsink adapter: shard s3://***@bucket: lost"),
        ("warn", "mvsink adapter: a {b}"),
        ("warn", "mvsink adapter: c"),
    ]


@pytest.mark.parametrize(
    ("warn_error", "chosen"),
    [(True, options()), (False, options(error=["AdapterEventWarning"])), (False, options(error="all"))],
    ids=["--warn-error", "this event", "all events"],
)
def test_where_warnings_are_errors_one_error_names_all_and_none_is_printed(manager, warn_error, chosen):
    manager.warn_error, manager.warn_error_options = warn_error, chosen
    assert warnings_are_errors()
    with pytest.raises(EventCompilationError, match="lost"):
        warn("lost")
    with pytest.raises(DbtRuntimeError) as raised:
        warn_of_all(["first", "second"])
    assert "first" in str(raised.value) and "second" in str(raised.value)
    warn_of_all([])
    assert manager.messages == []


def test_a_silenced_warning_is_not_an_error(manager):
    manager.warn_error_options = options(
        error="all", silence=["AdapterEventWarning"], warn=["AdapterEventWarning"]
    )
    assert not warnings_are_errors()
