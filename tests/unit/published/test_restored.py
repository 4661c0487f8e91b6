"""A table over a shard whose log was restored from a backup shows what the shard is now."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

from dbt.adapters.mvsink.shard import ShardClient
from tests.long.published_tables import History
from tests.support.table_readers import by_deltalake


def test_a_table_that_is_ahead_of_its_shard_is_published_again(tmp_path):
    uri = str(tmp_path / "s")
    history = History(uri, Random(1), None)
    history.append()
    history.publish()
    log = Path(uri) / "_delta_log"
    before, rows = {path.name for path in log.iterdir()}, by_deltalake(history.table)
    history.append()
    history.publish()
    assert by_deltalake(history.table) != rows
    for path in [*log.iterdir()]:
        if path.name not in before:
            path.unlink()
    history.handle = ShardClient().open_writer(uri, history.handle.schema)
    history.publish()
    assert by_deltalake(history.table) == rows != Counter()
