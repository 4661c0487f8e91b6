"""docs/design/tasks.md, the table of pending input times: for each row the commits that the run
makes, and nothing else. On DuckDB.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from dbt.adapters.mvsink import failpoints
from tests.functional.continual_task.driver import COPY, Task

LOOKUP = "on input db.i as (insert into db.t select i.key, r.val from db.i i left join db.r r using (key))"
ONE = [(1, 1, 1)]
# in net, (2, 2) came twice and (1, 1) went
MIXED = [(2, 2, 1), (2, 2, 1), (3, 3, 1), (3, 3, -1), (1, 1, -1)]


@dataclass(frozen=True)
class Row:
    """The output is at upper 11, with (1, 1) since 10. Then the input has ``updates`` and this
    ``upper``, and a run at 50 commits ``commits``.

    A commit is (kind, lower, upper); ``written`` is (time, key, val, diff). ``meanwhile`` is the
    time of another replica's run.
    """

    updates: dict[int, list[Any]]
    upper: int
    commits: list[tuple[str, int, int]]
    written: list[tuple[Any, ...]] = field(default_factory=list)
    reference: int = 60
    meanwhile: int | None = None
    point: str = ""
    mismatches: int = 0


ROWS = {
    "none, output upper < input frontier: advance upper to it, no data": Row({}, 40, [("advance", 11, 40)]),
    "none, otherwise: nothing": Row({}, 11, []),
    "w, effects at w not complete, output upper < w: advance upper to w, no data": Row(
        {20: ONE}, 40, [("advance", 11, 20)], reference=20
    ),
    "w, effects complete: consolidate, one append [upper, w + 1) with updates at w": Row(
        {20: MIXED}, 21, [("append", 11, 21)], [(20, 2, 7, 2)]
    ),
    "w < output upper, another replica did it: drop w": Row(
        {20: ONE}, 21, [("append", 11, 21)], [(20, 1, 7, 1)], meanwhile=50, point="looked"
    ),
    "append loses the race: retry from the new upper, without what is already there": Row(
        {20: ONE, 30: ONE}, 31, [("append", 11, 21), ("advance", 21, 30), ("append", 30, 31)], [(20, 1, 7, 1), (30, 1, 7, 1)],
        meanwhile=25, point="staged", mismatches=1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_row(tmp_path, row):
    task = Task(None, tmp_path, COPY, ("db.r",), options={"awaited": frozenset({"db.r"})})
    task.reference("db.r").write(5, [(1, 7, 1), (2, 7, 1)], upper=11)
    task.input.write(10, ONE)
    task.run(10)
    task.text = LOOKUP
    for time, updates in row.updates.items():
        task.input.write(time, updates)
    if task.input.upper < row.upper:
        task.input.advance(row.upper)
    if row.reference > 11:
        task.reference("db.r").advance(row.reference)
    before = task.output.state().version

    def other(point):
        if point == row.point:
            failpoints.install(None)
            task.run(row.meanwhile)

    if row.meanwhile is not None:
        failpoints.install(other)
    outcome = task.run(50)
    with task.output.open() as handle:
        commits = [c for c in handle.history() if c.version > before and c.kind != "compact"]
    assert (
        sorted(((c.kind, c.lower.as_option(), c.upper.as_option()) for c in commits), key=lambda c: c[1])
        == row.commits
    )
    assert task.output.updates() == sorted([(10, 1, 1, 1), *row.written], key=repr)
    assert outcome.mismatches == row.mismatches
    version = task.output.state().version
    assert task.run(50).counts.nothing and task.output.state().version == version, (
        "and a second run commits nothing"
    )
