"""A shard with a live error, or without contents, fails every reader: it never reads as an empty
collection, whatever the optimizers find.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard import Antichain
from dbt.adapters.mvsink.shard.updates import META_SCHEMA
from dbt.adapters.mvsink.shard_sql import Layout, as_of, view_query
from tests.functional.continual_task.driver import Shard
from tests.support.seldom import often
from tests.support.session_engine import Model

BOOM = "it went boom"
QUERIES = {
    "as it is": "select * from {v}",
    "projected: no column": "select 1 from {v}",
    "projected: another column": "select val from {v}",
    "filtered by a value": "select key from {v} where key = 2",
    "filtered so that nothing is left": "select key from {v} where key > 1000 and val is not null",
    "filtered by what is computed": "select key from {v} where coalesce(val, 0) > 1 or key in (1, 2)",
    "the left side of a join": "select w.val from {v} v join other w on v.key = w.key",
    "the right side of a join": "select w.val from other w left join {v} v on v.key = w.key where v.val is null",
    "a join without a condition": "select count(*) from {v} cross join other",
    "a full join": "select count(*) from {v} v full join other w on v.key = w.key",
    "both sides of a join": "select count(*) from {v} a join {v} b on a.key = b.key",
    "a shuffled join": "select /*+ merge(w) */ w.val from {v} v join other w on v.key = w.key",
    "a semi-join": "select * from other where key in (select key from {v})",
    "an anti-join": "select * from other w where not exists (select 1 from {v} v where v.key = w.key)",
    "not in": "select * from other where key not in (select key from {v})",
    "exists": "select * from other where exists (select 1 from {v})",
    "exists, projected": "select exists (select 1 from {v} where key = 7) e",
    "a count": "select count(*) from {v}",
    "a count of a count": "select count(*) from (select key, count(*) from {v} group by key having count(*) > 1)",
    "an aggregate": "select val, max(key) from {v} group by val",
    "a global aggregate below a filter": "select * from (select count(*) c from {v} where key > 5) where c > 0",
    "a distinct": "select distinct val from {v}",
    "a window": "select key, sum(val) over (partition by key order by val) from {v}",
    "a limit": "select key from {v} limit 1",
    "a limit of a sort": "select key from {v} order by val limit 1",
    "an offset": "select key from {v} limit 10 offset 5",
    "a union": "select key from other union all select key from {v}",
    "an intersection": "select key from other intersect select key from {v}",
    "a difference": "select key from other except select key from {v}",
    "a scalar subquery": "select (select max(key) from {v}) m",
    "grouped again and joined": "select o.key from other o join (select distinct key from {v} where val > 3) v on o.key = v.key",
    "a repartition": "select /*+ repartition(3) */ * from {v}",
}


def written(*commits):
    """Fills a shard with such commits: updates at 10, 20, ..."""

    def fill(shard):
        for n, updates in enumerate(commits):
            shard.write(10 * (n + 1), updates)

    return fill


def hashed(shard):
    """A base and recent batches as Spark stages them, with hashes. Only the last one holds an
    error.
    """
    with shard.open() as handle:
        for n, (keys, error) in enumerate([(range(40), None), (range(40, 42), None), ([None], BOOM)]):
            lower, upper = handle.fetch_recent_upper(), Antichain.of(10 * n + 11)
            meta = {TIME: 10 * n + 10, DIFF: 1, ERROR: error}
            rows = [{"key": key, "val": key, **meta, HASH: 100 * n + i} for i, key in enumerate(keys)]
            staged = handle.stage()
            Path(staged.uri).mkdir(parents=True)
            pq.write_table(
                pa.Table.from_pylist(rows, pa.schema([*shard.schema, *META_SCHEMA])),
                f"{staged.uri}/part-0.parquet",
            )
            handle.compare_and_append_batch([handle.adopt(staged, lower, upper)], lower, upper)


def nothing(shard):
    with shard.open():
        pass


ROWS = [(n, n, 1) for n in range(5)]
GONE = [(n, n, -1) for n in range(5)]
SHARDS = {
    "rows and an error": written([*ROWS, (BOOM, 1)]),
    "rows, and an error in a batch of its own": written(ROWS, [(9, 9, 1)], [(BOOM, 1)]),
    "a base, recent rows, and an error, all with hashes": hashed,
    "no rows, an error alone": written([(BOOM, 1)]),
    "no rows left, and an error, in several batches": written(ROWS, GONE, [(BOOM, 2)], [(BOOM, -1)]),
    "no contents": nothing,
}


@pytest.fixture(scope="module")
def shards(quick, tmp_path_factory):
    """Every shard as a view ``guarded_<n>``, in the order of `SHARDS`; and a plain relation."""
    root = tmp_path_factory.mktemp("guarded")
    quick.sql("select * from values (2, 20), (5, 50) as t(key, val)").createOrReplaceTempView("other")
    layouts = []
    for n, fill in enumerate(SHARDS.values()):
        shard = Shard(str(root / str(n)))
        fill(shard)
        with shard.open() as handle:
            state = handle.state()
            layouts.append((state, Layout.of(handle, state)))
        quick.sql(view_query(layouts[-1][1], refreshed=state.readable)).createOrReplaceTempView(
            f"guarded_{n}"
        )
    yield layouts
    for name in ("other", *(f"guarded_{n}" for n in range(len(layouts)))):
        quick.catalog.dropTempView(name)


def readers_without_the_error(session, view):
    """The queries that do not fail with the shard's error, with their results."""
    message = "not refreshed yet" if view.endswith(str(list(SHARDS).index("no contents"))) else BOOM
    results = {}
    for name, query in QUERIES.items():
        try:
            results[name] = session.sql(query.format(v=view)).collect()
        except Exception as error:
            if message not in str(error):
                results[name] = str(error)
    return results


@pytest.mark.parametrize("name", often(SHARDS, "rows, and an error in a batch of its own"))
def test_every_reader_fails(quick, shards, name):
    quick.conf.set("spark.sql.adaptive.enabled", True)
    try:
        assert readers_without_the_error(quick, f"guarded_{list(SHARDS).index(name)}") == {}
    finally:
        quick.conf.set("spark.sql.adaptive.enabled", False)


# Without adaptive execution a plan follows from the view's text, not from the data: one shard for
# each kind of text.
PLANS = ["a base, recent rows, and an error, all with hashes", "no rows, an error alone", "no contents"]


@pytest.mark.parametrize("name", often(PLANS, PLANS[0]))
def test_every_reader_fails_without_adaptive_execution(quick, shards, name):
    assert quick.conf.get("spark.sql.adaptive.enabled") == "false"
    assert readers_without_the_error(quick, f"guarded_{list(SHARDS).index(name)}") == {}


ERRONEOUS = [name for name in SHARDS if name != "no contents"]


@pytest.mark.parametrize("name", ERRONEOUS)
def test_a_read_as_of_a_time_fails_only_if_the_error_was_live_then(quick, shards, name):
    state, parts = shards[list(SHARDS).index(name)]
    newest = state.upper.stored() - 1
    for query in ("select * from ({v})", "select count(*) from ({v}) where key = 2"):
        with pytest.raises(Exception, match=BOOM):
            quick.sql(query.format(v=as_of.collection_as_of(parts, newest))).collect()
    if newest > 10:
        assert len(quick.sql(as_of.collection_as_of(parts, 10)).collect()) == (40 if "hashes" in name else 5)


@pytest.mark.parametrize("name", SHARDS)
def test_a_view_over_a_failing_shard_commits_nothing(quick, shards, tmp_path, name):
    downstream = Model(quick, tmp_path)
    query = f"select count(*) c from guarded_{list(SHARDS).index(name)}"
    with pytest.raises(EngineError) as failed:
        downstream.run(query)
    assert re.search(f"{BOOM}|not refreshed yet", f"{failed.value} {failed.value.__cause__}")
    with downstream.open(query) as handle:
        assert not handle.state().files


@pytest.mark.parametrize(
    "commits", [[[(BOOM, 1)], [(BOOM, -1)]], [ROWS, [(BOOM, 1)], [(BOOM, -1)]]], ids=["no rows", "rows"]
)
def test_a_retracted_error_fails_no_reader(quick, tmp_path, commits):
    shard = Shard(str(tmp_path / "s"))
    written(*commits)(shard)
    with shard.open() as handle:
        text = view_query(Layout.of(handle, handle.state()))
    wanted = sorted(row[:2] for row in commits[0]) if len(commits) > 2 else []
    assert sorted(map(tuple, quick.sql(text).collect())) == wanted
