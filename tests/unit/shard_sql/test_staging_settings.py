"""While a shard's files are staged the session has the settings that make them exact, and its own
before and after.
"""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from dbt.adapters.mvsink.engine import EngineError, SettingRefused
from dbt.adapters.mvsink.shard_sql.stager import by_statements, pinned

WANTED = {"times": "MICROS", "calendar": "CORRECTED"}


class Session(dict):
    """A session's settings; ``fixed`` cannot be changed, ``hidden`` not be read."""

    fixed: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()

    def execute(self, statement):
        name, value = statement.removeprefix("set ").split(" = ")
        if name in self.fixed:
            raise EngineError(f"{name} is fixed")
        self[name] = value

    def listed(self):
        return {name: value for name, value in self.items() if name not in self.hidden}

    def default(self, name):
        return "LEGACY" if name in self.hidden else None

    def pinned(self):
        return pinned(id(self), WANTED, *by_statements(self.execute, self.listed, self.default))


SESSIONS = {
    "as wanted": {"times": "MICROS", "calendar": "CORRECTED"},
    "in other letters": {"times": "micros", "calendar": "corrected"},
    "one differs": {"times": "MILLIS", "calendar": "CORRECTED"},
    "all differ": {"times": "MILLIS", "calendar": "LEGACY", "other": "1"},
    "unknown there": {"other": "1"},
}


@pytest.mark.parametrize("before", SESSIONS.values(), ids=SESSIONS)
@pytest.mark.parametrize("fails", [False, True])
def test_settings_hold_inside_and_are_restored_afterwards(before, fails):
    session = Session(before)
    with ExitStack() as stack:
        if fails:
            stack.enter_context(pytest.raises(EngineError))
        with session.pinned():
            assert all(session[name].upper() == WANTED[name] for name in before if name in WANTED)
            if fails:
                raise EngineError("no memory")
    assert session == before


def test_they_hold_until_the_last_of_several_has_staged():
    session = Session(times="MILLIS")
    first, second = session.pinned(), session.pinned()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert session["times"] == "MICROS"
    second.__exit__(None, None, None)
    assert session["times"] == "MILLIS"


def test_users_of_other_settings_do_not_keep_them_from_being_set():
    """One thread explains a plan while another stages files."""
    session = Session(times="MILLIS", calendar="LEGACY", shown="25")
    explaining = pinned(
        id(session), {"shown": "1000"}, *by_statements(session.execute, session.listed, session.default)
    )
    with explaining:
        with session.pinned():
            assert session == {"times": "MICROS", "calendar": "CORRECTED", "shown": "1000"}
        assert session == {"times": "MILLIS", "calendar": "LEGACY", "shown": "1000"}
    assert session == {"times": "MILLIS", "calendar": "LEGACY", "shown": "25"}


def test_a_session_that_does_not_let_itself_be_set_is_refused_by_name():
    session = Session(times="MILLIS", calendar="LEGACY")
    session.fixed = ("calendar",)
    with (
        pytest.raises(
            SettingRefused, match="the session's calendar is LEGACY.*need CORRECTED.*calendar is fixed"
        ),
        session.pinned(),
    ):
        raise AssertionError
    assert session == {"times": "MILLIS", "calendar": "LEGACY"}


def test_a_setting_that_the_session_does_not_list_has_the_server_s_default():
    session = Session(times="MICROS")
    session.hidden = ("calendar",)
    with session.pinned():
        assert session == {"times": "MICROS", "calendar": "CORRECTED"}
    assert session["calendar"] == "LEGACY"
