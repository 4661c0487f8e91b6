"""What `dbt init` says at its end; tests/smoke/test_installed.py runs it, and the model."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.adapter import first_model


@pytest.mark.parametrize(("command", "listens"), [("init", True), ("run", False), ("", False)])
def test_row_p_dbt_init_alone_shows_a_first_model(monkeypatch, command, listens):
    added = []
    monkeypatch.setattr(first_model, "add_callback_to_manager", added.append)
    monkeypatch.setattr(first_model, "command_of_dbt", lambda: command)
    first_model.show_first_model()
    assert added == ([first_model.notice] if listens else [])


def test_row_p_once_the_profile_is_written(capsys):
    for name in ("ProjectCreated", "ProfileWrittenWithTargetTemplateYAML", "CommandCompleted"):
        first_model.notice(SimpleNamespace(info=SimpleNamespace(name=name)))
    shown = capsys.readouterr().out
    assert shown.count(first_model.PATH) == 1 and "materialized='self_correcting_mv'" in shown
