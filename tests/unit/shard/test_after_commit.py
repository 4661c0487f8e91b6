"""Row e of issue 41: nothing after a commit reports that it did not happen. Each test lets one step
after (or beside) the commit fail, and looks at what the call reports and what the log has.
"""

from __future__ import annotations

import errno
import logging
import uuid
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from dbt.adapters.mvsink.shard import ShardClient, UpperMismatch
from dbt.adapters.mvsink.shard.commit_log import LOG
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from dbt.adapters.mvsink.shard.errors import OutsideShard, StorageError, Unreachable, UnresolvedCommit
from tests.support.shards import SCHEMA, at, evolve, live, read, staged, updates


class Outage:
    """A filesystem of which every call fails with an `OSError` while ``on``, but for ``left``."""

    def __init__(self, inner: Any):
        self._inner, self.on, self.left = inner, False, 0

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)

        def call(*arguments: Any, **options: Any) -> Any:
            if self.on:
                self.left -= 1
                if self.left < 0:
                    raise OSError(errno.EIO, "Input/output error")
            return value(*arguments, **options)

        return call if callable(value) else value


@pytest.fixture
def handle(tmp_path):
    """A writer on Delta, with two appends."""
    with ShardClient(timeout=0.2).open_writer(str(tmp_path / "s"), SCHEMA) as opened:
        for t in range(2):
            opened.compare_and_append(updates(("a", t, 1)), at(t), at(t + 1))
        yield opened


def after_commit(monkeypatch: Any, act: Any) -> None:
    """``act`` is called once the library has committed."""
    inner = DeltaStorage._commit_files

    def commit(table: Any, change: Any) -> None:
        inner(table, change)
        act()

    monkeypatch.setattr(DeltaStorage, "_commit_files", staticmethod(commit))


@pytest.mark.parametrize("calls", range(12))
def test_row_e_an_outage_from_any_call_after_the_commit(handle, monkeypatch, calls):
    """However much of the storage is reached after the commit: it is reported as done, or as in
    doubt, and its file stays.
    """
    outage = Outage(handle.storage.filesystem)
    handle.storage._filesystem = outage

    def begin():
        outage.on, outage.left = True, calls

    after_commit(monkeypatch, begin)
    batch = handle.batch(updates(("b", 2, 1)), at(2), at(3))
    try:
        done = handle.compare_and_append_batch([batch], at(2), at(3)).version
    except UnresolvedCommit:
        done = None
    outage.on = False
    assert done in (3, None)
    assert read(ShardClient(), handle.uri, 2) == [("a", 2), ("b", 1)]
    assert live(handle) <= staged(handle)


def test_row_e_an_outage_of_a_listing_or_a_file_is_one_error_that_names_it(handle):
    """No raw `OSError` leaves a storage, whatever is asked."""
    outage = Outage(handle.storage.filesystem)
    handle.storage._filesystem, outage.on = outage, True
    storage = handle.storage
    for ask, name in {
        lambda: storage.list_files(LOG): LOG,
        lambda: storage.directories("table"): "table",
        lambda: storage.stat("leases/r"): "leases/r",
        lambda: storage.read_text("leases/r"): "leases/r",
        lambda: storage.write_text("leases/r", ""): "leases/r",
        lambda: storage.delete(["leases/r"]): "leases/r",
        lambda: storage.delete_directory("table"): "table",
        lambda: storage.digest("batches/x"): "batches/x",
        lambda: storage.schema_of("batches/x"): "batches/x",
        lambda: storage.write_part("batches/x", pa.schema([])): "batches/x",
        lambda: storage.clock(): "_mvsink/clock",
    }.items():
        with pytest.raises(Unreachable, match=f"cannot .* {name} of shard {storage.uri}: "):
            ask()


def test_row_e_a_shard_that_cannot_be_created_is_a_storage_error(tmp_path, monkeypatch):
    """Also where the log cannot be read to learn whether another writer has created it."""

    def unreachable(*_: Any, **__: Any) -> None:
        raise DeltaError("no route")

    monkeypatch.setattr(DeltaTable, "create", unreachable)
    storage = DeltaStorage(str(tmp_path / "s"))
    monkeypatch.setattr(storage, "_current_table", unreachable)
    with pytest.raises(StorageError, match=f"cannot create shard {tmp_path / 's'}: no route"):
        storage.create(SCHEMA, uuid.uuid4(), 0, 0)


def no_second_commit(monkeypatch: Any, writer: Any) -> None:
    def fail(*_: Any) -> None:
        raise StorageError("no second commit")

    monkeypatch.setattr(type(writer), "keep_statistics", fail)


def test_row_e_a_new_generation_is_reported_although_the_statistics_were_not_set(
    opened, writer, monkeypatch, caplog
):
    writer.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
    no_second_commit(monkeypatch, writer)
    with caplog.at_level(logging.WARNING, "mvsink.shard"):
        result = writer.replace([writer.batch(updates(("b", 5, 1)), at(5), at(6))], SCHEMA, at(6), at(5))
    assert (result.version, writer.state().generation) == (writer.state().version, 1)
    assert "left to a later run: no second commit" in caplog.text and read(opened, "s", 5) == [("b", 1)]


def test_row_e_added_columns_are_reported_although_the_statistics_were_not_set(writer, monkeypatch):
    writer.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
    no_second_commit(monkeypatch, writer)
    assert evolve(writer, "y") and writer.state().schema.names == ["x", "y"]


def fail_to_delete(monkeypatch: Any, writer: Any) -> None:
    def fail(directory: str) -> None:
        raise StorageError(f"cannot delete {directory}")

    monkeypatch.setattr(writer.storage, "delete_directory", fail, raising=False)


def test_row_e_an_append_of_a_part_of_a_batch_is_done_although_the_rest_cannot_be_deleted(
    opened, writer, monkeypatch, caplog
):
    batch = writer.batch(updates(("a", 0, 1), ("b", 1, 1)), at(0), at(2))
    fail_to_delete(monkeypatch, writer)
    with caplog.at_level(logging.WARNING, "mvsink.shard"):
        writer.compare_and_append_batch([batch], at(0), at(1))
    assert read(opened, "s", 0) == [("a", 1)] and "left to a later run: cannot delete table/" in caplog.text
    monkeypatch.undo()


def test_row_e_updates_that_are_there_already_are_appended_although_theirs_cannot_be_deleted(
    writer, monkeypatch
):
    writer.append(updates(("a", 0, 1)), at(0), at(1))
    fail_to_delete(monkeypatch, writer)
    writer.append(updates(("a", 0, 1)), at(0), at(1))
    with pytest.raises(UpperMismatch):  # a conflict is not hidden by it
        writer.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
    with pytest.raises(UpperMismatch):
        writer.append(updates(("a", 5, 1)), at(5), at(6))
    monkeypatch.undo()


def test_row_e_in_a_shard_whose_data_is_behind_a_link_nothing_is_staged(handle, tmp_path):
    """So no step after the commit can find that the files are outside."""
    version = handle.state().version
    (tmp_path / "s" / "table").rename(tmp_path / "elsewhere")
    (tmp_path / "s" / "table").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    before = sorted((tmp_path / "elsewhere").rglob("*"))
    with pytest.raises(OutsideShard, match="outside the shard's directory"):
        handle.compare_and_append(updates(("b", 2, 1)), at(2), at(3))
    assert handle.state().version == version and sorted((tmp_path / "elsewhere").rglob("*")) == before


LINKED = {
    "a snapshot": lambda reader: reader.snapshot(1),
    "the columns of a file": lambda reader: reader.column_names(reader.state().files[0]),
    "a digest": lambda reader: reader.storage.digest(reader.state().files[0].path),
    "some rows": lambda reader: reader.first_rows(reader.state().files[0], SCHEMA, 1),
    "a listing": lambda reader: reader.files_in(reader.state().files[0].directory),
    "a file's size": lambda reader: reader.storage.stat(reader.state().files[0].path),
}


@pytest.mark.parametrize("use", LINKED.values(), ids=LINKED)
@pytest.mark.parametrize("what", ["directory", "file"])
def test_row_k_nothing_is_read_through_a_link_that_leaves_the_shard(handle, tmp_path, use, what):
    for number, file in enumerate(handle.state().files):
        place = tmp_path / "s" / file.path
        place = place.parent if what == "directory" else place
        place.rename(tmp_path / f"elsewhere{number}")
        place.symlink_to(tmp_path / f"elsewhere{number}", target_is_directory=what == "directory")
    with ShardClient().open_reader(handle.uri) as reader:
        if what == "file" and use is LINKED["a listing"]:
            return  # it shows names and sizes
        with pytest.raises(OutsideShard, match="outside the shard's directory"):
            use(reader)
