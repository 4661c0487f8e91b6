"""`mvsink status` of published tables: which version a table shows, and how far it is behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from deltalake import DeltaTable

from dbt.adapters.mvsink.published import TableFormat, publish, table_of
from dbt.adapters.mvsink.published.formats import ICEBERG, recording
from dbt.adapters.mvsink.published.shown_rows import Computed
from dbt.adapters.mvsink.shard.maintenance import compact_with_pyarrow
from dbt.adapters.mvsink.shard.state import CompactionPlan
from tests.unit.cli.shop import HOUR, NOW, write


def some_hashes(layout, directories):
    """The handle of these tests writes none."""
    files = [file for each in directories for file in each.files]
    return {file.path: Computed(np.arange(file.rows), np.arange(file.rows)) for file in files}


def test_the_table_that_a_shard_is_published_as(shop):
    handle = shop.shard("s.tabled", "tabled")
    write(handle, NOW - HOUR, ("a", 1), ("b", 1))
    handle.set_properties({"file_format": "delta"})
    assert "delta, none yet" in shop.run("status").output
    publish(handle, ["x"], hashes=some_hashes)
    [shard] = shop.as_json("status")["shards"]
    assert (shard["file_format"], shard["table_lag"], shard["table_foreign"]) == ("delta", 0, 0)
    assert shard["table_version"] == shard["version"]
    handle.set_properties({"another": "commit"})  # of the same files
    [shard] = shop.as_json("status")["shards"]
    assert (shard["table_lag"], shard["version"] - shard["table_version"]) == (0, 1)
    assert shard["table_through"] == shard["computed_through"] == NOW - HOUR
    assert "behind" not in shop.run("status").output
    assert not publish(handle, ["x"], hashes=some_hashes).changed
    write(handle, NOW, ("c", 1))
    DeltaTable(f"{handle.uri}/table").delete("x = 'a'")
    [shard] = shop.as_json("status")["shards"]
    assert (shard["table_lag"], shard["table_through"], shard["table_foreign"]) == (1, NOW - HOUR, 1)
    assert "delta, 1 version behind (1 h ago), foreign" in shop.run("status").output
    assert "delta, 1 version behind (2025-11-20T14:00:00Z), foreign" in shop.run("status", "--wide").output


def compact(handle):
    assert compact_with_pyarrow(handle, CompactionPlan(handle.state().files, handle.state().since))


def forget_commits(handle):
    """What a clean-up of the log leaves: a checkpoint and the newest commit."""
    DeltaTable(handle.uri).create_checkpoint()
    for file in sorted((Path(handle.uri) / "_delta_log").glob("*.json"))[:-1]:
        file.unlink()


# what happens after the publication at NOW - 3 h, and how far the table is behind afterwards
LATER = {
    "runs that change nothing": ([lambda shard: write(shard, NOW - HOUR), lambda shard: write(shard, NOW)], 0, NOW),
    "maintenance": ([lambda shard: shard.set_properties({"a": "commit"}), compact], 0, NOW - 3 * HOUR),
    "another tool's rows, and maintenance": (
        [lambda shard: DeltaTable(f"{shard.uri}/table").delete("x = 'a'"), lambda shard: shard.set_properties({"a": "b"})],
        0,
        NOW - 3 * HOUR,
    ),
    "two runs between maintenance": (
        [
            lambda shard: write(shard, NOW - 2 * HOUR),
            lambda shard: write(shard, NOW - HOUR, ("c", 1)),
            compact,
            lambda shard: write(shard, NOW, ("d", 1)),
            lambda shard: shard.set_properties({"a": "commit"}),
        ],
        2,
        NOW - 2 * HOUR,
    ),
    "a run whose commit is no longer in the log": (
        [lambda shard: write(shard, NOW, ("c", 1)), lambda shard: shard.set_properties({"a": "commit"}), forget_commits],
        2,
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "lag", "through"), LATER.values(), ids=LATER)
def test_a_table_is_behind_by_the_versions_that_changed_rows(shop, steps, lag, through):
    handle = shop.shard("s.tabled", "tabled")
    handle.set_properties({"file_format": "delta"})
    write(handle, NOW - 3 * HOUR, ("a", 1), ("b", 1))
    publish(handle, ["x"], hashes=some_hashes)
    for step in steps:
        step(handle)
    [shard] = shop.as_json("status")["shards"]
    assert (shard["table_lag"], shard["table_through"]) == (lag, through)


def test_an_iceberg_table_by_path_and_one_in_a_catalog_that_the_profile_does_not_name(shop):
    handle = shop.shard("s.tabled", "tabled")
    write(handle, NOW - HOUR, ("a", 1), ("b", 1))
    published = TableFormat(ICEBERG)
    handle.set_properties(recording(published))
    publish(handle, ["x"], hashes=some_hashes, table=table_of(handle, published))
    [shard] = shop.as_json("status")["shards"]
    assert (shard["file_format"], shard["table_version"]) == ("iceberg", shard["version"])
    assert (shard["table_lag"], shard["table_foreign"]) == (0, 0)
    handle.set_properties(recording(TableFormat(ICEBERG, "s.tabled")))
    [shard] = shop.as_json("status")["shards"]
    assert (shard["file_format"], shard["table_version"]) == ("iceberg", None)
