"""A published view fails its readers while a data file is gone, truncated, emptied, or one too
many: they never get fewer rows.
"""

from __future__ import annotations

import re
import shutil
from contextlib import contextmanager

import pytest

from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.shard_sql import Layout, view_query
from tests.functional.sink.test_lost_files import CHANGED, QUERY, cut_short, emptied, file_of, gone
from tests.support.seldom import often
from tests.support.session_engine import Model, open_shard

UNREADABLE = "FAILED_READ_FILE"
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


@pytest.mark.parametrize("number", often([0, 1], 1))
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


def overwritten(path):
    """Its size and its footer are as before."""
    contents = path.read_bytes()
    path.write_bytes(contents[:4] + bytes(200) + contents[204:])
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


@pytest.fixture
def lenient(quick):
    """A session that skips what it cannot read."""
    names = [f"spark.sql.files.ignore{kind}Files" for kind in ("Corrupt", "Missing")]
    for name in names:
        quick.conf.set(name, "true")
    yield quick
    for name in names:
        quick.conf.unset(name)


@pytest.mark.parametrize("number", often([0, 1], 1))
def test_a_session_that_skips_damaged_files_skips_none_of_ours(lenient, published, number):
    model, text = published
    queries = [query.format(v=f"({text})") for query in READERS.values()]
    whole = [sorted(lenient.sql(query).collect()) for query in queries]
    read = lenient.sql(queries[0])
    with damaged(file_of(model, number), overwritten):
        for query, rows in zip(queries, whole, strict=True):
            try:  # a count opens no more than the footer
                assert sorted(lenient.sql(query).collect()) == rows
            except Exception as error:
                assert UNREADABLE in str(error)
        with pytest.raises(Exception, match=UNREADABLE):
            lenient.sql(queries[0]).collect()
        with pytest.raises(EngineError) as raised:
            model.run(CHANGED.replace("'c'", "'d'"))
        assert UNREADABLE in str(raised.value.__cause__)
    with (
        damaged(file_of(model, number), gone),
        pytest.raises(Exception, match=f"{UNREADABLE}|are gone or damaged"),
    ):
        read.collect()  # planned while the file was there


def test_a_whole_shard_is_read(quick, published):
    _, text = published
    assert sorted(map(tuple, quick.sql(text).collect())) == [(1, "a"), (3, "c")]
