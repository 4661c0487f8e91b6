"""What the command asks of the shard layer: the newest commits only, directories, and an error at
once.
"""

from __future__ import annotations

import shutil

import pytest

from dbt.adapters.mvsink.shard import NotAShard, ShardClient, StorageError, commit_loop, damage
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from dbt.adapters.mvsink.shard.errors import TransientError
from tests.support.shards import SCHEMA, at, client, updates
from tests.unit.cli.shop import NOW, write


@pytest.mark.parametrize("kind", ["delta", "memory"])
def test_the_newest_commits_oldest_first(kind, tmp_path):
    handle = client(kind, tmp_path).open_writer("s", SCHEMA)
    for upper in (1, 2, 3):
        handle.compare_and_append(updates(), at(upper - 1), at(upper))
    versions = {
        newest: [commit.version for commit in handle.history(newest)] for newest in (None, 0, 1, 3, 4, 9)
    }
    assert versions == {None: [0, 1, 2, 3], 0: [], 1: [3], 3: [1, 2, 3], 4: [0, 1, 2, 3], 9: [0, 1, 2, 3]}


@pytest.mark.parametrize("prefix", ["", "file://"])
@pytest.mark.parametrize(
    ("path", "names"),
    [("", ["s", "t"]), ("s", ["a", "b"]), ("s/a", ["_delta_log"]), ("s/b", []), ("no", []), ("no/such", [])],
)
def test_the_directories_just_below(tmp_path, prefix, path, names):
    for directory in ("s/a/_delta_log/deeper", "s/b", "t"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "s" / "file").write_text("")
    assert DeltaStorage(f"{prefix}{tmp_path}").directories(path) == names


def test_an_object_store_lists_as_a_disk_does(tmp_path, monkeypatch):
    for directory in ("s/a/_delta_log", "t/b"):
        (tmp_path / directory).mkdir(parents=True)
        (tmp_path / directory / "file").write_text("")
    store = DeltaStorage(f"file://{tmp_path}")
    monkeypatch.setattr("dbt.adapters.mvsink.shard.files.local_path", lambda uri: None)  # as for s3://
    assert [store.directories(path) for path in ("", "s", "s/a", "no")] == [
        ["s", "t"],
        ["a"],
        ["_delta_log"],
        [],
    ]


def test_where_nothing_is_there_is_no_shard(tmp_path):
    with pytest.raises(NotAShard, match="there is no shard at"):
        ShardClient().open_reader(str(tmp_path / "nowhere"))


class Clock:
    """Only what waits takes time."""

    now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def test_a_client_gives_up_when_its_time_is_over(shop, monkeypatch):
    write(shop.shard("s.m", "m"), NOW, ("a", 1))
    shop.destroy("s.m")
    clock = Clock()
    monkeypatch.setattr(commit_loop, "time", clock)
    monkeypatch.setattr(damage, "time", clock)
    with pytest.raises(StorageError, match="the log of shard .* is damaged"):
        ShardClient(timeout=0.2).open_reader(str(shop.at("s.m")))
    assert clock.now <= 0.2 + damage.MOMENT
    shutil.rmtree(shop.at("s.m"))
    monkeypatch.setattr(DeltaStorage, "load", unreachable)
    with pytest.raises(StorageError, match="no route"):
        ShardClient(timeout=5).open_reader(str(shop.at("s.m")))
    assert 2 < clock.now <= 0.2 + damage.MOMENT + 5


def unreachable(storage):
    raise TransientError("no route")
