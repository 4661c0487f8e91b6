"""Points in time as users write them: which time each is, and what is refused in which words."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from dbt.adapters.mvsink.history import points
from dbt.adapters.mvsink.history.points import (
    AmbiguousRun,
    EarlierGeneration,
    NotAPoint,
    OutsideHistory,
    TooFarBack,
)
from dbt.adapters.mvsink.shard import (
    Antichain,
    Commit,
    CommitNote,
    DataFile,
    MemoryStorage,
    PastGeneration,
    ShardClient,
)
from dbt.adapters.mvsink.shard.state import ShardState
from dbt.adapters.mvsink.shard_sql import NotRefreshed
from tests.support.shards import SCHEMA, at, updates

T = 1_763_640_000_000  # 2025-11-20T12:00:00Z
HOUR = 3_600_000
FIRST, SECOND, THIRD, FOURTH = "aaaa1111-0", "aaaa2222-0", "bbbb3333-0", "cccc4444-0"


def commit(version, kind, lower, upper, run="", generation=None, through=None):
    bounds = (None if time is None else Antichain.of(time) for time in (lower, upper))
    note = CommitNote(invocation_id=run, computed_through=through)
    return Commit(version, T + version, kind, *bounds, "", "", "", note, generation)


COMMITS = (
    commit(0, "create", None, None),
    commit(1, "advance", 0, T, "", None, T),  # raised to its as-of
    commit(2, "append", T, T + 1, FIRST, None, T),
    commit(3, "append", T + 1, T + HOUR + 1, SECOND, None, T + HOUR),
    commit(4, "compact", None, None, THIRD),
    commit(5, "advance", T + HOUR + 1, T + 2 * HOUR + 1, THIRD, None, T + 2 * HOUR),
    commit(6, "WRITE", None, None),
    commit(7, "append", T + 2 * HOUR + 1, T + 3 * HOUR + 1, FOURTH, None, T + 3 * HOUR),
)


def shard(since=T, upper=T + 3 * HOUR + 1, **others):
    frontier = Antichain.empty() if upper is None else Antichain.of(upper)
    return ShardState(7, UUID(int=1), SCHEMA, 7, Antichain.of(since), frontier, **others)


POINTS = {
    "the newest time": ("latest", T + 3 * HOUR, FOURTH),
    "in any case": ("LATEST", T + 3 * HOUR, FOURTH),
    "before the newest run that changed contents": ("-1", T + 2 * HOUR, THIRD),
    "a run without changes does not count": ("-2", T, FIRST),
    "ISO 8601": ("2025-11-20T13:30:00Z", T + 3 * HOUR // 2, None),
    "ISO 8601 in another zone": ("2025-11-20 15:00+02:00", T + HOUR, None),
    "ISO 8601 without a zone is UTC": ("2025-11-20 13:00", T + HOUR, None),
    "milliseconds": (str(T + 5), T + 5, None),
    "spaces around it": (f" {T} ", T, None),
    "an invocation id": (SECOND, T + HOUR, SECOND),
    "a unique beginning": ("aaaa2", T + HOUR, SECOND),
    "four characters in capitals": ("CCCC", T + 3 * HOUR, FOURTH),
    "a run that changed nothing": ("bbbb", T + 2 * HOUR, THIRD),
    "the first": ("aaaa1", T, FIRST),
}


@pytest.mark.parametrize(("text", "time", "run"), POINTS.values(), ids=POINTS)
def test_the_time_of_a_point(text, time, run):
    point = points.resolve(text, shard(), COMMITS, "orders")
    assert (point.time, point.run.invocation_id if point.run else None) == (time, run)
    assert point.text == text.strip()


REFUSED = {
    "before the first contents": ("-3", OutsideHistory, r"'-3' is the contents before run aaaa1111-0 \("),
    "further than the log": ("-4", TooFarBack, "it has 3 runs of this generation that changed contents"),
    "no number of runs": ("-0", NotAPoint, r"Got: '-0'"),
    "a word": ("yesterday", NotAPoint, r"Expected: `latest`, `-1` .* or its first 4 or more characters"),
    "nothing": ("", NotAPoint, "Got: ''"),
    "too short": ("ccc", NotAPoint, "Got: 'ccc'"),
    "an unknown id": (
        "dddd",
        NotAPoint,
        r"the newest runs in its log: cccc4444-0 \(2025-11-20T15:00:00Z\), bbbb",
    ),
    "two ids": ("aaaa", AmbiguousRun, r"2 runs begin with 'aaaa': aaaa2222-0 \(.*\), aaaa1111-0 \("),
    "a number below the least time": ("1234567", NotAPoint, "Got: '1234567'"),
    "too early": (
        "2025-11-20 11:00",
        OutsideHistory,
        rf"the readable times are \[2025-11-20T12:00:00Z \({T}\), 2025-11-20T15:00:00.001Z \({T + 3 * HOUR + 1}\)\)"
        r"\. `retain_history` \(1 day by default\) keeps more",
    ),
    "too late": (str(T + 3 * HOUR + 1), OutsideHistory, r"\)\. No run has written contents for that time"),
}


@pytest.mark.parametrize(("text", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(text, error, words):
    with pytest.raises(error, match=words) as refused:
        points.resolve(text, shard(), COMMITS, "orders")
    assert str(refused.value).startswith("orders: ")


@pytest.mark.parametrize("text", [SECOND, "-1"])
def test_a_run_older_than_since_is_said_to_be(text):
    with pytest.raises(
        OutsideHistory, match=r"run (aaaa2222|cccc4444)-0 .*cannot be read: the readable times are \["
    ):
        points.resolve(text, shard(since=T + 3 * HOUR), COMMITS, "orders")


def test_a_generation_is_a_wall():
    replaced = commit(8, "append", T + 4 * HOUR, T + 4 * HOUR + 1, "eeee5555-0", 1, T + 4 * HOUR)
    state = shard(T + 4 * HOUR, T + 4 * HOUR + 1, generation=1)
    commits = (*COMMITS, replaced)
    assert points.resolve("eeee", state, commits, "orders").time == T + 4 * HOUR
    with pytest.raises(EarlierGeneration, match=r"run cccc4444-0 .*Generation 1 replaced all contents at"):
        points.resolve("cccc", state, commits, "orders")
    with pytest.raises(TooFarBack, match="it has 1 run of this generation"):
        points.resolve("-2", state, commits, "orders")
    for text in ("-1", "2025-11-20 13:00"):
        with pytest.raises(OutsideHistory, match="Generation 1 replaced all contents at .* is gone$"):
            points.resolve(text, state, commits, "orders")
    later = replace(state, since=Antichain.of(T + 5 * HOUR), upper=Antichain.of(T + 5 * HOUR + 1))
    with pytest.raises(OutsideHistory, match=r"\. `retain_history` \(1 day by default\) keeps more"):
        points.resolve(str(T + 4 * HOUR), later, commits, "orders")
    with pytest.raises(OutsideHistory, match="No run has written contents for that time yet$"):
        points.resolve(str(T + 9 * HOUR), state, commits, "orders")


def test_one_invocation_in_two_generations_is_the_newer_one():
    again = commit(8, "append", T + 4 * HOUR, T + 4 * HOUR + 1, FOURTH, 1, T + 4 * HOUR)
    run = points.find_run("cccc", shard(generation=1), (*COMMITS, again), "orders")
    assert [each.version for each in run.commits] == [8] and run.current


def test_a_run_of_a_generation_that_is_kept_is_read_there_even_if_its_upper_is_later():
    """A scheduled view's: it was final until tomorrow, and was redefined today."""
    commits = (
        commit(0, "create", None, None),
        commit(1, "append", T, T + 24 * HOUR, FIRST, None, T),
        commit(2, "append", T + 4 * HOUR, T + 24 * HOUR, SECOND, 1, T + 4 * HOUR),
    )
    before = replace(shard(T, T + 24 * HOUR), version=1)
    state = shard(T + 4 * HOUR, T + 24 * HOUR, generation=1)
    kept = (PastGeneration(before, T + 4 * HOUR),)
    read = {text: points.resolve(text, state, commits, "m", kept) for text in (FIRST, "-1", SECOND, str(T))}
    assert [read[text].earlier for text in read] == [before, before, None, before]
    assert read[FIRST].time == T + 24 * HOUR - 1 and read[SECOND].time == T + 24 * HOUR - 1
    with pytest.raises(EarlierGeneration):
        points.resolve(FIRST, state, commits, "m")


def test_an_invocation_that_wrote_two_generations_is_two_runs():
    commits = (
        commit(0, "create", None, None),
        commit(1, "append", T, T + 1, FIRST, None, T),
        commit(2, "append", T + 5, T + 6, FIRST, 1, T + 5),
    )
    kept = (PastGeneration(replace(shard(T, T + 1), version=1), T + 5),)
    for each, current in (((), [False, True]), (kept, [True, True])):
        assert [run.current for run in points.runs_of(commits, each)] == current


def test_a_run_of_several_commits_is_one():
    last = commit(8, "append", T + 3 * HOUR + 1, T + 4 * HOUR, FOURTH, None, T + 4 * HOUR)
    state = shard(upper=T + 4 * HOUR)
    assert points.resolve("cccc", state, (*COMMITS, last), "orders").time == T + 4 * HOUR - 1
    assert points.resolve("-1", state, (*COMMITS, last), "orders").time == T + 2 * HOUR


def test_a_scheduled_run_is_read_before_the_upper_that_it_left():
    ahead = commit(8, "append", T + 3 * HOUR + 1, T + 9 * HOUR, "dddd0000-0", None, T + 4 * HOUR)
    point = points.resolve("dddd", shard(upper=T + 9 * HOUR), (*COMMITS, ahead), "orders")
    assert (point.time, point.run.computed_through) == (T + 9 * HOUR - 1, T + 4 * HOUR)


FINAL = {
    "the last update's time": ((DataFile("a", 1, max_time=T + 5), DataFile("b", 1, max_time=T + 9)), T + 9),
    "nothing was written": ((), T),
    "unknown times": ((DataFile("a", 1),), 2**63 - 2),
}


@pytest.mark.parametrize(("files", "time"), FINAL.values(), ids=FINAL)
def test_the_newest_time_of_a_shard_that_is_final(files, time):
    done = replace(COMMITS[-1], upper=Antichain.empty())
    for text in ("latest", FOURTH):
        point = points.resolve(text, shard(upper=None, files=files), (*COMMITS[:-1], done), "orders")
        assert (point.time, point.run.invocation_id) == (time, FOURTH)


def test_a_shard_without_contents_has_no_point():
    with pytest.raises(NotRefreshed, match="orders: not refreshed yet"):
        points.resolve("latest", shard(since=T, upper=T), COMMITS, "orders")


@pytest.mark.parametrize("kind", ["memory", "delta"])
def test_of_a_real_log(kind, tmp_path):
    storage = MemoryStorage("s")
    client = ShardClient(locate=lambda _: storage) if kind == "memory" else ShardClient()
    handle = client.open_writer(str(tmp_path / "s"), SCHEMA)
    handle.compare_and_append(updates(("a", 1, 1)), at(0), at(2), note=CommitNote(invocation_id=FIRST))
    handle.compare_and_append(updates(("b", 2, 1)), at(2), at(3), note=CommitNote(invocation_id=SECOND))
    before = [points.resolve(text, handle.state(), handle.history(), "s").time for text in ("-1", FIRST)]
    batch = handle.batch(updates(("c", 9, 1)), at(9), at(10))
    handle.replace([batch], SCHEMA, at(10), at(9), note=CommitNote(invocation_id=THIRD))
    state, commits = handle.state(), handle.history()
    assert before == [1, 1] and points.resolve("latest", state, commits, "s").time == 9
    assert [each.generation for each in commits if each.generation is not None] == [1]
    with pytest.raises(EarlierGeneration):
        points.resolve(FIRST, state, commits, "s")
