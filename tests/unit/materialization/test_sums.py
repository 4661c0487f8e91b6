"""Whether a run keeps a model's sums."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.materialization.kept_sums import TIME, Keeper, OverSums, SumsOfOtherRefresh, in_use
from dbt.adapters.mvsink.reasons import Why
from dbt.adapters.mvsink.shard import CommitNote, ShardClient
from dbt.adapters.mvsink.sink import RunHistory, SumsPolicy, keeps_sums
from tests.support.session_engine import open_shard
from tests.support.shards import SCHEMA


def history(**seconds):
    """Runs of each mode, oldest first."""
    return RunHistory(
        tuple(CommitNote(mode=mode, seconds=each) for mode, listed in seconds.items() for each in listed)
    )


FULL = {"evaluated": [10.0]}
CASES = {
    "nothing is known": (SumsPolicy.AUTO, 0, {}, False),
    "incremental runs are quick": (SumsPolicy.AUTO, 0, {**FULL, "incremental": [1.0, 1.0]}, False),
    "one was quick": (SumsPolicy.AUTO, 0, {**FULL, "incremental": [9.0, 1.0]}, False),
    "incremental runs are slow": (SumsPolicy.AUTO, 0, {**FULL, "incremental": [9.0, 9.0]}, True),
    "sums are in use": (SumsPolicy.AUTO, 7, {**FULL, "sums": [1.0, 1.0]}, True),
    "sums are slow": (SumsPolicy.AUTO, 7, {**FULL, "incremental": [9.0, 9.0], "sums": [9.0, 9.0]}, False),
    "sums were slow": (SumsPolicy.AUTO, 0, {**FULL, "incremental": [9.0, 9.0], "sums": [9.0, 9.0]}, False),
    "always": (SumsPolicy.ALWAYS, 0, {**FULL, "sums": [9.0, 9.0]}, True),
    "never": (SumsPolicy.NEVER, 7, {**FULL, "incremental": [9.0, 9.0]}, False),
}


@pytest.mark.parametrize(("policy", "at", "seconds", "keeps"), CASES.values(), ids=CASES)
def test_sums_are_kept_where_incremental_runs_are_slow_without_them(policy, at, seconds, keeps):
    using = in_use({TIME: at}.get)
    assert using == bool(at)
    assert keeps_sums(policy, history(**seconds), in_use=using) is keeps


MANY, OTHER, QUICK = ("evaluated", Why.MANY_KEYS), ("evaluated", Why.REDEFINED), ("incremental", Why.UNSAID)


@pytest.mark.parametrize(
    ("runs", "keeps"),
    [
        ([MANY], False),
        ([MANY, MANY], True),
        ([QUICK, MANY, OTHER, MANY, OTHER], True),
        ([MANY, QUICK, MANY], False),
        ([MANY, MANY, QUICK], False),
    ],
)
def test_sums_are_kept_where_most_groups_change(runs, keeps):
    notes = [CommitNote(mode=mode, seconds=1.0, why=why.code) for mode, why in runs]
    compaction = CommitNote()
    assert keeps_sums(SumsPolicy.AUTO, RunHistory((*notes, compaction)), in_use=False) is keeps


def test_sums_of_earlier_queries_are_dropped(tmp_path):
    """Those of the query stay, and the files of the others for the grace period."""
    sums = {name: open_shard(str(tmp_path / "m" / "_sums" / name), SCHEMA) for name in ("old", "new")}
    with open_shard(str(tmp_path / "m"), SCHEMA) as handle:
        context = SimpleNamespace(client=ShardClient(), storage_options=None, model="m")
        opened = SimpleNamespace(context=context, handle=handle)
        Keeper(opened, None, None, None, verify=False).retire("new")
    assert {name: each.state().dropped is not None for name, each in sums.items()} == {
        "old": True,
        "new": False,
    }


def test_sums_are_not_read_for_another_refresh():
    with pytest.raises(
        SumsOfOtherRefresh,
        match="those of 1970-01-01T00:00:05Z, .* 1970-01-01T00:00:09Z due meanwhile; run it again",
    ):
        OverSums(None, None, 5000).read_at("select 1", 9000)
