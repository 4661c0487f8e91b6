"""When a run leaves a model because a later run superseded what it reads. Pure."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.engine import shard_columns
from dbt.adapters.mvsink.inputs.reference import Reference, References
from dbt.adapters.mvsink.materialization.response import log_line, response
from dbt.adapters.mvsink.references.consistency import (
    UNKNOWN,
    Ledger,
    Origins,
    newest_first,
    origins_after,
    origins_of,
    origins_read,
    own_origin,
    passed_over,
)
from dbt.adapters.mvsink.shard import Antichain, Commit, CommitNote, MemoryStorage, ShardClient, ShardState
from dbt.adapters.mvsink.shard_sql import Counts, Kind
from dbt.adapters.mvsink.shard_sql.properties import WATCHED
from dbt.adapters.mvsink.sink import Driver, Outcome, SinkRequest, Superseded
from tests.support.engines import NoEngine

T = 20
SCHEMA = pa.schema([("x", pa.string())])


def commit(lower, upper, through=None, version=0):
    """A commit that moved the upper; ``through``: the run's time, if not the contents'."""
    bounds = (None if bound is None else Antichain.of(bound) for bound in (lower, upper))
    note = CommitNote(computed_through=through if through is not None or upper is None else upper - 1)
    return Commit(version, 0, "append", *bounds, "", "", "", note)


def origins(*times, passed=(), broken=False):
    return Origins(frozenset(times), tuple(passed), broken)


MAINTENANCE = [commit(None, None), commit(31, 31)]
BY_30 = [("m", 30)]
OWN = {
    "written at T": ([commit(11, 21), commit(0, 11)], origins(T)),
    "written at T, and later": ([commit(21, 31), commit(11, 21)], origins(T)),
    "passed over by a later run": ([commit(11, 31), commit(0, 11)], origins(10, passed=BY_30)),
    "by one run, and then another": (
        [commit(31, 41), commit(11, 31), commit(0, 11)],
        origins(10, passed=BY_30),
    ),
    "with maintenance between": (
        [*MAINTENANCE, commit(11, 31), *MAINTENANCE[:1], commit(0, 11)],
        origins(10, passed=BY_30),
    ),
    "and the log no longer has what was before": ([commit(11, 31)], origins(UNKNOWN, passed=BY_30)),
    "in the middle of a schedule's period": ([commit(15, 60, through=17), commit(0, 15)], origins()),
    "in one that this very run refreshed": ([commit(15, 60, through=T), commit(0, 15)], origins()),
    "a refresh that a later run wrote": (
        [commit(15, 60, through=55), commit(0, 15, 4)],
        origins(4, passed=[("m", 55)]),
    ),
    "the log no longer has any of it": ([commit(41, 51), commit(31, 41)], origins()),
    "foreign commits alone": ([commit(None, None)], origins()),
}


@pytest.mark.parametrize(("commits", "wanted"), OWN.values(), ids=OWN)
def test_the_log_shows_which_run_wrote_the_contents_as_of_a_time(commits, wanted):
    assert own_origin("m", commits, T) == wanted


BEFORE, HERE, STALE = origins(10, passed=BY_30), origins(T), origins(10, T, passed=BY_30, broken=True)
LEFT = {
    "nothing, or nothing that this run or a later one wrote": ([origins()], None),
    "what this run wrote": ([HERE, HERE], None),
    "a superseded shard": ([BEFORE, BEFORE], None),
    "superseded shards of several times: views that are not refreshed together": (
        [BEFORE, origins(3, passed=BY_30)],
        None,
    ),
    "one of this run and a superseded one, which is not stale": ([HERE, BEFORE], None),
    "of this run and of a shard whose past is unknown": ([HERE, origins(UNKNOWN, passed=BY_30)], None),
    "a superseded shard that is stale": ([STALE], ("m",)),
    "stale, beside what this run wrote": ([HERE, STALE], ("m",)),
    "two superseded shards, one of them stale": (
        [STALE, HERE, origins(10, passed=[("n", 40)])],
        ("m", "n"),
    ),
}


@pytest.mark.parametrize(("read", "names"), LEFT.values(), ids=LEFT)
def test_a_model_is_left_if_it_reads_a_stale_shard(read, names):
    joined = origins()
    for one in read:
        joined |= one
    superseded = joined.superseded(T)
    assert (superseded and superseded.names) == names
    assert superseded is None or superseded.by == max(by for _, by in joined.passed)


NEW = origins(passed=BY_30, broken=True)
PASSED = {
    "written after all that it reads": (BEFORE, origins(10, passed=BY_30), False),
    "not since something that it reads": (BEFORE, origins(15, passed=BY_30), True),
    "what it reads is of this run": (BEFORE, HERE, True),
    "it reads a shard of unknown origin": (BEFORE, origins(UNKNOWN, passed=BY_30), False),
    "its own origin is unknown": (origins(UNKNOWN, passed=BY_30), origins(15, passed=BY_30), False),
    "it reads a stale shard": (BEFORE, replace(BEFORE, broken=True), True),
    "another run of the same time wrote it": (HERE, HERE, False),
    # row j: a later run's --full-refresh; it has no contents as of T, so no origins either
    "a later run began it, and it reads what this run wrote": (NEW, HERE, True),
    "a later run began it, and it reads nothing of ours": (NEW, origins(), True),
    "a later run began it and what it reads": (NEW, replace(NEW, passed=(("n", 30),)), True),
}


@pytest.mark.parametrize(("own", "read", "stale"), PASSED.values(), ids=PASSED)
def test_a_superseded_shard_is_stale_if_something_that_it_reads_was_written_since(own, read, stale):
    origins_now = passed_over(own, read)
    assert (origins_now.times, origins_now.broken) == (own.times | read.times, stale)


def state(upper, **more):
    return ShardState(3, UUID(int=1), SCHEMA, 7, Antichain.of(5), Antichain.of(upper), **more)


def no_log(newest):
    raise AssertionError("the log need not be read")


WITHOUT_LOG = {
    "not past T": (state(20), origins()),
    "at T": (state(21), HERE),
    "a task, whose effects are at times of their own": (state(31, properties={WATCHED: "{}"}), origins()),
    "begun by a later run": (state(31, creation=30), origins(passed=BY_30, broken=True)),
    "a task, begun by a later run": (
        state(31, creation=30, properties={WATCHED: "{}"}),
        origins(passed=BY_30, broken=True),
    ),
}


@pytest.mark.parametrize(("stored", "wanted"), WITHOUT_LOG.values(), ids=WITHOUT_LOG)
def test_the_log_is_read_only_where_the_upper_is_past_the_run(stored, wanted):
    assert origins_of("m", stored, no_log, T) == wanted


def test_what_the_invocation_remembers_takes_precedence_over_the_log():
    def reference(name, history):
        return Reference(name, f"/{name}", state(31), None, history=history)

    known = Ledger({"/left": STALE})
    assert origins_read([reference("left", no_log)], T, known) == STALE
    both = [reference("left", no_log), reference("m", lambda newest: [commit(0, 4), commit(4, 31)])]
    assert origins_read(both, T, known) == STALE | origins(3, passed=BY_30)


def test_row_j_what_the_invocation_remembers_of_a_shard_ends_with_a_later_full_refresh():
    known = Ledger({"/m": HERE})
    replaced = Reference("m", "/m", state(31, creation=30), None, history=no_log)
    assert origins_read([replaced], T, known) == NEW


def outcome(kind=Kind.APPEND, upper=21, **more):
    bounds = Antichain.of(11), Antichain.of(upper)
    return Outcome(kind, Counts(), *bounds, T, state(upper), **more)


AFTER = {
    "written, reading nothing of ours": (outcome(), origins(), HERE),
    "written from what this run wrote": (outcome(), HERE, HERE),
    "written from a superseded shard: it has its origins": (outcome(), BEFORE, BEFORE),
    "left": (outcome(Kind.NONE, 11, up_to_date=True, superseded=Superseded(("m",), 30)), STALE, STALE),
    "superseded itself": (
        outcome(Kind.NONE, 31, up_to_date=True),
        HERE,
        origins(10, T, passed=[("q", 30)], broken=True),
    ),
}


@pytest.mark.parametrize(("done", "read", "wanted"), AFTER.values(), ids=AFTER)
def test_the_origins_that_are_remembered_of_a_model(done, read, wanted):
    assert origins_after("q", done, lambda newest: [commit(0, 11), commit(11, 31)], read, T) == wanted


@pytest.mark.parametrize("many", [0, 1, 7, 8, 9, 31, 32, 200])
def test_the_log_is_read_newest_first_a_few_at_a_time(many):
    commits = [commit(0, 1, version=version) for version in range(many)]
    asked = []

    def history(newest):
        asked.append(newest)
        return commits[max(0, many - newest) :]

    newest = newest_first(history)
    if many:
        assert next(newest).version == many - 1 and asked == [8]
        assert [one.version for one in newest] == list(reversed(range(many - 1)))
    else:
        assert list(newest) == []


def opened():
    storage = MemoryStorage()
    return ShardClient(locate=lambda uri: storage).open_writer("m", SCHEMA)


DUE = {
    "as it is": ({}, False),
    "with --full-refresh": ({"full_refresh": True}, False),
    "of another definition": ({"redefined": True}, False),
    "not there yet": ({}, True),
    "not there yet, with --full-refresh": ({"full_refresh": True}, True),
}


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(("more", "new"), DUE.values(), ids=DUE)
def test_a_model_that_is_left_is_not_changed(more, new, read_only):
    with opened() as handle:
        if not new:
            handle.compare_and_append(
                [], Antichain.of(0), Antichain.of(11), since=Antichain.of(10), creation=10
            )
        before = handle.state()
        superseded = Superseded(("total",), 30)
        request = SinkRequest(
            "m",
            "",
            shard_columns(SCHEMA),
            T,
            T,
            1000,
            References(),
            superseded=superseded,
            read_only=read_only,
            **more,
        )
        done = Driver(request, handle, NoEngine()).run()
        assert handle.state() == before
    assert (done.kind, done.superseded) == (Kind.READ_ONLY if read_only else Kind.NONE, superseded)


def test_a_shard_past_the_run_is_up_to_date_not_superseded():
    with opened() as handle:
        handle.compare_and_append([], Antichain.of(0), Antichain.of(31), since=Antichain.of(10), creation=10)
        request = SinkRequest(
            "m", "", shard_columns(SCHEMA), T, T, 1000, References(), superseded=Superseded(("total",), 30)
        )
        done = Driver(request, handle, NoEngine()).run()
    assert done.up_to_date and done.superseded is None


def test_the_line_names_the_later_run_and_what_happens_next():
    done = outcome(
        Kind.NONE, 11, up_to_date=True, superseded=Superseded(("`dev`.`total`",), 1_795_168_800_000)
    )
    words = (
        "superseded: total was written by a later run (as of 2026-11-20T10:00:00Z), which passed over this run's time; "
        "left to the next run"
    )
    assert log_line(done) == words
    assert log_line(replace(done, kind=Kind.READ_ONLY)) == f"read-only: {words}"
    assert log_line(replace(done, state=state(5))) == f"not refreshed yet; {words}"
    reported = response(replace(done, superseded=Superseded(("dev.total", "dev.by_key"), 40)))
    assert reported.overtaken == "total, by_key" and "total, by_key were written" in str(reported)
    assert (reported.code, reported.rows_affected, reported.references) == ("none", 0, {})
    assert response(outcome()).overtaken == ""
