"""docs/design/sink.md, *append*: its three cases and its fault points, and what can be seen of
them (docs/design/overview.md). On Spark.
"""

from __future__ import annotations

import logging

import pytest
from deltalake import DeltaTable

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.shard import InvalidUsage, ShardClient
from dbt.adapters.mvsink.shard_sql import Kind
from dbt.adapters.mvsink.sink import Driver
from tests.support.session_engine import T0, Model

ONE = "select cast(x as string) x from values ('a'), ('b') as t(x)"
TWO = "select cast(x as string) x from values ('b'), ('b'), ('c') as t(x)"
ROWS = {ONE: [("a",), ("b",)], TWO: [("b",), ("b",), ("c",)]}


@pytest.fixture
def model(session, tmp_path):
    return Model(session, tmp_path)


@pytest.fixture
def at_point():
    """``at_point(name, act)``: have ``act`` called once, the first time the point is reached."""

    def install(point, act):
        def hook(reached):
            if reached == point:
                failpoints.install(None)
                act()

        failpoints.install(hook)

    yield install
    failpoints.install(None)


class Killed(Exception):
    """As if the process had died here."""


def die():
    raise Killed


def state(model):
    with model.open(ONE) as handle:
        return handle.state()


def staged(model):
    """The data files that exist, without those that compaction dropped, which are kept."""
    with model.open(ONE) as handle:
        stored = {file.path for file in handle.storage.list_files("table") if file.path.endswith(".parquet")}
        return stored - set(handle.storage.removals().times)


def test_a_new_shard_is_first_raised_to_its_as_of_and_its_since_comes_along(model):
    model.run(ONE, time=T0)
    with model.open(ONE) as handle:
        commits = [(c.kind, c.upper and c.upper.as_option()) for c in handle.history()]
    assert commits == [("create", None), ("advance", T0), ("append", T0 + 1)]
    raised = DeltaTable(model.uri, version=1)
    assert (raised.transaction_version("mvsink.upper"), raised.transaction_version("mvsink.since")) == (
        T0,
        T0,
    )
    with ShardClient().open_reader(model.uri) as reader, pytest.raises(InvalidUsage):
        reader.snapshot(T0 - 1)


# when the other run, of `query`, finishes between our staging and our commit: what ours reports and
# leaves
OTHERS = {
    "of the same time": (1000, TWO, {"up_to_date": True}, TWO),
    "of a later time": (5000, ONE, {"up_to_date": True}, ONE),
    "of an earlier time, with the same contents": (500, TWO, {"kind": Kind.NONE, "up_to_date": False}, TWO),
    "of an earlier time, with other contents": (500, ONE, {"kind": Kind.APPEND, "up_to_date": False}, TWO),
}


@pytest.mark.parametrize(("offset", "query", "fields", "left"), OTHERS.values(), ids=OTHERS)
def test_another_writer_was_faster(model, at_point, offset, query, fields, left):
    model.run("select 'z' as x", time=T0)
    at_point("staged", lambda: model.run(query, time=T0 + offset))
    outcome = model.run(TWO, time=T0 + 1000)
    assert {name: getattr(outcome, name) for name in fields} == fields
    assert outcome.mismatches == 1
    assert model.rows() == ROWS[left]
    assert staged(model) == {file.path for file in state(model).files}  # ours were deleted


def test_another_writer_raised_a_new_shard_and_loaded_it(model, at_point):
    at_point("upper raised", lambda: model.run(ONE, time=T0 + 500))
    outcome = model.run(TWO, time=T0)
    assert outcome.up_to_date and model.rows() == ROWS[ONE]
    assert model.run(TWO, time=T0 + 1000).kind is Kind.APPEND
    assert model.rows() == ROWS[TWO]


def test_the_new_upper_is_the_next_lower(model):
    outcomes = [model.run(query, time=T0 + t) for query, t in ((ONE, 0), (TWO, 10), (TWO, 20), (ONE, 30))]
    bounds = [(o.lower.as_option() - T0, o.upper.as_option() - T0) for o in outcomes]
    assert bounds == [(0, 1), (1, 11), (11, 21), (21, 31)]


POINTS = {
    "upper raised": ("new", T0, False),
    "staged": ("held", T0 + 1, False),
    "appended": ("held", T0 + 1001, True),
}


@pytest.mark.parametrize("point", POINTS)
def test_a_run_that_dies_at(model, at_point, point):
    """The shard is as before or as after, and the next run ends right."""
    shard, upper, happened = POINTS[point]
    if shard == "held":
        model.run(ONE, time=T0)
    at_point(point, die)
    with pytest.raises(Killed):
        model.run(TWO, time=T0 + (1000 if shard == "held" else 0))
    left = state(model)
    assert left.upper.as_option() == upper
    assert model.rows() == (ROWS[TWO if happened else ONE] if shard == "held" else [])
    outcome = model.run(TWO, time=T0 + 2000)
    assert outcome.counts.nothing is happened and model.rows() == ROWS[TWO]
    assert staged(model) == {file.path for file in state(model).files}


def test_a_shard_that_died_before_its_first_contents_never_reads_as_an_empty_collection(model, at_point):
    at_point("upper raised", die)
    with pytest.raises(Killed):
        model.run(ONE, time=T0)
    model.run(ONE, time=T0 + 1000)
    with ShardClient().open_reader(model.uri) as reader:
        assert reader.snapshot(T0 + 1000).num_rows == 2
        with pytest.raises(InvalidUsage):
            reader.snapshot(T0)


SINCE = {  # retain_history, times of the runs, and since at the end, all after T0
    "trails by retain_history": (300, [0, 1000], 701),
    "never before the as-of": (5000, [0, 1000], 0),
    "never past the newest write time": (1, [0, 1000], 1000),
    "never back": (300, [0, 1000, 1100], 801),
}


@pytest.mark.parametrize(("retain", "times", "since"), SINCE.values(), ids=SINCE)
def test_since(model, retain, times, since):
    for n, time in enumerate(times):
        model.run([ONE, TWO][n % 2], time=T0 + time, retain_history=retain)
    assert state(model).since.as_option() - T0 == since
    with ShardClient().open_reader(model.uri) as reader:
        assert reader.snapshot(T0 + times[-1]).num_rows == 2  # readable at its newest time


def test_a_longer_retain_history_does_not_bring_history_back(model):
    model.run(ONE, time=T0)
    model.run(TWO, time=T0 + 1000, retain_history=1)
    model.run(ONE, time=T0 + 1001, retain_history=10_000)
    assert state(model).since.as_option() == T0 + 1000


def test_a_finished_shard_is_final(model):
    model.run(ONE, time=T0)
    from dbt.adapters.mvsink.shard import Antichain

    with model.open(ONE) as handle:
        handle.compare_and_append_batch([], handle.upper, Antichain.empty())
    outcome = model.run(TWO, time=T0 + 1000)
    assert outcome.kind is Kind.FINAL and outcome.upper.is_empty() and model.rows() == ROWS[ONE]
    model.run(TWO, time=T0 + 2000, full_refresh=True)
    assert model.rows() == ROWS[TWO]


LINES = {
    "minted": "minted [Antichain({0}), Antichain({1}))",
    "wrote": "wrote 2 updates",
    "appended": "appended [Antichain({0}), Antichain({1}))",
    "advanced lower": "advanced lower to Antichain({0})",
}


@pytest.mark.parametrize("line", LINES)
def test_a_first_run_logs_at_debug(model, caplog, line):
    with caplog.at_level(logging.DEBUG, "mvsink.sink"):
        model.run(ONE, time=T0)
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("mvsink.sink.")]
    assert any(text.startswith("dev.m: ") and LINES[line].format(T0, T0 + 1) in text for text in messages)


def test_later_runs_tell_at_debug_what_they_skip(model, at_point, caplog):
    with caplog.at_level(logging.DEBUG, "mvsink.sink"):
        model.run(ONE, time=T0)
        model.run(ONE, time=T0 + 10)
        at_point("staged", lambda: model.run(TWO, time=T0 + 20))
        model.run(TWO, time=T0 + 15)
    messages = "\n".join(record.getMessage() for record in caplog.records)
    assert f"skipping empty [Antichain({T0 + 1}), Antichain({T0 + 11}))" in messages
    assert (
        f"skipping outdated [Antichain({T0 + 11}), Antichain({T0 + 16})): lower mismatch, upper is Antichain({T0 + 21})"
        in messages
    )


def test_the_commit_records_its_run_and_purpose(model):
    model.run(ONE, time=T0)
    model.run(TWO, time=T0 + 10, invocation_id="abc")
    with model.open(ONE) as handle:
        newest = [commit for commit in handle.history() if commit.kind == "append"][-1]
    note = newest.note
    assert (note.rows_inserted, note.rows_deleted, note.computed_through) == (2, 1, T0 + 10)
    assert (note.purpose, note.invocation_id) == ("mv_sink(dev.m)", "abc")


def test_a_handle_is_what_the_driver_reads_the_persist_frontier_from(model):
    """A reader starts at `since`; the frontier is the upper, however old the handle is."""
    model.run(ONE, time=T0)
    stale = model.open(ONE)
    model.run(TWO, time=T0 + 1000)
    with stale:
        outcome = Driver(model.request(ONE, time=T0 + 2000), stale, model.engine()).run()
    assert outcome.lower.as_option() == T0 + 1001 and outcome.mismatches == 0
