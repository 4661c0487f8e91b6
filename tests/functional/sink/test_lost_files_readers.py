"""A published view fails its readers while a data file is gone, cut short, emptied, or one too
many: they never get fewer rows.
"""

from __future__ import annotations

import re
import shutil
from contextlib import contextmanager

import pytest

from dbt.adapters.mvsink.shard_sql import Layout, view_query
from tests.functional.sink.test_lost_files import CHANGED, QUERY, cut_short, emptied, file_of, gone
from tests.support.session_engine import Model, open_shard

MESSAGE = "data files of shard .* are gone or damaged"
BY_SPARK = (
    # if the file is the one that Spark takes the columns from
    "FAILED_TO_CREATE_PLAN_FOR_DIRECT_QUERY|UNABLE_TO_INFER_SCHEMA"
)
READERS = {
    "all rows": "select * from {v}",
    "a count": "select count(*) from {v}",
    "one row": "select name from {v} where id = 3",
    "a join": "select * from {v} a join {v} b on a.id = b.id + 100",
    "a limit": "select id from {v} limit 1",
}


def copied(path):
    shutil.copy(path, path.with_name(f"part-x-{path.name}"))


@pytest.fixture(scope="module")
def published(quick, tmp_path_factory):
    """A shard of two batches, and the text of its view."""
    model = Model(quick, tmp_path_factory.mktemp("lost"))
    model.run(QUERY)
    model.run(CHANGED)
    with open_shard(model.uri, None) as handle:
        text = view_query(Layout.of(handle, handle.state()), whole=True)
    return model, text


@contextmanager
def damaged(path, damage):
    """The file at ``path`` with ``damage`` done to it or beside it, until the block ends."""
    contents, siblings = path.read_bytes(), set(path.parent.iterdir())
    damage(path)
    try:
        yield
    finally:
        for added in set(path.parent.iterdir()) - siblings:
            added.unlink()
        path.write_bytes(contents)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("damage", [gone, cut_short, emptied, copied])
def test_every_reader_fails(quick, published, damage, number):
    model, text = published
    results = {}
    with damaged(file_of(model, number), damage):
        for name, query in READERS.items():
            try:
                results[name] = quick.sql(query.format(v=f"({text})")).collect()
            except Exception as error:
                if not re.search(f"{MESSAGE}|{BY_SPARK}", str(error)):
                    results[name] = str(error)
    assert results == {}


def test_a_whole_shard_is_read(quick, published):
    _, text = published
    assert sorted(map(tuple, quick.sql(text).collect())) == [(1, "a"), (3, "c")]
