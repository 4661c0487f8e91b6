"""A shard's past, as far as file statistics decide it: what is named in the SQL, and what is
refused.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.shard import Antichain, DataFile, ShardState
from dbt.adapters.mvsink.shard_sql import NotReadable, NotRefreshed, as_of, current_view, view_query
from dbt.adapters.mvsink.shard_sql.as_of import Projection
from dbt.adapters.mvsink.shard_sql.layout import layout_of

SCHEMA = pa.schema([("x", pa.string())])
ROWS = {"base": 100, "early": 10, "mixed": 10, "last": 10, "plain": 10, "more": 10}


def part(batch, number, times, *, diffs=(1, 1), errors=0, hashed=True):
    rows = ROWS[batch]
    path = f"batches/{batch}/part-{number}.parquet"
    return DataFile(path, 1, rows, *times, *diffs, errors, rows if hashed else 0)


BASE = part("base", 0, (10, 10))
EARLY = part("early", 0, (11, 12), diffs=(-1, 1))
MIXED = part("mixed", 0, (12, 20), diffs=(-1, 1)), part("mixed", 1, (21, 25), diffs=(-1, 1))
LATE = part("last", 0, (30, 30))
PLAIN = part("plain", 0, (15, 15), hashed=False)
LOOSE = DataFile("part-foreign.parquet", 1)


def shard(*files, upper=40):
    state = ShardState(1, UUID(int=1), SCHEMA, 7, Antichain.of(10), Antichain.of(upper), files=files)
    return layout_of(
        state, "/s", lambda place: {f.path: f.size for f in files if f.directory == place}, lambda file: ["x"]
    )


def named(query):
    """The directories, files and loose files that a query names."""
    return {name for name in (*ROWS, "part-0", "part-1", "part-foreign") if name in query}


AS_OF = {
    "all of it is before": (39, {"base", "early", "mixed", "last"}),
    "the last is later": (29, {"base", "early", "mixed"}),
    "some of a directory is later": (20, {"base", "early", "mixed"}),
    "the base alone": (10, {"base"}),
    "nothing": (9, set()),
}


@pytest.mark.parametrize(("time", "wanted"), AS_OF.values(), ids=AS_OF)
def test_the_collection_names_no_directory_that_is_later(time, wanted):
    assert named(as_of.collection_as_of(shard(BASE, EARLY, *MIXED, LATE), time)) == wanted


def test_where_nothing_is_later_it_is_the_view():
    whole = shard(BASE, EARLY, LATE)
    assert as_of.collection_as_of(whole, 30) == view_query(whole)
    assert as_of.collection_as_of(shard(BASE, EARLY), 30) == view_query(shard(BASE, EARLY))


def test_the_base_is_never_filtered_and_what_holds_both_is(monkeypatch):
    monkeypatch.setattr(current_view, "LOCAL_ROWS", 0)
    query = as_of.collection_as_of(shard(BASE, EARLY, *MIXED), 20)
    scans = [line for line in query.split("\n") if "parquet.`" in line]
    assert [line for line in scans if "/base`" in line and "_mv_time <= 20L" not in line]
    assert all("_mv_time <= 20L" in line for line in scans if "mixed" in line)
    assert "_mv_time <=" not in as_of.collection_as_of(shard(BASE, EARLY, LATE), 20)


def test_a_later_base_is_left_out_and_no_other_directory_takes_its_place():
    smaller = replace(EARLY, min_time=11, max_time=11, min_diff=1)
    query = as_of.collection_as_of(shard(replace(BASE, min_time=30, max_time=30), smaller, MIXED[0]), 20)
    assert named(query) == {"early", "mixed"} and "/batches/{early,mixed}`" in query and " join " not in query


def test_a_foreign_file_of_unknown_times_is_filtered():
    query = as_of.collection_as_of(shard(BASE, LOOSE), 20)
    assert "`/s/part-foreign.parquet`" in query and "_mv_time < 21L" in query


def test_only_errors_that_may_be_live_then_are_guarded_against():
    failing = shard(BASE, replace(LATE, errors=1))
    assert "raise_error" in as_of.collection_as_of(failing, 30)
    assert "raise_error" not in as_of.collection_as_of(failing, 29)
    assert "raise_error" not in as_of.snapshot_as_of(failing, 30) and "is not null" in as_of.snapshot_as_of(
        failing, 30
    )


BETWEEN = {
    "everything": ((0, None), {"base", "early", "mixed", "last"}),
    "a directory": ((30, None), {"last"}),
    "a file of a directory": ((21, 26), {"mixed", "part-1"}),
    "several directories": ((12, 21), {"early", "mixed", "part-0"}),
    "an end is not included": ((26, 30), set()),
    "nothing": ((31, 40), set()),
}


@pytest.mark.parametrize(("bounds", "wanted"), BETWEEN.values(), ids=BETWEEN)
def test_updates_name_no_file_that_cannot_hold_one(bounds, wanted):
    query = as_of.updates_between(shard(BASE, EARLY, *MIXED, LATE), *bounds)
    assert named(query) == wanted
    assert ("where false" in query) == (wanted == set())


def test_a_directory_of_very_many_files_is_named_whole(monkeypatch):
    monkeypatch.setattr(as_of, "LONGEST_NAMES", 10)
    query = as_of.updates_between(shard(*MIXED), 21, 26)
    assert "part-" not in query and "_mv_time >= 21L and _mv_time < 26L" in query
    assert as_of.known_times(shard(part("last", 0, (30, 30)), part("last", 1, (31, 31))), 31, 40) == {
        31: (True, False)
    }


def test_a_projection_is_consolidated_over_its_columns():
    own = Column("y", parse_type("int", "y"))
    query = as_of.updates_between(shard(LATE), 30, 31, Projection((own,), "`x` is null"))
    assert (
        query.startswith("select `y`, _mv_time, _mv_diff, _mv_error from")
        and "and (_mv_error is not null or (`x` is null))" in query
    )


DELETING = replace(LATE, min_diff=-1)
KNOWN = {
    "inserted alone": ((LATE,), {30: (True, False)}),
    "two times": ((LATE, BASE), {10: (True, False), 30: (True, False)}),
    "no file": ((), {}),
    "another directory's times do not matter": (
        (LATE, part("plain", 0, (5, 6), hashed=False)),
        {30: (True, False)},
    ),
    "a consolidated batch": ((DELETING,), {30: (True, True)}),
    "rows deleted alone": ((replace(LATE, min_diff=-2, max_diff=-1),), {30: (False, True)}),
    "two consolidated batches at two times": (
        (DELETING, part("more", 0, (31, 31))),
        {30: (True, True), 31: (True, False)},
    ),
    "rows of two batches may cancel": ((DELETING, part("more", 0, (30, 30))), None),
    "rows of a batch without hashes may cancel": (
        (part("plain", 0, (30, 30), hashed=False, diffs=(-1, 1)),),
        None,
    ),
    "signs not known": ((replace(LATE, min_diff=-1, max_diff=None),), None),
    "several times in a file": ((replace(LATE, min_time=29),), None),
    "errors": ((replace(LATE, errors=1),), None),
    "errors not counted": ((replace(LATE, errors=None),), None),
    "a foreign file": ((LATE, LOOSE), None),
}


@pytest.mark.parametrize(("files", "wanted"), KNOWN.values(), ids=KNOWN)
def test_times_that_statistics_tell(files, wanted):
    assert as_of.known_times(shard(*files), 7) == wanted
    summed = wanted is None or not wanted
    query = as_of.changes_between(shard(*files), 7)
    assert (query == as_of.updates_between(shard(*files), 7)) == summed
    assert ("group by" in query) == (wanted is None)


def state(since, upper):
    return ShardState(
        1,
        UUID(int=1),
        SCHEMA,
        7,
        Antichain.of(since),
        Antichain.empty() if upper is None else Antichain.of(upper),
    )


READABLE = {
    "within": (state(10, 20), 10, None),
    "the newest": (state(10, 20), 19, None),
    "before since": (state(10, 20), 9, r"cannot read as of 9: the readable times are \[10, 20\)"),
    "at upper": (state(10, 20), 20, r"cannot read as of 20: the readable times are \[10, 20\)"),
    "finished": (state(10, None), 10**15, None),
    "finished, before since": (state(10, None), 9, r"the readable times are \[10, no end\)"),
}


@pytest.mark.parametrize(("shard_state", "time", "refused"), READABLE.values(), ids=READABLE)
def test_reads_as_of(shard_state, time, refused):
    if refused is None:
        return as_of.check_readable(shard_state, time)
    with pytest.raises(NotReadable, match=refused):
        as_of.check_readable(shard_state, time)


CHANGES = {
    "within": (state(10, 20), 11, 20, None),
    "at since, where older ones may stand": (
        state(10, 20),
        10,
        20,
        r"cannot read the changes of \[10, 20\): the readable times are \[10, 20\)",
    ),
    "nothing is older than 0": (state(0, 20), 0, 20, None),
    "past upper": (state(10, 20), 11, 21, r"the changes of \[11, 21\)"),
    "none asked": (state(10, 20), 5, 5, None),
    "finished": (state(10, None), 11, 10**15, None),
}


@pytest.mark.parametrize(("shard_state", "lower", "upper", "refused"), CHANGES.values(), ids=CHANGES)
def test_reads_of_changes(shard_state, lower, upper, refused):
    if refused is None:
        return as_of.check_changes(shard_state, lower, upper)
    with pytest.raises(NotReadable, match=refused):
        as_of.check_changes(shard_state, lower, upper)


@pytest.mark.parametrize("since_and_upper", [0, 10])
def test_a_shard_without_contents_is_not_refreshed_yet(since_and_upper):
    empty = state(since_and_upper, since_and_upper)
    with pytest.raises(NotRefreshed, match="not refreshed yet"):
        as_of.check_readable(empty, 10)
    with pytest.raises(NotRefreshed, match="not refreshed yet"):
        as_of.check_changes(empty, 5, 10)
