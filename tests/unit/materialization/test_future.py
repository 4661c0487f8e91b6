"""A run's time beside the clock of its storage."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.materialization import future
from dbt.adapters.mvsink.materialization.context import Invocation, RunContext
from dbt.adapters.mvsink.materialization.options.table import ModelOptions
from dbt.adapters.mvsink.materialization.run import prepare
from dbt.adapters.mvsink.shard import ShardClient

HOUR, DAY = 3_600_000, 24 * 3_600_000
NOW = int(time.time() * 1000)


@pytest.fixture
def warnings(monkeypatch):
    warned: list[str] = []
    monkeypatch.setattr(future, "warn", warned.append)
    yield warned
    wall_clock.install(None)


def context(root, ahead, **options):
    name = f"{root}{ahead}{options}"  # an invocation asks for the clock once
    return RunContext(
        model="s.m",
        relation=SimpleNamespace(schema="s", identifier="m"),
        node={"config": {}},
        query="select 1 as a",
        options=ModelOptions.parse("s.m", {}),
        invocation=Invocation(name, NOW + ahead, "dev", "shop", **options),
        published=None,
        engine=SimpleNamespace(),
        session=None,
        manifest=None,
        shard_root=str(root),
        client=ShardClient(),
    )


@pytest.mark.parametrize("ahead", [2 * DAY, 40 * DAY])
def test_row_m_a_run_over_a_day_ahead_is_an_error_before_anything_is_made(tmp_path, warnings, ahead):
    with pytest.raises(future.FutureRun, match="(?s)s.m: .*over a day ahead.*mvsink_future: true"):
        prepare(context(tmp_path, ahead), SimpleNamespace(warnings=lambda context: ()))
    assert os.listdir(tmp_path) == [] and warnings == []


@pytest.mark.parametrize(
    ("ahead", "options", "warned"),
    [
        (40 * DAY, {"future": True}, True),
        (40 * DAY, {"read_only": True}, False),
        (40 * DAY, {"explain": True}, False),
        (2 * HOUR, {}, True),
        (0, {}, False),
        (-1000 * DAY, {}, False),
    ],
)
def test_row_m_what_is_let_through(tmp_path, warnings, ahead, options, warned):
    future.check_time(context(tmp_path, ahead, **options))
    assert bool(warnings) == warned and all("ahead of the clock" in each for each in warnings)
    assert os.listdir(tmp_path) == []


def test_row_m_the_clock_is_the_storage_s_not_that_of_a_machine_which_is_ahead(tmp_path, warnings):
    wall_clock.install(lambda: NOW + 40 * DAY)
    with pytest.raises(future.FutureRun):
        future.check_time(context(tmp_path, 40 * DAY))


def test_row_m_a_machine_behind_does_not_hinder_a_run_of_today(tmp_path, warnings):
    wall_clock.install(lambda: NOW - 40 * DAY)
    future.check_time(context(tmp_path, 0, empty=True))
    assert warnings == []


def test_row_m_where_the_storage_cannot_be_written_this_machine_s_clock_counts(tmp_path, warnings):
    (tmp_path / "file").write_text("")
    with pytest.raises(future.FutureRun):
        future.check_time(context(tmp_path / "file", 2 * DAY))
