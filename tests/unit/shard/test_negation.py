"""Which live files a negation cancels, by their paths and statistics alone."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from dbt.adapters.mvsink.shard import DataFile, ShardState, cancelled_among, compaction_due, negatable
from dbt.adapters.mvsink.shard.directories import negating_name
from tests.support.shards import SCHEMA, at


def file(batch, time, rows=100, part=0, **changes):
    path = f"batches/{batch}/part-{part}.parquet"
    return replace(DataFile(path, 1, rows, time, time, 1, 1, 0, rows), **changes)


def negation(of, time, name="n"):
    rows = sum(file.rows for file in of)
    return file(negating_name(name, of), time, rows, min_diff=-1, max_diff=-1)


OLD = (file("base", 1), file("base", 1, 50, part=1), file("recent", 2, 5))
MINUS = negation(OLD, 5)
NEW = file("new", 5)
LATER = file("later", 6, 3)
LIVE = (*OLD, NEW, MINUS, LATER)
# a second replacement: of what the first one left
AGAIN = negation((NEW, LATER), 9, "m")
NEWEST = file("newest", 9)

CASES = {
    "all that was live before it, and itself": (LIVE, [(5, {*OLD, MINUS})]),
    "in any order of the log": (tuple(reversed(LIVE)), [(5, {*OLD, MINUS})]),
    "each what the earlier ones left": (
        (*LIVE, AGAIN, NEWEST),
        [(5, {*OLD, MINUS}), (9, {NEW, LATER, AGAIN})],
    ),
    "the second alone, once the first is dropped": (
        (NEW, LATER, AGAIN, NEWEST),
        [(9, {NEW, LATER, AGAIN})],
    ),
    "none: a file is gone": ((*OLD[1:], NEW, MINUS), []),
    "none: another batch has an earlier time": ((*LIVE, file("folded", 3)), []),
    "a file of another tool is none of them": (
        (*LIVE, replace(OLD[0], path="part-0.parquet")),
        [(5, {*OLD, MINUS})],
    ),
    "none: rows were deleted by a vector": ((replace(OLD[0], deletion_vector=True), *LIVE[1:]), []),
    "none: rows of the negation were": ((*OLD, NEW, replace(MINUS, deletion_vector=True)), []),
    "none: a part of the negation is gone": ((*OLD, NEW, replace(MINUS, rows=20)), []),
    "none: the times are not known": ((replace(OLD[0], max_time=None), *LIVE[1:]), []),
}


@pytest.mark.parametrize(("live", "cancelled"), CASES.values(), ids=CASES)
def test_what_a_negation_cancels(live, cancelled):
    assert [(group.time, set(group.files)) for group in cancelled_among(live)] == cancelled


def test_what_a_negation_has_to_negate():
    assert negatable(OLD, 5) == OLD
    assert negatable((*LIVE,), 9) == (NEW, LATER)
    for unfit in (replace(NEW, path="part-0.parquet"), replace(NEW, max_time=None), file("at once", 9)):
        assert negatable((*OLD, unfit), 9) is None


def state(files, since):
    return ShardState(1, UUID(int=1), SCHEMA, 0, since=at(since), upper=at(10), files=files)


@pytest.mark.parametrize(
    ("since", "dropped"), [(4, set()), (5, {*OLD, MINUS}), (8, {*OLD, MINUS}), (9, {*LIVE, AGAIN})]
)
def test_what_adds_up_to_nothing_is_dropped_unread_once_since_has_reached_it(since, dropped):
    due = compaction_due(state((*LIVE, AGAIN, NEWEST), since))
    assert dropped == (set() if due is None else set(due.cancelled))
    assert due is None or due.files == ()


def test_what_is_cancelled_is_not_merged_with_anything():
    many = tuple(file(f"b{n}", n) for n in range(20))
    assert compaction_due(state(many, 0)) is not None
    assert compaction_due(state((*many, file("new", 30), negation(many, 30)), 0)) is None
