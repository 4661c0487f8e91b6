"""A year of daily runs, each of which deletes rows: by when no file has a deleted row any more.

The bound is docs/privacy.md's. Nothing but ordinary runs and their maintenance is done, by a clock
that the test moves; files are decoded, live or not.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.shard import ShardClient, compact_with_pyarrow, perform_maintenance
from dbt.adapters.mvsink.shard.memory_storage import MemoryStorage
from dbt.adapters.mvsink.shard.policy import MAX_DELETED
from dbt.adapters.mvsink.shard.upkeep import UPKEEP_AFTER
from tests.support.clocks import DAY
from tests.support.shards import SCHEMA, at, updates

GRACE = 7 * DAY  # of removed files
BOUND = MAX_DELETED + UPKEEP_AFTER + GRACE


def rows_in_files(storage):
    """The names of the rows in any file."""
    return {
        name
        for blob in storage.blobs.values()
        if isinstance(blob, pa.Table)
        for name in blob.column("x").to_pylist()
    }


# the history that is kept (days), rows that stay, rows that come and go each day, days between runs
YEARS = {
    "no history": (0, 5_000, 1, 1),
    "a month of history": (30, 5_000, 1, 1),
    "a small base": (0, 5, 3, 1),
    "runs every six hours": (1, 6_000, 1, 1 / 4),
    "runs every third day": (7, 5_000, 2, 3),
}


@pytest.mark.parametrize(("retained", "staying", "many", "step"), YEARS.values(), ids=YEARS)
def test_a_year_of_deletes(retained, staying, many, step):
    storage = MemoryStorage()
    client = ShardClient(locate=lambda uri: storage)
    handle = client.open_writer(storage.uri, SCHEMA)
    begin, upper, deleted, oldest = handle.state().created, 0, {}, 0
    for number in range(int((365 if step >= 1 else 90) / step)):
        now = begin + int(number * step * DAY)
        storage.now = now
        come = [(f"{number}-{each}", now, 1) for each in range(many)]
        gone = [(f"{number - 1}-{each}", now, -1) for each in range(many)] if number else []
        first = [] if number else [(f"stays-{each}", now, 1) for each in range(staying)]
        since = at(max(0, now - retained * DAY))
        batch = handle.batch(updates(*first, *come, *gone), at(upper), at(now + 1))
        done = handle.compare_and_append_batch([batch], at(upper), at(now + 1), since=since)
        perform_maintenance(handle, done.maintenance, lambda plan: compact_with_pyarrow(handle, plan))
        upper = now + 1
        deleted.update({name: now for name, _, _ in gone})
        if number % max(1, round(1 / step)) == 0:  # once a day
            present = rows_in_files(storage)
            oldest = max([oldest, *(now - time for name, time in deleted.items() if name in present)])
    assert oldest <= BOUND + retained * DAY + 2 * step * DAY
    assert len(rows_in_files(storage)) >= staying + many
