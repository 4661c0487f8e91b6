"""docs/design/shard.md, *The published view*: the published view over every kind of file set,
its guard, and the order of publications.
"""

from __future__ import annotations

import time
from collections import Counter

import pytest

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.limits import LOCAL_ROWS
from dbt.adapters.mvsink.materialization.publish import Docs, is_current, publish
from dbt.adapters.mvsink.shard_sql import Layout, current_view, view_query
from dbt.adapters.mvsink.shard_sql.published_view import read_published
from tests.support.clocks import collect_at
from tests.support.seldom import often_of
from tests.support.session_engine import Model, SessionEngine

pytestmark = pytest.mark.usefixtures("small_data")

DAY = 86_400_000


@pytest.fixture(params=[0, LOCAL_ROWS], ids=["as a large one", "as a small one"])
def model(request, monkeypatch, quick, tmp_path):
    monkeypatch.setattr(current_view, "LOCAL_ROWS", request.param)
    return Model(quick, tmp_path)


def collection(rows):
    """The query of a multiset of texts."""
    listed = [f"('{x}')" for x in sorted(Counter(rows).elements())]
    if not listed:
        return "select cast(null as string) x where false"
    return "select cast(x as string) x from values " + ", ".join(listed) + " as t(x)"


def shown(model):
    return Counter(x for (x,) in model.rows())


def compacted(model, rows):
    """A shard that is nothing but a consolidated base of ``rows``."""
    short = {"retain_history": 1}
    model.run(collection({**dict.fromkeys(rows, 1), **{f"going {i}": 1 for i in range(10)}}), **short)
    # touches every row that comes more than once, so compaction adds it up
    model.run(collection(rows), **short)
    shard = parts(model)
    assert shard.base is not None and not (shard.recent or shard.unhashed or shard.loose)
    assert shard.base.rows == len(rows) and shard.base.max_diff == max(rows.values())


def parts(model):
    with model.open(collection({})) as handle:
        return Layout.of(handle, handle.state())


# the formula: greatest(0, diff + least(r, 0)) copies of the compacted row, and greatest(r, 0) of
# the recent part

BASE = {"a": 3, "b": 2, "c": 1}
# what never changes, so that no recent batch outgrows the base
REST = {f"rest {i}": 1 for i in range(40)}
HISTORIES = {
    "nothing recent": [],
    "fewer copies": [{"a": 1, "b": 2, "c": 1}],
    "a row gone": [{"a": 3, "b": 2}],
    "everything gone": [{}],
    "more copies": [{"a": 5, "b": 2, "c": 1}],
    "a new row, twice": [{**BASE, "d": 2}],
    "gone and back: r is zero": [{"b": 2, "c": 1}, BASE],
    "fewer, then more than before": [{"a": 1, "b": 2, "c": 1}, {"a": 7, "b": 2, "c": 1}],
    "more, then fewer than before": [{"a": 7, "b": 2, "c": 1}, {"a": 1, "b": 2, "c": 1}],
    "a new row that goes again": [{**BASE, "d": 2}, BASE],
    "all at once, three times": [{"a": 1, "d": 4}, {"b": 5, "d": 1}, {"a": 2, "c": 3}],
}
BASES = {"with duplicates": BASE, "of single rows": {"a": 1, "b": 1, "c": 1}}


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_the_view_shows_the_sum_of_diffs(session, tmp_path, base, history):
    shows(Model(session, tmp_path), base, history)


@pytest.mark.parametrize("base", **often_of(BASES, "with duplicates"))
def test_on_spark_too(model, base):
    shows(model, base, HISTORIES["all at once, three times"])


def shows(model, base, history):
    compacted(model, {**base, **REST})
    kept = parts(model).base
    for rows in history:
        model.run(collection({**rows, **REST}))
        assert shown(model) == Counter({**rows, **REST})
        assert parts(model).base == kept  # so the formula was what showed it
    assert shown(model) == Counter({**(history[-1] if history else base), **REST})


def test_a_first_load_with_duplicates_shows_them_and_loses_them_one_by_one(model):
    for rows in ({"a": 3, "b": 1}, {"a": 2, "b": 1}, {"a": 1, "b": 2}, {"b": 3}):
        model.run(collection(rows))
        assert shown(model) == Counter(rows)


def test_compaction_changes_nothing_that_a_reader_sees(session, tmp_path):
    """Runs over many rows with a short history: the policy compacts again and again."""
    model = Model(session, tmp_path)
    generations = set()
    for n in range(6):
        rows = {f"r{i}": 1 + (i * n) % 3 for i in range(n, 20 + 2 * n)}
        model.run(collection(rows), retain_history=1)
        assert shown(model) == Counter(rows)
        shard = parts(model)
        generations.add(shard.base.batch_id if shard.base else "")
    assert len(generations) > 2


# plain scans


def plan_of(model):
    model.session.sql("set spark.sql.maxMetadataStringLength = 10000")
    try:
        return model.contents()._jdf.queryExecution().executedPlan().toString().split("\n")
    finally:
        model.session.sql("reset spark.sql.maxMetadataStringLength")


def depth(line):
    return next(i for i, character in enumerate(line) if character.isalpha())


def above(lines, position):
    """The operators that the rows of a plan's line go through."""
    operators, least = [], depth(lines[position])
    for line in reversed(lines[:position]):
        if line.strip() and depth(line) < least:
            operators.append(line)
            least = depth(line)
    return operators


def test_a_compacted_shard_of_single_rows_reads_as_a_plain_scan(model):
    compacted(model, BASES["of single rows"])
    plan = "\n".join(plan_of(model))
    assert plan.count("FileScan") == 1 and not any(
        word in plan for word in ("Exchange", "Join", "Aggregate", "Generate")
    )


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_with_recent_batches_it_is_one_scan_of_the_base_and_no_shuffle_of_it(model, base, monkeypatch):
    monkeypatch.setattr(current_view, "LOCAL_ROWS", 0)
    compacted(model, {**base, **REST})
    model.run(collection({"a": 1, "d": 2, **REST}))
    model.run(collection({"a": 1, "d": 1, "e": 1, **REST}))
    lines = plan_of(model)
    scans = [n for n, line in enumerate(lines) if "FileScan" in line and parts(model).base.batch_id in line]
    assert len(scans) == 1
    assert not [line for line in above(lines, scans[0]) if "Exchange" in line]


def test_a_small_view_names_one_scan(quick, tmp_path):
    model = Model(quick, tmp_path)
    for rows in ({"a": 3, "b": 1}, {"a": 1, "c": 1}, {"a": 2}):
        model.run(collection(rows))
        assert model.view().count("parquet.`") == 1
        model.assert_holds(collection(rows))


# publishing


@pytest.fixture(scope="module")
def schema(spark):
    spark.sql("create schema if not exists published")
    yield "published"
    spark.sql("drop schema published cascade")


class CommitsBeforePublish(SessionEngine):
    """Just before it publishes for the first time, another run commits."""

    def __init__(self, session, act):
        super().__init__(session)
        self.act = act

    def execute(self, statement, what):
        if what == "publish" and self.act is not None:
            act, self.act = self.act, None
            act()
        super().execute(statement, what)


def test_a_publisher_that_lost_the_race_publishes_the_newer_version(model, schema, spark):
    model.run(collection("ab"))
    relation = f"{schema}.raced"
    engine = CommitsBeforePublish(spark, lambda: model.run(collection("bc")))
    with model.open(collection({})) as handle:
        state = publish(engine, relation, handle, None, Docs())
        assert state == handle.state()
        view = read_published(engine, relation)
        assert (view.version, is_current(view, state, Docs())) == (state.version, True)
    assert [what for what, _ in engine.ran].count("publish") == 2
    assert sorted(x for (x,) in spark.table(relation).collect()) == ["b", "c"]


def test_a_view_for_an_older_version_is_not_current_and_one_after_an_empty_run_is(model, schema, spark):
    model.run(collection("ab"))
    engine, relation = model.engine(), f"{schema}.currency"
    with model.open(collection({})) as handle:
        publish(engine, relation, handle, None, Docs())
        view = read_published(engine, relation)
        model.run(collection("ab"))
        assert is_current(view, handle.state(), Docs())  # the same files
        model.run(collection("abc"))
        assert not is_current(view, handle.state(), Docs())


def text_of(model):
    """The published view's query, as another metastore would have it."""
    with model.open(collection({})) as handle:
        return view_query(Layout.of(handle, handle.state()))


def test_a_view_that_another_metastore_published_stays_readable_after_compaction(model, spark):
    short = {"retain_history": 1}
    model.run(collection("aab"), **short)
    older = text_of(model)
    before = parts(model).files
    for rows in ("aabc", "abcd", "abcdef"):
        model.run(collection(rows), **short)
    assert not set(before) & set(parts(model).files)  # compacted away
    now = int(time.time() * 1000)
    with model.open(collection({})) as handle:
        collect_at(handle, now + 6 * DAY)
        assert sorted(x for (x,) in spark.sql(older).collect()) == ["a", "a", "b"]
        collect_at(handle, now + 8 * DAY)
    with pytest.raises(Exception, match="PATH_NOT_FOUND|does not exist|FAILED_READ_FILE"):
        spark.sql(older).collect()
    assert shown(model) == Counter("abcdef")


def test_a_shard_without_contents_is_refused_by_the_view_also_when_its_upper_was_raised(model, schema, spark):
    def die():
        raise RuntimeError("killed")

    failpoints.install(lambda point: die() if point == "upper raised" else None)
    try:
        with pytest.raises(RuntimeError, match="killed"):
            model.run(collection("ab"))
    finally:
        failpoints.install(None)
    relation = f"{schema}.no_contents"
    with model.open(collection({})) as handle:
        publish(model.engine(), relation, handle, None, Docs())  # as `dbt run --empty` would
    with pytest.raises(Exception, match="not refreshed yet"):
        spark.table(relation).collect()
