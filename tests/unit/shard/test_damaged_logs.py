"""Logs that were damaged, or that name what is not the shard's: said at once, with the file and the
remedy; nothing outside is touched.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from dbt.adapters.mvsink.shard import (
    InvalidUsage,
    ShardClient,
    StorageError,
    checkpoint,
    commit_log,
    log_store,
)
from dbt.adapters.mvsink.shard import damage as damage_module
from dbt.adapters.mvsink.shard.commit_log import checked_path
from dbt.adapters.mvsink.shard.errors import LogDamaged, OutsideShard
from dbt.adapters.mvsink.shard.files import require_inside
from tests.support.clocks import collect_at
from tests.support.shards import SCHEMA, at, live, read, staged, updates

LATER = 4 * 10**12  # ms: every grace period is over


@pytest.fixture(autouse=True)
def no_wait(monkeypatch):
    """Damage is checked twice; these tests do not wait between the two checks."""
    monkeypatch.setattr(damage_module, "MOMENT", 0)


@pytest.fixture
def handle(tmp_path):
    """A writer on Delta, with three appends."""
    with ShardClient().open_writer(str(tmp_path / "s"), SCHEMA) as opened:
        for t in range(3):
            opened.compare_and_append(updates(("a", t, 1)), at(t), at(t + 1))
        yield opened


def log_of(handle):
    return Path(handle.uri) / "_delta_log"


def commit_file(handle, version):
    return log_of(handle) / f"{version:020d}.json"


def foreign(handle, *actions):
    """A commit of these actions, by an unknown writer."""
    path = commit_file(handle, handle.state().version + 1)
    path.write_text("".join(json.dumps(action) + "\n" for action in actions))
    return path


def adding(path):
    return {
        "add": {"path": path, "size": 3, "partitionValues": {}, "modificationTime": 1, "dataChange": True}
    }


def removing(path):
    return {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}}


def truncate_checkpoint(handle):
    checkpoint(handle)
    next(log_of(handle).glob("*.checkpoint.parquet")).write_bytes(b"x")


def lose_checkpoint(handle):
    checkpoint(handle)
    next(log_of(handle).glob("*.checkpoint.parquet")).unlink()


def lose_checkpoint_and_commits(handle):
    lose_checkpoint(handle)
    for version in (0, 1):
        commit_file(handle, version).unlink()


DAMAGE = {
    "garbage": (lambda h: commit_file(h, 3).write_text("garbage"), "line 1 of commit .*03.json is not a Delta action.*'garbage'.*it can be deleted"),
    "garbage before the newest": (lambda h: commit_file(h, 2).write_text("[]"), "line 1 of commit .*02.json .* backup.*--full-refresh"),
    "a torn commit": (lambda h: commit_file(h, 3).write_text(commit_file(h, 3).read_text()[:99]), "line 1 of commit .*03.json is not a Delta action"),
    "commit 0 is missing": (lambda h: commit_file(h, 0).unlink(), "commit .*00.json is missing, and no checkpoint"),
    "a commit is missing": (lambda h: commit_file(h, 2).unlink(), "commit .*02.json is missing"),
    "a checkpoint cannot be read": (truncate_checkpoint, "checkpoint .*03.checkpoint.parquet cannot be read .* delete it, and .*_last_checkpoint"),
    "a checkpoint is not there": (lose_checkpoint, "_last_checkpoint names a checkpoint of version 3, which does not exist"),
    "nor the commits before it": (lose_checkpoint_and_commits, "commit .*00.json and 1 more are missing"),
}  # fmt: skip


@pytest.mark.parametrize(("harm", "message"), DAMAGE.values(), ids=DAMAGE)
def test_what_no_waiting_heals_is_said_at_once_with_shard_file_and_way_out(
    handle, harm, message, monkeypatch
):
    harm(handle)
    waits: list[float] = []
    here, sleep = threading.get_ident(), time.sleep  # threads of earlier tests may sleep, too

    def waited(seconds: float) -> None:
        (waits.append if threading.get_ident() == here else sleep)(seconds)

    monkeypatch.setattr(time, "sleep", waited)
    for use in (ShardClient().open_reader, lambda uri: ShardClient().open_writer(uri, SCHEMA)):
        with pytest.raises(
            LogDamaged, match=f"the log of shard {handle.uri} is damaged: .*{message}"
        ) as error:
            use(handle.uri)
        assert "<unknown>" not in str(error.value) and isinstance(error.value, StorageError)
    assert not any(waits)


def test_what_may_heal_is_waited_for_and_said_without_the_stack_of_another_language(handle, monkeypatch):
    tries = []

    def unreachable(*_, **__):
        tries.append(1)
        raise DeltaError("no route\n   0: <unknown>\n   1: <unknown>")

    monkeypatch.setattr("dbt.adapters.mvsink.shard.delta.DeltaTable", unreachable)
    with pytest.raises(StorageError, match=f"cannot read the log of shard {handle.uri}: no route$") as error:
        ShardClient(timeout=0.1).open_reader(handle.uri)
    assert len(tries) > 1 and not isinstance(error.value, LogDamaged)


def test_damage_that_is_gone_a_moment_later_was_a_file_being_written(handle, monkeypatch):
    torn = commit_file(handle, 3)
    whole = torn.rename(torn.with_suffix(".whole"))
    torn.write_text(whole.read_text()[:50])

    def written(_: float) -> None:
        """At once, never truncated: several threads wait here, while others read the file."""
        copied = whole.with_suffix(f".{threading.get_ident()}")
        copied.write_bytes(whole.read_bytes())
        copied.replace(torn)

    monkeypatch.setattr(time, "sleep", written)
    assert ShardClient().open_reader(handle.uri).upper == at(3)


BAD_STATE = {"upper": -1, "since": -5, "generation": -1, "creation": -(2**63)}


@pytest.mark.parametrize(("name", "value"), BAD_STATE.items())
def test_a_negative_number_in_the_log_names_the_shard_and_what_it_is(handle, name, value):
    foreign(handle, {"txn": {"appId": f"mvsink.{name}", "version": value}})
    with pytest.raises(
        LogDamaged,
        match=f"shard {handle.uri} is damaged: at version 4 the transaction mvsink.{name} is {value}",
    ):
        ShardClient().open_reader(handle.uri)


# paths

REFUSED = ["../x", "/etc/x", "a/../../x", "file:///etc/x", "s3://b/x", "C:/x", "%2e%2e/x", "%2E./x", "a%2F..%2F..%2Fx", "%252e%252e/x",
           "a%252F..", "./x", "a//x", "a/", "", "a%5C..%5Cx", "a\\x", "a%00", "file%3A///etc/x"]  # fmt: skip
TAKEN = {"part-0.parquet": "part-0.parquet", "batches/1/part%20a.parquet": "batches/1/part a.parquet", "x/time=12:00/p": "x/time=12:00/p",
         "a..b/c": "a..b/c", "100%25.parquet": "100%.parquet"}  # fmt: skip


@pytest.mark.parametrize("encoded", REFUSED)
def test_paths_that_are_refused(encoded):
    assert checked_path(encoded) is None


@pytest.mark.parametrize(("encoded", "path"), TAKEN.items())
def test_paths_that_are_taken(encoded, path):
    assert checked_path(encoded) == path


@pytest.mark.parametrize(
    "path",
    ["../out/x.parquet", "%2e%2e/out/x.parquet", "{root}/out/x.parquet", "file://{root}/out/x.parquet"],
)
@pytest.mark.parametrize("cleaned", [False, True], ids=["in a commit", "in a checkpoint"])
def test_a_live_file_outside_is_refused_naming_commit_and_path(handle, tmp_path, path, cleaned):
    named = path.format(root=tmp_path)
    commit = foreign(handle, adding(named))
    if cleaned:
        DeltaTable(handle.uri).create_checkpoint()
        for version in range(5):
            commit_file(handle, version).unlink()
    where = "the checkpoint of version 4" if cleaned else f"commit _delta_log/{commit.name}"
    with pytest.raises(LogDamaged, match=f"{where} adds '{named}'"):
        ShardClient().open_reader(handle.uri)


@pytest.mark.parametrize(
    "path",
    ["../out/x.parquet", "%2e%2e/out/x.parquet", "{root}/out/x.parquet", "batches/../../out/x.parquet"],
)
def test_a_removed_file_outside_is_left_alone_and_the_rest_is_collected(handle, tmp_path, path, caplog):
    outside = tmp_path / "out" / "x.parquet"
    outside.parent.mkdir()
    outside.write_text("mine")
    victim = handle.state().files[0].path
    commit = foreign(handle, removing(path.format(root=tmp_path)), removing(victim))
    with caplog.at_level(logging.WARNING, "mvsink.shard"):
        assert victim in collect_at(handle, LATER)
    assert outside.read_text() == "mine" and commit.name in caplog.text and "outside the shard" in caplog.text
    assert staged(handle) == live(handle)


LINKS = {
    "a batch's directory": "table/link",
    "a directory in it": "table/old/link",
    "all batches": "table",
    "the leases": "leases",
}


@pytest.mark.parametrize("place", LINKS.values(), ids=LINKS)
def test_collection_follows_no_symbolic_link_out_of_the_shard(handle, tmp_path, place):
    out = tmp_path / "out"
    (out / "deep").mkdir(parents=True)
    for path in (out / "x.parquet", out / "deep" / "y.parquet", out / "deep" / "z"):
        path.write_text("mine")
        os.utime(path, times=(1, 1))
    link = Path(handle.uri) / place
    if place == "table":
        link.rename(Path(handle.uri) / "kept")
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(out, target_is_directory=True)
    removed = foreign(handle, removing(f"{place}/x.parquet"))
    try:
        collect_at(handle, LATER)
    except OutsideShard as error:
        assert place in ("table", "leases") and "outside the shard's directory" in str(error)
    assert {path.name for path in out.rglob("*")} == {
        "x.parquet",
        "deep",
        "y.parquet",
        "z",
    } and removed.exists()


def test_a_foreign_file_behind_a_link_is_not_read(handle, tmp_path):
    (tmp_path / "out").mkdir()
    (Path(handle.uri) / "link").symlink_to(tmp_path / "out", target_is_directory=True)
    foreign(handle, adding("link/x.parquet"))
    state = ShardClient().open_reader(handle.uri).state()
    [loose] = [file for file in state.files if file.batch_id is None]
    with pytest.raises(OutsideShard, match="link/x.parquet"):
        handle.column_names(loose)


def test_a_shard_may_itself_be_behind_a_link(handle, tmp_path):
    (tmp_path / "alias").symlink_to(Path(handle.uri), target_is_directory=True)
    with ShardClient().open_writer(str(tmp_path / "alias"), SCHEMA) as through:
        through.batch(updates(("b", 3, 1)), at(3), at(4)).delete()
        assert staged(through) == live(through)


@pytest.mark.parametrize("path", ["../out/x.parquet", "table/../x.parquet", "/etc/x.parquet", "leases/r/x"])
def test_a_batch_that_was_handed_over_names_files_below_batches(handle, path):
    described = handle.batch(updates(("b", 3, 1)), at(3), at(4)).to_transmittable()
    described["files"][0]["path"] = path
    with pytest.raises(InvalidUsage, match="which is not a file of a batch's directory"):
        handle.batch_from_transmittable_batch(described)


# lines


def test_a_blank_line_stops_neither_readers_nor_maintenance(handle):
    path = commit_file(handle, 2)
    path.write_text(path.read_text().replace("\n", "\n\n  \n") + "\n")
    handle.replace([handle.batch(updates(("b", 5, 1)), at(5), at(6))], SCHEMA, at(6), at(5))
    collect_at(handle, LATER)
    checkpoint(handle)
    assert staged(handle) == live(handle) and read(ShardClient(), handle.uri, 5) == [("b", 1)]
    assert [commit.version for commit in handle.history()] == [0, 1, 2, 3, 4] and handle.storage.token_at(2)


def test_garbage_in_a_commit_that_a_checkpoint_stands_for_stops_only_the_history(handle):
    checkpoint(handle)
    commit_file(handle, 1).write_text("garbage\n[]\n3\n")
    handle.compare_and_append(updates(("b", 3, 1)), at(3), at(4))
    collect_at(handle, LATER)
    assert live(handle) <= staged(handle) and handle.storage.token_at(1) is None
    with pytest.raises(LogDamaged, match="line 1 of commit .*01.json is not a Delta action"):
        handle.history()


@pytest.mark.parametrize("kind", ["commitInfo", "add"])
def test_row_k_a_line_of_100_mb_is_left_to_the_library(handle, monkeypatch, kind):
    """Python would read it for a minute; none of ours is as long. The limit is lower here."""
    monkeypatch.setattr(commit_log, "LONGEST_LINE", 2000)
    read_here: list[int] = []
    for module in (commit_log, log_store):
        whole = module.parsed
        monkeypatch.setattr(
            module, "parsed", lambda text, whole=whole: (read_here.append(len(text)), whole(text))[1]
        )
    long = {"commitInfo": {"commitInfo": {"timestamp": 1, "operation": "y" * 5000}}}
    long["add"] = adding("batches/x/part-0.parquet")
    long["add"]["add"]["tags"] = {"a": "y" * 5000}
    path = foreign(handle, long[kind], {"txn": {"appId": "mvsink.since", "version": 1}})
    state = ShardClient().open_reader(handle.uri).state()
    assert (state.version, state.since, len(state.files)) == (4, at(1), 3 + (kind == "add"))
    assert handle.state().since == at(1) and handle.history()[-1].version == 4
    collect_at(handle, LATER)
    assert read_here and max(read_here) < 2000 and not commit_log.changes_no_data(path.read_text())


@pytest.mark.parametrize("path", ["../x", "table/../../x", "table/a/../../../x"])
def test_a_path_that_leads_out_of_the_shard_by_dots_is_refused(path, tmp_path):
    root = tmp_path / "shard"
    (root / "table" / "a").mkdir(parents=True)
    with pytest.raises(OutsideShard, match="outside the shard's directory"):
        require_inside(str(root), path, f"{root}/{path}")
    require_inside(str(root), "table/a/../x", f"{root}/table/a/../x")
