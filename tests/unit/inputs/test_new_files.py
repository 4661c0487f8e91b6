"""Which files of a table are new since a run, as far as a few recorded numbers say."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.inputs.position import FILE_LIST, Position


def listed(*files: tuple[int, str]) -> Position:
    """A list of files, each with the time at which it was modified."""
    latest = tuple(sorted(files, reverse=True))
    return Position("raw.t", FILE_LIST, "files /t", 7, count=len(files), latest=latest)


def numbers(position: Position):
    """What a run records of it."""
    return dict(position.numbers()).get


BEFORE = listed((1, "a"), (2, "b"))
CASES = {
    "one": (listed((1, "a"), (2, "b"), (5, "day=3/c.parquet")), "1 new file: c.parquet"),
    "many": (
        listed((1, "a"), (2, "b"), *((time, f"f{time}") for time in range(10, 15))),
        "5 new files: f14, f13, f12 and 2 more",
    ),
    "one is gone": (listed((1, "a")), "1 gone or replaced"),
    "one was written again": (listed((1, "a"), (9, "b")), "1 new file: b, 1 gone or replaced"),
    "an old file was added": (listed((1, "a"), (2, "b"), (1, "old")), ""),
}


@pytest.mark.parametrize(("now", "expected"), CASES.values(), ids=CASES)
def test_what_is_new(now, expected):
    assert now.new_files(numbers(BEFORE)) == expected


def test_before_a_run_has_recorded_them_nothing_is_known():
    assert listed((1, "a")).new_files(lambda name: None) == ""
    assert Position("t", "delta", "d", 3).new_files(numbers(BEFORE)) == ""


def test_of_very_many_new_ones_only_the_newest_are_counted():
    now = Position(
        "raw.t", FILE_LIST, "files /t", 8, count=500, latest=tuple((900 - n, f"f{n}") for n in range(100))
    )
    assert now.new_files(numbers(BEFORE)).startswith("at least 100 new files: f0, f1, f2 and 97 more")
