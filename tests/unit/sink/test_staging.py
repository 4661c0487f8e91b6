"""When a run tries to compute its correction from the changes of its inputs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.shard_sql import Counts
from dbt.adapters.mvsink.sink import Full, Incremental
from dbt.adapters.mvsink.sink.errors import NotIncremental
from dbt.adapters.mvsink.sink.staging import Staging
from dbt.adapters.mvsink.sink.write import Written


def staging(reason: Full, *, verify: bool = False) -> Staging:
    evidence = SimpleNamespace(
        increment=lambda state, recorded, time: reason, settled=lambda state, recorded, time: False
    )
    request = SimpleNamespace(model="dev.m", verify=verify, incremental=Incremental.ALWAYS, evidence=evidence)
    write = SimpleNamespace(model="dev.m", stage=lambda *arguments: Written(None, Counts()))
    return Staging(request, write, None, None)


def test_always_fails_with_the_reason_and_what_else_is_allowed():
    wanted = "`incremental` is always, but this run cannot be: raw.t changed. Nothing was written; with auto the query would be evaluated in full"
    with pytest.raises(NotIncremental, match=wanted):
        staging(Full("raw.t changed")).stage(None, None, SimpleNamespace(empty=False), 1, None)


def test_always_evaluates_what_a_new_definition_asks_for():
    reason = Full("its query changed", expected=True)
    written = staging(reason).stage(None, None, SimpleNamespace(empty=False), 1, None)
    assert (written.incremental, written.reason) == (False, "its query changed")


def test_a_verification_says_why_it_cannot_tell_drift_from_a_change():
    shard = SimpleNamespace(empty=False, rows=1)
    written = staging(Full("another tool wrote to its shard"), verify=True).stage(None, None, shard, 1, None)
    assert (written.incremental, written.reason) == (False, "another tool wrote to its shard")
