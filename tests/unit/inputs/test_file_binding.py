"""Files of an append-only table bound to times: what enters the manifest, and files that change
while they are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.inputs import FilesChanging, FilesInput, FileVanished, PendingTime, bind_files
from dbt.adapters.mvsink.shard.updates import consolidate, physical_schema
from tests.support.engines import NoEngine
from tests.support.shards import at, client


class Engine(NoEngine):
    """Says that the files which a query names have rows, but for ``without_rows``; reads the
    manifest where it is.
    """

    def __init__(self, opened, meanwhile: Callable[[], None] = lambda: None):
        self.opened, self.meanwhile, self.without_rows = opened, meanwhile, set()

    def columns(self, query):
        return [("id", "int")]

    def query(self, query, what):
        if what == "bind":
            self.meanwhile()
            listed = re.search(r" in \(([^()]*)\)\n", query)
            numbers = [int(text.rstrip("L")) for text in listed[1].split(", ")]
            return [(number,) for number in numbers if number not in self.without_rows]
        state = self.opened.open_reader("c").state()
        storage = self.opened.open_reader("c").storage
        tables = [storage.read(file, physical_schema(state.schema)) for file in state.files]
        rows = consolidate(pa.concat_tables(tables)).to_pylist()
        return [(row["mv_file"], row["mv_path"]) for row in rows]


@pytest.fixture(params=["memory", "delta"])
def opened(request, tmp_path):
    return client(request.param, tmp_path)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a.parquet").write_text("rows")
    return tmp_path / "t"


def run(opened, root, time, engine):
    return bind_files(FilesInput("raw.t", "db.t", str(root), append_only=True), time, opened, "c", engine)


def manifest(engine):
    return sorted(path for _, path in engine.query("", "bound files"))


def test_files_are_bound_once_and_an_idle_run_moves_the_frontier(opened, root):
    engine = Engine(opened)
    run(opened, root, 100, engine)
    (root / "b.parquet").write_text("more")
    run(opened, root, 200, engine)
    bound = run(opened, root, 300, engine)
    assert manifest(engine) == ["a.parquet", "b.parquet"]
    assert bound.pending(101, 301) == [PendingTime(200, inserts=True, deletes=False)]
    assert bound.frontier() == at(301)


def test_a_file_without_rows_is_read_again(opened, root):
    engine = Engine(opened)
    engine.without_rows = FilesInput("", "", str(root)).manifest().keys()
    assert run(opened, root, 100, engine).frontier() == at(101)
    engine.without_rows = set()
    assert run(opened, root, 200, engine).pending(101, 201) == [PendingTime(200, inserts=True, deletes=False)]
    assert manifest(engine) == ["a.parquet"]


def test_a_file_that_is_written_again_while_it_is_read_is_read_again(opened, root):
    (root / "b.parquet").write_text("b")
    changes = iter([lambda: (root / "b.parquet").write_text("b again")])
    engine = Engine(opened, lambda: next(changes, lambda: None)())
    run(opened, root, 100, engine)
    assert manifest(engine) == ["a.parquet", "b.parquet"]
    assert {number for number, _ in engine.query("", "")} == FilesInput("", "", str(root)).manifest().keys()


def test_files_that_keep_changing_are_refused_and_nothing_is_bound(opened, root):
    lengths = iter(range(100))
    engine = Engine(opened, lambda: (root / "a.parquet").write_text("x" * (10 + next(lengths))))
    with pytest.raises(FilesChanging, match="input raw.t: its files changed each of 3 times"):
        run(opened, root, 100, engine)
    assert opened.open_reader("c").state().upper == at(0)


def test_a_removed_file_is_refused_by_name_and_nothing_is_bound(opened, root):
    engine = Engine(opened)
    run(opened, root, 100, engine)
    (root / "a.parquet").rename(root / "b.parquet")
    with pytest.raises(
        FileVanished, match="input raw.t is append-only .*1 of its data files were removed.*: a.parquet"
    ):
        run(opened, root, 200, engine)
    assert opened.open_reader("c").state().upper == at(101)


def test_the_loser_of_a_race_binds_the_remaining_files(opened, root):
    winner = Engine(opened)

    def another_run():
        engine.meanwhile = lambda: None
        run(opened, root, 150, winner)
        (root / "b.parquet").write_text("late")

    engine = Engine(opened, another_run)
    bound = run(opened, root, 200, engine)
    assert [pending.time for pending in bound.pending(151, 201)] == [200] and bound.frontier() == at(201)
    assert manifest(engine) == ["a.parquet", "b.parquet"]
    rows = sum(file.rows for file in bound.handle.state().files)
    # the loser's were deleted
    assert rows == 2 and len(list(bound.handle.storage.list_files("table"))) == 2
