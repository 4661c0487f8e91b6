"""What a shard keeps of a schedule, what a changed definition does under one
(docs/design/dbt.md), and what its view says before the first refresh.
"""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from uuid import UUID

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.exceptions import ConfigurationChanged
from dbt.adapters.mvsink.materialization.definition import Definition
from dbt.adapters.mvsink.materialization.publish import Docs, WantedView
from dbt.adapters.mvsink.refresh_schedule import RefreshEvery, RefreshSchedule, RefreshSpec
from dbt.adapters.mvsink.shard import Antichain, ShardState
from dbt.adapters.mvsink.shard_sql.properties import DEFINITION, stored_schedule
from dbt.adapters.mvsink.shard_sql.published_view import fingerprint
from dbt.adapters.mvsink.sink import RunPlan
from dbt.adapters.mvsink.user_sql.marks import query_at

T, HOUR = 1_795_186_800_000, 3_600_000  # 2026-11-20T15:00:00Z
HOURLY, COMMIT = RefreshSpec(((HOUR, None),)), RefreshSpec()
OLD = Definition("p", "model.p.m", "dev", "select 1", "true", {}, refresh=HOURLY)
NEW = replace(OLD, query="select 2")
BARE = ShardState(3, UUID(int=1), pa.schema([("a", pa.int32())]), 7)


def shard(definition=OLD, upper=T + HOUR, since=T):
    frontier = Antichain.empty() if upper is None else Antichain.of(upper)
    return replace(
        BARE, since=Antichain.of(since), upper=frontier, creation=T, properties=definition.properties()
    )


WAITS, DUE, ENDED = (
    RunPlan(T, None, Antichain.of(T + HOUR)),
    RunPlan(T, T, Antichain.of(T + HOUR)),
    RunPlan(T, None, Antichain.empty()),
)
CONTINUE = {
    "before the next refresh": (NEW, WAITS, "query changed; takes effect at 2026-11-20T16:00:00Z"),
    "a refresh is due": (NEW, DUE, "query changed; takes effect at this run"),
    "finished": (NEW, ENDED, "query changed; takes effect with --full-refresh"),
    "the schedule": (
        replace(OLD, refresh=COMMIT),
        WAITS,
        "refresh changed; takes effect at 2026-11-20T16:00:00Z",
    ),
    "both": (
        replace(NEW, refresh=COMMIT),
        WAITS,
        "query and refresh changed; takes effect at 2026-11-20T16:00:00Z",
    ),
    "nothing": (OLD, WAITS, ""),
}


@pytest.mark.parametrize(("definition", "plan", "warning"), CONTINUE.values(), ids=CONTINUE)
def test_continue_warns_when_it_takes_effect(definition, plan, warning):
    assert definition.check_changes("dev.m", "continue", shard(), plan) == warning
    assert definition.check_changes("dev.m", "apply", shard(), plan) == ""
    assert not definition.replaces("continue", shard())


@pytest.mark.parametrize(("definition", "named"), [(NEW, "query"), (replace(OLD, refresh=COMMIT), "refresh")])
def test_fail_names_what_changed(definition, named):
    with pytest.raises(ConfigurationChanged, match=f"dev.m: its {named} differs"):
        definition.check_changes("dev.m", "fail", shard(), WAITS)


REPLACES = {  # definition, shard: is a new generation made as of T
    "a scheduled view's query": (NEW, shard(), True),
    "a scheduled view's ANSI mode": (replace(OLD, ansi="false"), shard(), True),
    "nothing changed": (OLD, shard(), False),
    "a schedule alone counts from the upper": (
        replace(OLD, refresh=RefreshSpec(((60_000, 0),))),
        shard(),
        False,
    ),
    "an on_commit view corrects as usual": (
        replace(NEW, refresh=COMMIT),
        shard(replace(OLD, refresh=COMMIT)),
        False,
    ),
    "it was scheduled": (replace(NEW, refresh=COMMIT), shard(), True),
    "it becomes scheduled": (NEW, shard(replace(OLD, refresh=COMMIT)), True),
    "a finished one": (replace(NEW, refresh=COMMIT), shard(replace(OLD, refresh=COMMIT), upper=None), True),
    "a shard that keeps no definition": (NEW, BARE, False),
}


@pytest.mark.parametrize(("definition", "state", "expected"), REPLACES.values(), ids=REPLACES)
def test_a_changed_query_makes_a_new_generation_where_a_schedule_would_have_it_wait(
    definition, state, expected
):
    assert definition.replaces("apply", state) is expected


def test_until_a_changed_query_takes_effect_the_shard_keeps_the_old_one_with_the_new_schedule():
    changed = replace(NEW, refresh=RefreshSpec(ats=(T,)))
    kept = json.loads(changed.properties_before_effect(shard())[DEFINITION])
    assert kept == {
        "sql": "select 1",
        "ansi": "true",
        "refresh": {"every": [], "at": [T], "at_creation": False},
    }
    # it has no contents yet
    assert changed.properties_before_effect(shard(upper=T)) == changed.properties()


KEPT = {
    "a schedule, counted from the creation": (shard(), RefreshSchedule((RefreshEvery(HOUR, T),))),
    "on_commit": (shard(replace(OLD, refresh=COMMIT)), None),
    "a shard that keeps no definition": (BARE, None),
    "of a release without schedules": (
        replace(BARE, properties={DEFINITION: '{"sql": "select 1", "ansi": "true"}'}),
        None,
    ),
}


@pytest.mark.parametrize(("state", "schedule"), KEPT.values(), ids=KEPT)
def test_the_stored_schedule(state, schedule):
    assert stored_schedule(state) == schedule


VIEWS = {
    "waiting": (shard(upper=T, since=T), "'not refreshed yet; first refresh at 2026-11-20T15:00:00Z'"),
    "without a schedule": (shard(replace(OLD, refresh=COMMIT), upper=T, since=T), "'not refreshed yet'"),
    "only created": (replace(BARE, properties=OLD.properties()), "'not refreshed yet'"),
}


@pytest.mark.parametrize(("state", "message"), VIEWS.values(), ids=VIEWS)
def test_the_view_of_a_shard_without_contents_says_when_it_will_have_some(state, message):
    handle = SimpleNamespace(uri="/s", files_in=None, column_names=None)
    text = WantedView("`s`.`m`", handle, state, None, Docs(), ()).replacing()
    assert f"select min({message}) m" in text
    moved = replace(state, upper=Antichain.of(T + HOUR), since=Antichain.of(T + HOUR))
    # then it is to be published again
    assert (fingerprint(moved) != fingerprint(state)) is (stored_schedule(state) is not None)


def test_mv_now_in_a_query_becomes_the_write_time():
    query = (
        f"select timestamp_millis({T}L) /* mv_now */ a, timestamp_millis({T}L) b, 'timestamp_millis(1L)' c"
    )
    assert (
        query_at(query, 5)
        == f"select timestamp_millis(5L) /* mv_now */ a, timestamp_millis({T}L) b, 'timestamp_millis(1L)' c"
    )
