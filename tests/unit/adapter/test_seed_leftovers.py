"""What a killed `dbt seed` has staged is removed by a later one."""

from __future__ import annotations

import os

from dbt.adapters.mvsink.adapter.seeds import LEFT_AFTER, remove_left
from dbt.adapters.mvsink.shard.delta import DeltaStorage

NOW = 1_700_000_000_000


def staged(root, name, age):
    """A file that was written ``age`` ms ago."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    os.utime(path, ns=((NOW - age) * 1_000_000, (NOW - age) * 1_000_000))
    return path


def test_only_seeds_staged_long_ago_are_removed(tmp_path):
    root = tmp_path / "_staging"
    old = staged(root, "seed-1/part-0.parquet", LEFT_AFTER + 1)
    kept = [
        staged(root, "seed-2/part-0.parquet", LEFT_AFTER - 1),
        staged(root, "other/part-0.parquet", LEFT_AFTER + 1),
        staged(tmp_path, "seed-3/part-0.parquet", LEFT_AFTER + 1),
    ]
    remove_left(DeltaStorage(str(root)), NOW)
    assert not old.parent.exists() and all(path.exists() for path in kept)
    remove_left(DeltaStorage(str(root)), NOW)
    assert all(path.exists() for path in kept)


def test_a_place_that_is_not_there_is_none(tmp_path):
    remove_left(DeltaStorage(str(tmp_path / "_staging")), NOW)
    assert not list(tmp_path.iterdir())
