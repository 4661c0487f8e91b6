"""The tables of docs/design/sink.md's *write*, and what a correction must be right for."""

from __future__ import annotations

import random

import pytest

from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.shard_sql import Kind, Layout, OnError
from dbt.adapters.mvsink.sink import not_null
from tests.support.session_engine import Model


@pytest.fixture
def model(spark, tmp_path):
    return Model(spark, tmp_path)


def values(*rows: str) -> str:
    """A collection of one text column; no rows is an empty one."""
    if not rows:
        return "select cast(null as string) x where false"
    return "select cast(x as string) x from values " + ", ".join(f"({row})" for row in rows) + " as t(x)"


A, B, C = "'a'", "'b'", "'c'"
# the other rows of the table are in test_rules_write.py; these compile the same code
TABLE = {
    "{a,b} on {a,c}": ((A, B), (A, C), [("b", 1), ("c", -1)]),
    "a row three times in desired and once in persist": ((A, A, A), (A,), [("a", 2)]),
    "NULL equals NULL": (("null", A), ("null",), [("a", 1)]),
}


@pytest.mark.parametrize(("desired", "shard", "batch"), TABLE.values(), ids=TABLE)
def test_the_staged_batch(model, desired, shard, batch):
    model.run(values(*shard))
    outcome = model.run(values(*desired))
    with model.open(values()) as handle:
        newest = max(handle.state().files, key=lambda file: file.min_time).batch_id
    rows = model.session.read.parquet(f"{model.uri}/table/{newest}").collect()
    assert sorted((row["x"], row["_mv_diff"]) for row in rows) == batch
    assert {row["_mv_time"] for row in rows} == {outcome.time}
    model.assert_holds(values(*desired))


def test_a_hash_that_the_base_repeats_is_null_in_corrections_and_reads_are_right_before_and_after_compaction(
    session, tmp_path
):
    # so that compaction may consolidate
    model = Model(session, tmp_path, options={"retain_history": 1000})
    wanted = [A, A, A, B, B, C]

    def query(first):
        return f"{values(*wanted)} union all select concat('row ', id) from range({first}, 120)"

    model.run(query(0))  # as it comes: one record a row
    for gone, first in (*((row, 0) for row in (A, B, A, C)), *(("", first) for first in range(1, 14))):
        if gone:
            wanted.remove(gone)
        outcome = model.run(query(first))
        assert (outcome.counts.inserted, outcome.counts.deleted) == (0, 1)
        if gone or first == 13:
            model.assert_holds(query(first))
        with model.open(values()) as handle:
            parts = Layout.of(handle, handle.state())
        if gone is A and wanted.count(A) == 2:
            assert [d.batch_id for d in parts.unhashed] and parts.base is not None
    assert not parts.unhashed  # compaction came by, and consolidated what was repeated
    assert model.engine().query(parts.select([parts.base], "sum(_mv_diff) n"), "rows")[0][0] > 0


def test_rows_that_break_not_null_become_errors_and_heal(model):
    model.run(values(A, C))
    asserted = (not_null("x"),)
    outcome = model.run(values(A, "null", "null"), assertions=asserted)
    assert (outcome.counts.inserted, outcome.counts.deleted, outcome.counts.errors_inserted) == (0, 1, 2)
    assert outcome.warnings and "2 rows break an assertion" in outcome.warnings[0]
    with pytest.raises(Exception, match='column "x" must not be null'):
        model.contents().collect()
    healed = model.run(values(A, B), assertions=asserted)
    assert (healed.counts.inserted, healed.counts.errors_deleted) == (1, 2)
    model.assert_holds(values(A, B))


def test_a_failing_query_is_recorded_and_leaves_the_rows(model):
    model.run(values(A))
    broken = "select cast(raise_error('no') as string) x"
    division = f"select cast(1 / (length(x) - 1) as string) x from ({values(A)})"
    outcome = model.run(division, on_query_error=OnError.RECORD)
    assert (outcome.counts.inserted, outcome.counts.deleted, outcome.counts.errors_inserted) == (0, 0, 1)
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        model.contents().collect()
    again = model.run(division, on_query_error=OnError.RECORD)
    assert again.kind is Kind.NONE
    # not an error that the data cause: it always fails
    with pytest.raises(EngineError, match="no"):
        model.run(broken, on_query_error=OnError.RECORD)
    model.run(values(A, B))
    model.assert_holds(values(A, B))


def test_a_failing_query_fails_the_model_and_leaves_the_shard(model):
    model.run(values(A))
    with model.open(values()) as handle:
        before = handle.state()
    with pytest.raises(EngineError, match="DIVIDE_BY_ZERO"):
        model.run(f"select cast(1 / (length(x) - 1) as string) x from ({values(A)})")
    with model.open(values()) as handle:
        assert handle.state() == before
        assert {f.path.split("/")[1] for f in handle.storage.list_files("table")} == {
            f.batch_id for f in before.files
        }


READERS = [
    "select x from {v} where x = 'q'",
    "select count(*) from {v}",
    "select 1 from {v} v join {v} w using (x)",
]


def test_every_reader_of_a_live_error_fails(model):
    model.run(values(A, "null"), assertions=(not_null("x"),))
    model.contents().createOrReplaceTempView("failing")
    for reader in READERS:
        with pytest.raises(Exception, match="must not be null"):
            model.session.sql(reader.format(v="failing")).collect()


def test_a_second_run_without_changes_writes_no_file(model):
    model.run(values(A, B))
    with model.open(values()) as handle:
        before = handle.state()
    outcome = model.run(values(B, A))
    with model.open(values()) as handle:
        after = handle.state()
    assert outcome.kind is Kind.NONE and outcome.counts.nothing
    assert after.files == before.files and after.version == before.version + 1
    assert after.upper.as_option() == outcome.time + 1


def test_read_only_reports_and_writes_nothing_then_the_same_is_written(model):
    model.run(values(A, C))
    with model.open(values()) as handle:
        before = (handle.state(), sorted(f.path for f in handle.storage.list_files("")))
    would = model.run(values(A, B, B), read_only=True, sample=10)
    with model.open(values()) as handle:
        assert (handle.state(), sorted(f.path for f in handle.storage.list_files(""))) == before
    written = model.run(values(A, B, B))
    assert would.kind is Kind.READ_ONLY and would.counts == written.counts
    assert sorted((row[0], row[2]) for row in would.preview.sample) == [("b", 2), ("c", -1)]


def test_a_nondeterministic_query_is_evaluated_once(model):
    model.run("select id, rand() r from range(100)")
    outcome = model.run("select id, rand() r from range(100)")
    assert outcome.written.evaluated_once
    assert (outcome.counts.inserted, outcome.counts.deleted) == (100, 100)
    assert model.contents().count() == 100


def test_a_run_of_an_earlier_time_finds_the_shard_past_it(model):
    later = model.run(values(A), time=5000)
    outcome = model.run(values(B), time=4000)
    assert outcome.up_to_date and outcome.kind is Kind.NONE
    assert outcome.upper == later.upper
    model.assert_holds(values(A))


def test_an_upper_ahead_of_the_clock_is_a_warning_and_full_refresh_the_way_out(model):
    model.run(values(A), time=9_000_000, clock=1000)
    outcome = model.run(values(B), time=2000, clock=2000)
    assert "ahead of the clock" in outcome.warnings[0] and "--full-refresh" in outcome.warnings[0]
    model.run(values(B), time=2500, clock=2500, full_refresh=True)
    model.assert_holds(values(B))


EVERY_TYPE = """select id,
  id % 2 = 0 as c_boolean, cast(id as tinyint) c_tinyint, cast(id as smallint) c_smallint, cast(id as int) c_int,
  case id % 4 when 0 then float('NaN') when 1 then float('-0.0') when 2 then float('0.0') end c_float,
  case id % 4 when 0 then double('NaN') when 1 then -0.0D when 2 then 0.0D end c_double,
  cast(id as decimal(10,2)) / 4 c_decimal, cast(id as decimal(38,10)) c_wide,
  nullif(concat('text ''\\n', id), concat('text ''\\n', 3)) c_string, cast(cast(id as string) as binary) c_binary,
  date_add(date'2020-01-01', cast(id as int)) c_date, timestamp_micros(id * 1000001) c_timestamp,
  cast(timestamp_micros(id * 1000001) as timestamp_ntz) c_ntz,
  if(id % 3 = 0, null, array(id, null, id % 2)) c_array, array(array(), array(id)) c_arrays,
  if(id % 5 = 0, null, named_struct('a', id, 'b', if(id % 2 = 0, null, 'x'))) c_struct,
  map('k', id % 7, 'l', null) c_map, array(map('m', named_struct('d', -0.0D))) c_deep,
  cast(null as int) c_null
from range({n}) lateral view explode(sequence(0, cast(id % 3 as int))) d as copy"""


def test_every_supported_type_with_duplicates_and_random_mutations(model):
    """Contents equal the model's query after each of 200 random mutations, and each is found by its
    exact size.
    """
    spark, chance = model.session, random.Random(7)
    query = EVERY_TYPE.format(n=60)
    names = [name for name, _ in model.engine().columns(query)]
    source = spark.sql(query).localCheckpoint()
    rows = list(range(source.count()))
    # its own toDF would go to the session made last
    pairs = source.rdd.zipWithIndex().map(lambda pair: (*pair[0], pair[1]))
    numbered = spark.createDataFrame(pairs, source.schema.add("n", "long")).localCheckpoint()
    numbered.createOrReplaceTempView("every_type")
    wanted = "select " + ", ".join(names) + " from every_type join values {} as k(n) using (n)"
    for round_ in range(3):
        for _ in range(67):  # a mutation: a row vanishes, comes, or comes once more
            if chance.random() < 0.5 and len(rows) > 1:
                rows.pop(chance.randrange(len(rows)))
            else:
                rows.append(chance.randrange(numbered.count() if round_ == 0 else 120))
        text = wanted.format(", ".join(f"({n})" for n in rows))
        model.run(text)
        assert canonical(spark, model.contents()) == canonical(spark, spark.sql(text))


def canonical(spark, frame):
    """A multiset of rows; maps have no order, and EXCEPT refuses them, so rows are compared as
    sorted text.
    """
    return sorted(str(tuple(_plain(value) for value in row)) for row in frame.collect())


def _plain(value):
    if isinstance(value, float):
        return "nan" if value != value else value + 0.0
    if isinstance(value, dict):
        return sorted((key, _plain(inner)) for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value


def test_equal_by_group_by_is_no_change(model):
    model.run("select -0.0D d, array(float('-0.0')) a, map('x', 1, 'y', 2) m, float('nan') f")
    outcome = model.run("select 0.0D d, array(float('0.0')) a, map('y', 2, 'x', 1) m, float('nan') f")
    assert outcome.kind is Kind.NONE


CONFUSABLE = [  # pairs of values in two columns whose plain hashes are equal
    ("1, cast(null as int)", "cast(null as int), 1"),
    ("array(1, null), 1", "array(null, 1), 1"),
    ("array(array(), array(1)), 1", "array(array(1), array()), 1"),
    ("cast(array() as array<int>), 1", "cast(null as array<int>), 1"),
    ("named_struct('a', 1, 'b', cast(null as int)), 1", "named_struct('a', cast(null as int), 'b', 1), 1"),
    ("map('a', 1, 'b', cast(null as int)), 1", "map('a', cast(null as int), 'b', 1), 1"),
    ("'ab', 'c'", "'a', 'bc'"),
]


def test_rows_that_a_plain_hash_confuses_are_different_rows(model):
    """Every pair has two columns of its own, which are NULL in the rows of the others."""

    def row(pair, side):
        values = ["null, null"] * len(CONFUSABLE)
        values[pair] = CONFUSABLE[pair][side]
        return f"select {pair}, {', '.join(values)}"

    def rows(other):
        return [row(pair, side) for pair in range(len(CONFUSABLE)) for side in (0, other)]

    names = ", ".join(f"a{pair}, b{pair}" for pair in range(len(CONFUSABLE)))
    for other in (1, 0):
        outcome = model.run(f"select * from ({' union all '.join(rows(other))}) as t(pair, {names})")
    assert (outcome.counts.inserted, outcome.counts.deleted) == (len(CONFUSABLE), len(CONFUSABLE))


def test_a_directory_name_with_wildcards_is_taken_literally(spark, tmp_path):
    (tmp_path / "b").mkdir()  # matches as a pattern
    model = Model(spark, tmp_path / "a{b,c}[ab]?x*y")
    for wanted in ((A, B), (A, C, C), (A, C, C)):
        outcome = model.run(values(*wanted))
        model.assert_holds(values(*wanted))
    assert outcome.kind is Kind.NONE
