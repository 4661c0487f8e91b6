"""A view over a shard as an input, on Spark: its contents and changes are its query's."""

from __future__ import annotations

from collections import Counter

import pytest

from dbt.adapters.mvsink.continual_task.carry_time import row_by_row
from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.inputs import PendingTime, ShardInput
from dbt.adapters.mvsink.inputs.mapped import MappedInput, RowMapping
from dbt.adapters.mvsink.shard import ShardClient
from tests.functional.continual_task.driver import Shard
from tests.support.session_engine import SessionEngine

pytestmark = pytest.mark.usefixtures("small_data")

QUERY = "with a as (select key % 10 as k, val from db.i) select k, upper(concat('x', k)) from a where val > 0"
WRITTEN = {  # time: (key, val, diff), and whether the view gains rows then, and loses rows
    10: ([(1, 1, 2), (2, -1, 1)], None),
    20: ([(3, 3, 1), (1, 1, -1)], (True, True)),
    30: ([(2, -1, -1), (4, -4, 1)], None),  # nothing that the view shows
    40: ([(3, 3, -1), (13, 9, 1)], None),  # another row of the table, the same row of the view
    50: ([(1, 1, -1)], (False, True)),
}


def mapped(key, val):
    return (key % 10, f"X{key % 10}") if val > 0 else None


@pytest.fixture
def view(spark, tmp_path):
    shard = Shard(str(tmp_path / "i"))
    for time, (updates, _) in WRITTEN.items():
        shard.write(time, updates)
    with ShardClient().open_reader(shard.uri) as reader:
        engine = SessionEngine(spark)
        columns = (Column("k", parse_type("bigint", "k")), Column("name", parse_type("string", "name")))
        yield MappedInput(ShardInput(reader, engine), RowMapping(columns, row_by_row(QUERY).carry), engine)


def test_contents_and_changes_are_those_of_the_query(view):
    contents = Counter()
    for time, (updates, _) in WRITTEN.items():
        before = Counter(contents)
        for key, val, diff in updates:
            if mapped(key, val):
                contents[mapped(key, val)] += diff
        assert Counter(view.engine.query(view.contents(time), "test")) == +contents, time
        changes = view.engine.query(view.changes(time, time + 1), "test")
        expected = {
            row: contents[row] - before[row] for row in contents | before if contents[row] != before[row]
        }
        assert {row[:2]: row[3] for row in changes} == expected and all(
            row[2] == time and row[4] is None for row in changes
        )
        snapshot = Counter()
        for *row, _, diff, _ in view.engine.query(view.snapshot(time), "test"):
            snapshot[tuple(row)] += diff
        assert +snapshot == +contents


def test_only_times_at_which_the_view_changed_are_pending(view):
    expected = [PendingTime(time, *kinds) for time, (_, kinds) in WRITTEN.items() if kinds]
    assert view.pending(11, 51) == expected
    assert view.pending(21, 41) == [] and view.pending(51, 51) == []
