"""What is broadcast is known to be small: beyond a bound, or where statistics tell nothing, Spark
chooses how to join.
"""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.shard import Antichain, CommitNote, CompactionPlan, DataFile, Directory
from dbt.adapters.mvsink.shard_sql import Layout, rewrite, view_query
from dbt.adapters.mvsink.shard_sql.layout import MAX_BROADCAST
from dbt.adapters.mvsink.sink.detection import Buckets
from tests.support.engines import NoEngine

COLUMNS = (Column("x", parse_type("int", "x")),)


def directory(name, rows, *, least=-1, hashed=True):
    """Of two files; the base has positive diffs only."""
    files = [
        DataFile(f"batches/{name}/{n}.parquet", 1, part, 5, 5, least, 1, 0, part if hashed else 0)
        for n, part in enumerate((rows // 2, rows - rows // 2))
    ]
    return Directory(name, tuple(files))


def shard(recent, *, mixed):
    """A large base, and so many rows that are not in it; None: how many is unknown."""
    other = directory("r", recent or 0, hashed=not mixed)
    if recent is None:
        other = Directory("r", (DataFile("batches/r/0.parquet", 1, None, 5, 5, -1, 1, 0, 0),))
    base = directory("b", 10**9, least=1)
    return Layout("/root", COLUMNS, 7, 10, base, () if mixed else (other,), (other,) if mixed else (), (), ())


class Engine(NoEngine):
    """Keeps the statements that a rewrite runs."""

    def __init__(self):
        self.ran = []

    def execute(self, statement, what):
        self.ran.append(statement)


class Handle:
    """Of a shard in which nothing that is staged has rows."""

    def first_rows(self, file, schema, rows):
        return schema.empty_table()

    def stage(self, negates=()):
        return SimpleNamespace(uri="/shard/batches/new", delete=lambda: None)

    def adopt(self, *_):
        return SimpleNamespace(rows=0, delete=lambda: None)

    def compact(self, *_):
        return SimpleNamespace(applied=True)

    evolve = compact


def compacted(parts):
    engine = Engine()
    files = tuple(file for directory in parts.directories for file in directory.files)
    rewrite.compact(engine, Handle(), CompactionPlan(files, Antichain.of(6)), parts)
    return "\n".join(engine.ran)


def widened(parts):
    engine, state = Engine(), SimpleNamespace(schema=pa.schema([("x", pa.int32())]))
    rewrite.evolve(engine, Handle(), state, parts, (Column("y", parse_type("int", "y")),), CommitNote())
    return "\n".join(engine.ran)


TEXTS = {
    "a view": (view_query, False),
    "a view over rows without hashes": (view_query, True),
    "compaction": (compacted, False),
    "columns that are added": (widened, False),
}


@pytest.mark.parametrize(("text", "mixed"), TEXTS.values(), ids=TEXTS)
def test_only_what_is_known_to_be_small(text, mixed):
    assert "BROADCAST" in text(shard(MAX_BROADCAST, mixed=mixed))
    assert "BROADCAST" not in text(shard(MAX_BROADCAST + 1, mixed=mixed))
    if mixed:
        assert "BROADCAST" not in text(shard(None, mixed=mixed))


def test_what_was_staged_is_not_broadcast_and_the_buckets_are():
    scope = Buckets(20).scope("select 1")
    assert "BROADCAST(_mv_scope)" in scope.restrict("rows")
    assert scope.overlooked("rows", "hashes").count("BROADCAST") == 1
