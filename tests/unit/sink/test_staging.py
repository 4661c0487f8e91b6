"""When a run tries to compute its correction from the changes of its inputs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.shard import CommitNote
from dbt.adapters.mvsink.sink.staging import Staging
from dbt.adapters.mvsink.sink.write import EVALUATED, INCREMENTAL, LOADED


def slower(*runs: tuple[str, float | None]) -> bool:
    commits = [SimpleNamespace(note=CommitNote(mode=mode, seconds=seconds)) for mode, seconds in runs]
    handle = SimpleNamespace(history=lambda newest: commits[-newest:])
    return Staging(None, SimpleNamespace(handle=handle), None, None)._slower()


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([], False),
        ([(LOADED, 20.0), (INCREMENTAL, 9.0)], False),
        ([(LOADED, 20.0), (INCREMENTAL, 9.0), (INCREMENTAL, 9.0)], True),
        ([(LOADED, 20.0), (INCREMENTAL, 9.0), (INCREMENTAL, 7.0)], False),
        ([(EVALUATED, 20.0), (EVALUATED, 4.0), (INCREMENTAL, 9.0), (INCREMENTAL, 3.5)], True),
        ([(EVALUATED, 4.0), (INCREMENTAL, 9.0), (INCREMENTAL, 3.5), (INCREMENTAL, 3.0)], False),
        ([(INCREMENTAL, 9.0), (INCREMENTAL, 9.0)], False),
        ([(EVALUATED, 4.0), ("", 0.0), (INCREMENTAL, None), (INCREMENTAL, 9.0)], False),
    ],
)
def test_two_slow_runs_in_a_row_are_enough(runs, expected):
    assert slower(*runs) == expected


def test_what_was_slow_is_tried_again_after_some_commits():
    slow = [(EVALUATED, 4.0), (INCREMENTAL, 9.0), (INCREMENTAL, 9.0)]
    assert slower(*slow, *[(EVALUATED, 4.0)] * 18)
    assert not slower(*slow, *[(EVALUATED, 4.0)] * 19)
