"""Decisions about a shard's state: pure, so a table each."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.shard import (
    DataFile,
    FilesChanged,
    InvalidUsage,
    SchemaMismatch,
    ShardState,
    UpperMismatch,
    compaction_due,
)
from dbt.adapters.mvsink.shard.state import (
    Change,
    advance_since,
    apply,
    compaction,
    compare_and_append,
    evolution,
    hold,
    release,
    replace_generation,
)
from tests.support.shards import SCHEMA, at


def file(batch, rows=100, time=1, latest=None):
    return DataFile(
        f"batches/{batch}/part-0.parquet", 1, rows, time, time if latest is None else latest, 1, 1, 0, rows
    )


def state(*files, upper=10, since=0, **more):
    return ShardState(3, UUID(int=1), SCHEMA, 0, since=at(since), upper=at(upper), files=tuple(files), **more)


def many(n, rows=100, time=1):
    return [file(f"r{i:02}", rows, time) for i in range(n)]


BASE = file("base", rows=100_000)
COMPACTION = {
    "nothing": ([], 9, None),
    "one batch": ([BASE], 9, None),
    "little settled": ([BASE, *many(3)], 9, None),
    "a tenth, settled, and no more": ([BASE, file("r", 10_000)], 9, None),
    "over a tenth, settled": ([BASE, file("r", 10_001)], 9, "all"),
    "over a tenth, but newer than since": ([BASE, file("r", 10_001, time=5)], 4, None),
    "a larger batch that is newer than since": ([BASE, file("r", 200_000, time=5)], 4, None),
    "beside that one, over a tenth, settled": (
        [BASE, file("r", 200_000, time=5), file("s", 10_001)],
        4,
        "settled",
    ),
    "errors are nothing that a base takes in": ([BASE, replace(file("r", 20_000), errors=20_000)], 9, None),
    "15 recent batches": ([BASE, *many(15)], 9, None),
    "16 recent batches merge without the base": ([BASE, *many(16)], 9, "recent"),
    "16, of which one is far larger": ([BASE, file("r", 5_000), *many(15)], 9, "small"),
    "16, of which two are far larger": ([BASE, file("q", 3_000), file("r", 5_000), *many(14)], 9, "small"),
    "15 that have merged before are of one size with the next": (
        [BASE, file("q", 1_500), file("r", 1_600), *many(14)],
        9,
        "small",
    ),
    "16 recent batches of which most are history": (
        [BASE, *many(9, time=5), *(file(f"s{i}") for i in range(7))],
        4,
        "history",
    ),
    "nothing is settled, and one is far larger": ([*many(16), file("q", 10**6)], 0, "small"),
    "a finished shard whose since is empty": ([BASE, *many(20)], None, None),
    "16 recent batches, all newer than since": ([BASE, *many(16, time=5)], 4, "recent"),
    "a foreign file": ([BASE, file("r", 99_999), DataFile("part-foreign.parquet", 1, 5)], 9, None),
    "a batch that straddles since is not settled": ([BASE, file("r", 50_000, time=1, latest=8)], 4, None),
}


@pytest.mark.parametrize(("files", "since", "expected"), COMPACTION.values(), ids=COMPACTION)
def test_when_compaction_is_due(files, since, expected):
    plan = compaction_due(state(*files, since=since))
    chosen = {
        None: None,
        "all": files,
        "recent": [f for f in files if f is not BASE],
        "settled": [f for f in files if (f.max_time or 0) <= (since or 0)],
        "history": [f for f in files if (f.max_time or 0) > (since or 0)],
        "small": [f for f in files if f.rows <= 100],
    }[expected]
    wanted = None if chosen is None else {f.path for f in chosen}
    assert (None if plan is None else {f.path for f in plan.files}) == wanted
    assert plan is None or (plan.since, plan.with_base) == (at(since), expected in ("all", "settled"))


def test_write_amplification_is_constant():
    """A shard that grows by 1 % a run: every row is rewritten a bounded number of times."""
    rows, rewritten = 100_000, 0
    files = [file("b", rows)]
    for run in range(400):
        added = max(1, rows // 100)
        rows += added
        files.append(file(f"r{run}", added))
        if compaction_due(state(*files, since=9)):
            rewritten += rows
            files = [file(f"c{run}", rows)]
    assert rewritten < 12 * rows


SINCE = {
    "forward": (2, 9, {}, 5, 5),
    "never back": (4, 9, {}, 2, 4),
    "never past the upper": (4, 9, {}, 20, 9),
    "never past a hold": (1, 9, {"a": 3, "b": 6}, 8, 3),
    "a hold behind since changes nothing": (5, 9, {"a": 3}, 8, 5),
}


@pytest.mark.parametrize(("since", "upper", "holds", "wanted", "expected"), SINCE.values(), ids=SINCE)
def test_where_since_may_go(since, upper, holds, wanted, expected):
    assert advance_since(state(upper=upper, since=since, holds=holds), at(wanted)) == at(expected)


def test_compare_and_append():
    before = state(BASE)
    change = compare_and_append(before, at(10), at(12), [file("new")], since=at(11), inputs={"i": 4})
    after = apply(before, change)
    assert (after.upper, after.since, len(after.files), after.version) == (at(12), at(11), 2, 4)
    assert compare_and_append(before, at(10), at(12), []).kind == "advance"
    with pytest.raises(UpperMismatch):
        compare_and_append(before, at(9), at(12), [])
    with pytest.raises(InvalidUsage, match="appended before"):
        compare_and_append(before, at(10), at(12), [BASE])
    with pytest.raises(FilesChanged):
        compare_and_append(before, at(10), at(12), [], removes=[file("gone")])


def test_compaction_wants_its_files_live_and_changes_no_data():
    before = state(BASE, file("r"))
    change = compaction(before, [file("c")], before.files)
    assert change.kind == "compact" and [f.batch_id for f in apply(before, change).files] == ["c"]
    with pytest.raises(FilesChanged, match="batches/x"):
        compaction(before, [], [file("x")])


WIDER = pa.schema([*SCHEMA, ("y", pa.int64())])
EVOLUTIONS = {  # live files beside the base, what was rewritten, columns: what comes of it
    "all files, a column more": ([], [BASE], WIDER, None),
    "no file at all": (None, [], WIDER, None),
    "two columns, in another order": ([], [BASE], pa.schema([("z", pa.int8()), *WIDER]), None),
    "a file came": ([file("r")], [BASE], WIDER, FilesChanged),
    "a file went": ([], [BASE, file("r")], WIDER, FilesChanged),
    "nothing is new: another writer was faster": ([], [BASE], SCHEMA, FilesChanged),
    "a column would go": ([], [BASE], pa.schema([("y", pa.int64())]), SchemaMismatch),
    "a type would change": ([], [BASE], pa.schema([("x", pa.int64()), ("y", pa.int64())]), SchemaMismatch),
}


@pytest.mark.parametrize(("beside", "rewritten", "schema", "error"), EVOLUTIONS.values(), ids=EVOLUTIONS)
def test_columns_are_added_to_all_files_at_once_and_no_frontier_moves(beside, rewritten, schema, error):
    before = state(*([] if beside is None else [BASE, *beside]), since=4, generation=2, holds={"t": 5})
    if error:
        with pytest.raises(error):
            evolution(before, "s", [file("n")], rewritten, schema)
        return
    after = apply(before, evolution(before, "s", [file("n")], rewritten, schema))
    assert after == replace(before, version=4, schema=schema, files=(file("n"),))


def test_a_new_generation_is_of_one_version():
    before = state(BASE, upper=10, generation=2, dropped=5)
    after = apply(before, replace_generation(before, [file("n")], SCHEMA, at(4), at(3), 3))
    assert (after.upper, after.since, after.generation, after.dropped, len(after.files)) == (
        at(4),
        at(3),
        3,
        None,
        1,
    )
    with pytest.raises(FilesChanged, match="version 3, expected 2"):
        replace_generation(before, [], SCHEMA, at(4), at(3), 2)


def test_holds():
    before = state(since=4)
    holding = apply(before, hold(before, "t", 6))
    assert dict(holding.holds) == {"t": 6} and dict(apply(holding, release("t")).holds) == {}
    with pytest.raises(InvalidUsage, match="cannot hold history from 3 for t"):
        hold(before, "t", 3)


TRUSTED = {
    "ours": (file("b"), True),
    "a foreign place": (replace(file("b"), path="part.parquet"), False),
    "a deletion vector": (replace(file("b"), deletion_vector=True), False),
    "a row without a hash": (replace(file("b"), hashes=99), False),
    "how many is unknown": (replace(file("b"), hashes=None), False),
    "nor how many rows": (replace(file("b"), rows=None, hashes=None), False),
}


@pytest.mark.parametrize(("data_file", "expected"), TRUSTED.values(), ids=TRUSTED)
def test_which_hashes_are_believed(data_file, expected):
    assert data_file.trusted is expected


def test_a_change_says_nothing_of_what_it_leaves():
    before = state(BASE)
    assert replace(apply(before, Change(kind="advance")), version=3) == before
