"""A small shard is corrected in this process exactly as Spark corrects it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.engine import EngineError, sql
from dbt.adapters.mvsink.shard_sql import BatchDescription, Layout, OnError
from dbt.adapters.mvsink.sink import Assertion, Driver, RunPlan, not_null, write
from tests.support.seldom import often, often_of
from tests.support.session_engine import Model, SessionEngine

# before, and after: a value goes, one comes, one stays, one is there more often
TYPES = {
    "text": ("string", ["'a'", "''", "'ä€'", "null"], ["'b'", "''", "null"]),
    "invalid text": ("string", ["cast(x'ff61' as string)"], ["cast(x'fe61' as string)"]),
    "binary": ("binary", ["x'00ff'", "x''", "null"], ["x'00'", "x''"]),
    "boolean": ("boolean", ["true", "null"], ["false", "null"]),
    "tinyint": ("tinyint", ["1", "-128"], ["127", "-128"]),
    "smallint": ("smallint", ["1", "-32768"], ["32767", "-32768"]),
    "int": ("int", ["1", "-2147483648"], ["2147483647"]),
    "bigint": ("bigint", ["1", "-9223372036854775808"], ["9223372036854775807"]),
    "decimal": ("decimal(38,18)", ["1.5", "-99999999999999999999.999999999999999999"], ["1.50", "2"]),
    "small decimal": ("decimal(5,2)", ["1.5", "-999.99"], ["999.99", "1.5"]),
    "double": ("double", ["0.0", "double('nan')", "1e308"], ["-0.0", "double('nan')", "double('-inf')"]),
    "float": ("float", ["float('-0.0')", "float('nan')"], ["float('0.0')", "float('inf')"]),
    "date": ("date", ["date'2026-01-01'", "date'9999-12-31'"], ["date'1970-01-01'"]),
    "old date": ("date", ["date'2026-01-01'"], ["date'1500-02-28'", "date'0001-01-01'"]),
    "timestamp": ("timestamp", ["timestamp'2026-01-01 00:00:00.123456 Europe/Paris'"], ["timestamp'9999-12-31'"]),
    "old timestamp": ("timestamp", ["timestamp'2026-01-01'"], ["timestamp'1800-01-01 00:00:00.000001'"]),
    "timestamp_ntz": ("timestamp_ntz", ["timestamp_ntz'2026-01-01 00:00:00.123456'"], ["timestamp_ntz'1970-01-01'"]),
    "array": ("array<int>", ["array(1, null)", "array()", "null"], ["array(null, 1)", "array()"]),
    "array of text": ("array<string>", ["array('a', '')"], ["array('a')", "array('a', '', null)"]),
    "struct": ("struct<a:int,b:string>", ["named_struct('a', 1, 'b', null)"], ["named_struct('a', null, 'b', '1')"]),
    "map": ("map<string,int>", ["map('a', 1, 'b', 2)", "map()"], ["map('b', 2, 'a', 1)", "map('a', cast(null as int))"]),
    "map of arrays": ("map<int,array<decimal(4,1)>>", ["map(1, array(1.0))"], ["map(1, array(1.0, null))"]),
    "nested time": ("array<timestamp>", ["array(timestamp'2026-01-01 00:00:00.000001')"], ["array(timestamp'1700-01-01')"]),
    "nested float": ("array<double>", ["array(0.0D, double('nan'))"], ["array(-0.0D, double('nan'))", "array(1.0D)"]),
}  # fmt: skip
OFTEN = (
    "invalid text", "binary", "bigint", "decimal", "small decimal", "double", "float", "old date", "timestamp", "struct",
    "map of arrays", "nested float",
)  # fmt: skip
BY_SPARK = {"old date", "old timestamp", "nested time", "nested float"}


@pytest.fixture
def model(quick, tmp_path):
    return Model(quick, tmp_path)


def rows_of(kind, values):
    """Each value once, the last twice."""
    listed = [
        f"select {n % 2} id, cast({value} as {kind}) v" for n, value in enumerate([*values, values[-1]])
    ]
    return " union all ".join([*listed, listed[-1]])


def corrections(model, query, **changes):
    """The correction to ``query`` as staged here, and by Spark. Nothing is appended."""
    with model.open(query) as handle:
        driver = Driver(model.request(query, **changes), handle, SessionEngine(model.session))
        state, time = handle.state(), driver.request.time
        plan = RunPlan(time, time, state.upper.of(time + 1))
        description = BatchDescription(state.upper, plan.upper)
        at = driver._begun(state, plan, Layout.of(handle, state), description)
        written = driver.write.whole_rows_locally(at, sql.Shared())
        ways = [None if written is None else written.batch]
        correction = write.correction_of(at.desired, at)
        ways.append(driver.write.stager.stage(correction.updates_before(plan.upper.stored()), "write"))
        return [None if way is None else staged(model.session, way.uri) for way in ways]


def staged(session, uri):
    """Types and rows, as Spark reads them."""
    read = session.read.parquet(uri)
    shown = [f"cast({name} as string) {name}" for name in read.columns if name != "v"]
    values = ["cast(v as string) v", "hex(cast(v as string)) h"] if "v" in read.columns else []
    return read.dtypes, sorted(map(tuple, read.selectExpr(*shown, *values).collect()), key=repr)


@pytest.mark.parametrize("name", often(TYPES, *OFTEN))
def test_both_ways_stage_the_same(model, name):
    kind, before, after = TYPES[name]
    model.run(rows_of(kind, before))
    here, by_spark = corrections(model, rows_of(kind, after))
    assert here == (None if name in BY_SPARK else by_spark)
    assert by_spark[1]
    model.run(rows_of(kind, after))
    assert model.run(rows_of(kind, after)).counts.nothing


def texts(*rows):
    return " union all ".join(f"select cast({row} as string) x" for row in rows)


HISTORIES = {
    "several batches": [["1", "2", "3"], ["2", "3", "4"], ["2", "2", "5"], ["5"]],
    "a first load of equal rows": [["1", "1", "1", "2"], ["1", "1", "2"], ["1", "2"], ["2", "2", "1"]],
    "all go, all come": [["1", "2"], ["3"], ["1", "2"]],
    "NULLs": [["null", "null"], ["null"], ["null", "1"]],
}


@pytest.mark.parametrize("history", **often_of(HISTORIES, "several batches", "NULLs"))
def test_hashes_are_absent_where_spark_leaves_them_out(model, history):
    for rows in history:
        if rows is not history[0]:
            here, by_spark = corrections(model, texts(*rows))
            assert here == by_spark
        model.run(texts(*rows))
        model.assert_holds(texts(*rows))


def test_two_rows_of_one_hash_are_written_without_it(model, monkeypatch):
    monkeypatch.setattr("dbt.adapters.mvsink.sink.correction.row_hash", lambda *_: "xxhash64(1)")
    model.run(texts("1", "2"))
    here, by_spark = corrections(model, texts("1", "3"))
    assert here == by_spark
    assert {row[-1] for row in here[1]} == {None}


def test_errors_are_rows_too(model):
    asserted = (not_null("x"),)
    model.run(texts("1", "2"), assertions=asserted)
    here, by_spark = corrections(model, texts("1", "null", "null"), assertions=asserted)
    assert here == by_spark and len(here[1]) == 2
    outcome = model.run(texts("1", "null", "null"), assertions=asserted)
    assert (outcome.counts.deleted, outcome.counts.errors_inserted) == (1, 2)
    outcome = model.run(texts("1"), assertions=asserted)
    assert outcome.counts.errors_deleted == 2
    model.assert_holds(texts("1"))


def test_a_larger_result_is_left_to_spark(model, monkeypatch):
    monkeypatch.setattr(limits, "LOCAL_ROWS", 3)
    model.run(texts("1", "2", "3"))
    assert corrections(model, texts("1", "2", "4"))[0] is not None
    assert corrections(model, texts("1", "2", "4", "5"))[0] is None
    model.run(texts("1", "2", "4", "5"))
    model.assert_holds(texts("1", "2", "4", "5"))
    assert corrections(model, texts("1"))[0] is None  # the shard is no longer small


def test_a_row_without_any_hash_is_left_to_spark(model):
    model.run(texts("1", "2"))
    with model.open(texts("1")) as handle:
        upper = handle.state().upper
        time = upper.stored()
        handle.compare_and_append(
            pa.table({"x": ["7"], "_mv_time": [time], "_mv_diff": [1]}), upper, upper.of(time + 1)
        )
    assert corrections(model, texts("1"))[0] is None
    model.run(texts("1"))
    model.assert_holds(texts("1"))


def test_an_error_of_the_data_is_raised_or_recorded_and_any_other_is_left_to_spark(model):
    model.run(texts("1"))
    failing = "select cast(1 div (id - 1) as string) x from range(3)"
    with pytest.raises(EngineError) as raised:
        corrections(model, failing)
    assert raised.value.caused_by_data
    assert model.run(failing, on_query_error=OnError.RECORD).counts.errors_inserted == 1
    model.run(texts("2"))
    model.assert_holds(texts("2"))


def test_a_small_shard_is_compacted_without_spark(model):
    model.options = {"retain_history": 1000}
    for n in range(18):
        model.run(texts(*map(str, range(n, n + 30))))
    model.assert_holds(texts(*map(str, range(17, 47))))
    with model.open(texts("1")) as handle:
        kinds = [commit.kind for commit in handle.history()]
        layout = Layout.of(handle, handle.state())
    assert "compact" in kinds and layout.base is not None and not layout.unhashed


@pytest.mark.parametrize(
    ("asserted", "large"),
    [(not_null("x", fails=True), False), (Assertion("not (x <> '0'\n)", "x is 0", fails=True), True)],
    ids=["not_null, small", "a check, large"],
)
def test_row_f_whatever_is_asserted_files_have_the_shards_types(model, monkeypatch, asserted, large):
    if large:
        monkeypatch.setattr(limits, "LOCAL_ROWS", 0)
        monkeypatch.setattr(limits, "COMPARED_WHOLE", 0)
    for rows, assertions in ((["1", "2", "3"], [asserted]), (["1", "2", "4"], [asserted]), (["1", "5"], [])):
        model.run(texts(*rows), assertions=tuple(assertions))
        model.assert_holds(texts(*rows))
