"""docs/design/shard.md, *Negations*: what a run does when nearly all rows changed."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.shard import cancelled_among, is_negation
from dbt.adapters.mvsink.shard_sql import Layout, as_of
from dbt.adapters.mvsink.sink import Audit, Driver, Gate, MaxChange, RunHistory, not_null
from dbt.adapters.mvsink.sink.errors import GateFailed
from tests.support.seldom import often_rows
from tests.support.session_engine import Model

QUERY = "select id, id + {n} v from range(50)"


@pytest.fixture
def model(session, tmp_path, monkeypatch):
    """A model whose every run evaluates once and compares hashes."""
    monkeypatch.setattr(limits, "COMPARED_WHOLE", 0)
    monkeypatch.setattr(RunHistory, "comparison", lambda *_: "once")
    return Model(session, tmp_path)


def opened(model):
    with model.open(QUERY.format(n=0)) as handle:
        state = handle.state()
        staged = {file.path.split("/")[1] for file in handle.storage.list_files("table")}
        return state, Layout.of(handle, state), staged


def test_the_new_rows_are_the_base_and_the_past_is_kept(model):
    first = model.run(QUERY.format(n=0))
    outcome = model.run(QUERY.format(n=1))
    assert (
        outcome.counts.inserted,
        outcome.counts.deleted,
        sum(batch.rows for batch in outcome.written.batches),
    ) == (50, 50, 100)
    state, shard, _ = opened(model)
    assert shard.base is not None and shard.base.time == outcome.time
    assert (shard.recent, shard.unhashed, len(shard.past)) == ((), (), 1)
    assert "negates" not in model.view() and shard.base.batch_id in model.view()
    before = model.engine().query(as_of.collection_as_of(shard, first.time), "as of")
    assert sorted(before) == [(n, n) for n in range(50)]
    assert model.run(QUERY.format(n=1)).counts.nothing
    assert opened(model)[0].files == state.files


VALUES = {
    "every type": (
        "cast({n} as tinyint) a, cast(1.5 as decimal(38,10)) b, double('nan') c, float(-0.0) d, x'00ff' e, date'2024-02-29' f, "
        "timestamp'1900-01-02 00:00:00' g, timestamp_ntz'2600-01-01 00:00:00.000001' h, array(1, null) i, map('k', double('nan')) j, "
        "named_struct('x', array(named_struct('y', 'ü'))) k, cast(null as string) l, true m",
        0,
    ),
    "dates before 1582": ("{n} v, date'1500-01-01' f", 1),
    "times before 1900, nested": ("{n} v, array(named_struct('x', timestamp'1800-01-01 00:00:00')) g", 1),
}


@pytest.mark.parametrize(
    ("values", "by_spark"), **often_rows(VALUES, "every type", "times before 1900, nested")
)
@pytest.mark.parametrize("cores", [0, 2])
def test_a_negation_has_every_value(model, quick, monkeypatch, cores, values, by_spark):
    model.session = quick
    engine = model.engine()
    monkeypatch.setattr(type(engine), "cores_here", lambda _: cores)
    monkeypatch.setattr(Model, "engine", lambda _: engine)
    query = f"select id, {values} from range(50)"
    first = model.run(query.format(n=0))
    model.run(query.format(n=1))
    assert sum(what == "negate" for what, _ in engine.ran) == (by_spark if cores else 1)
    with model.open(query.format(n=0)) as handle:
        files = handle.state().files

    def rows(wanted, times):
        paths = [sql.parquet(f"{model.uri}/{file.path}") for file in files if wanted(file)]
        read = " union all ".join(
            f"select * except (_mv_time, _mv_diff), _mv_diff * {times} n from {path}" for path in paths
        )
        return sorted(map(str, model.session.sql(read).collect()))

    negation = rows(lambda file: is_negation(file.batch_id), -1)
    assert negation == rows(lambda file: file.max_time == first.time, 1) and len(negation) == 50
    model.assert_holds(query.format(n=1))


@pytest.mark.parametrize(("changed", "negated"), [(20, True), (19, False)])
def test_from_40_percent_on(model, changed, negated):
    model.run(QUERY.format(n=0))
    outcome = model.run(f"select id, if(id < {changed}, -1, id) v from range(50)")
    assert (outcome.counts.inserted, outcome.counts.deleted) == (changed, changed)
    assert bool(opened(model)[1].past) is negated


def test_nothing_is_negated_when_all_rows_go(model):
    model.run(QUERY.format(n=0))
    model.run(f"{QUERY.format(n=0)} where id < 0")
    assert model.rows() == [] and not opened(model)[1].past


def test_error_updates_are_negated_like_rows(model):
    asserted = {"assertions": (not_null("v"),)}
    query = "select id, if(id = {n}, null, id + {n}) v from range(50)"
    for n in range(2):
        outcome = model.run(query.format(n=n), **asserted)
        assert outcome.counts.errors_inserted == 1 - n  # the same message: it stays
    assert opened(model)[1].past
    with pytest.raises(Exception, match='column "v" must not be null'):
        model.rows()
    assert model.run(QUERY.format(n=7), **asserted).counts.errors_deleted == 1
    model.assert_holds(QUERY.format(n=7))


def failing(contents):
    return f"select * from ({contents}) where v > 50"


GATES = {
    "an audit of the new contents": Gate(audits=(Audit("v", failing, lambda c: f"select count(*), false, count(*) > 0 from ({failing(c)})"),)),
    "max_change": Gate(max_change=MaxChange(percent=50)),
}  # fmt: skip


@pytest.mark.parametrize("gate", GATES.values(), ids=GATES)
def test_a_gate_sees_the_new_rows_alone_and_its_failure_leaves_nothing_staged(model, gate):
    model.run(QUERY.format(n=0))
    before, _, staged = opened(model)
    with pytest.raises(GateFailed):
        model.run(QUERY.format(n=5), gate=gate)
    assert (opened(model)[0], opened(model)[2]) == (before, staged)
    passing = Gate(audits=(Audit("n", lambda c: c, lambda c: f"select count(*), false, count(*) <> 50 from ({c})"),))  # fmt: skip
    assert model.run(QUERY.format(n=1), gate=passing).counts.inserted == 50


def test_a_lost_race_deletes_both(model, monkeypatch):
    model.run(QUERY.format(n=0))
    other = Model(model.session, model.root, clock=iter([10**15]))
    query = QUERY.format(n=1)
    with model.open(query) as handle:
        driver = Driver(model.request(query), handle, model.engine())
        append = driver.appender.append

        def after_another(*values, **options):
            monkeypatch.setattr(driver.appender, "append", append)
            other.run(QUERY.format(n=2))
            return append(*values, **options)

        monkeypatch.setattr(driver.appender, "append", after_another)
        assert driver.run().up_to_date and driver.appender.mismatches == 1
    state, _, staged = opened(model)
    assert staged == {file.batch_id for file in state.files}
    model.assert_holds(QUERY.format(n=2))


TAMPERED = {
    "a row of the negation is deleted": ("_mv_diff < 0 and id = 3", [(3, 3)]),
    "a row that it negates": ("_mv_diff > 0 and v = 3 and id = 3", []),
    "a new row": ("_mv_diff > 0 and v = 4 and id = 3", []),
}


@pytest.mark.parametrize(("deleted", "shown"), TAMPERED.values(), ids=TAMPERED)
def test_another_tool_writes_to_one_of_them(model, deleted, shown):
    """Readers add everything up again, and the next run repairs it."""
    model.run(QUERY.format(n=0))
    model.run(QUERY.format(n=1))
    DeltaTable(model.uri).delete(deleted)
    state, shard, _ = opened(model)
    if "v = 4" not in deleted:
        assert not cancelled_among(state.files) and not shard.past
    expected = {(n, n + 1) for n in range(50)} - ({(3, 4)} if "v = 4" in deleted else set()) | set(shown)
    assert model.rows() == sorted(expected, key=repr)
    model.run(QUERY.format(n=1))
    model.assert_holds(QUERY.format(n=1))


def test_a_column_comes(model):
    model.run(QUERY.format(n=0))
    model.run(QUERY.format(n=1))
    query = "select id, id + 1 v, 'new' w from range(50)"
    model.run(query)
    model.assert_holds(query)
    state, _, _ = opened(model)
    assert len({file.batch_id for file in state.files if is_negation(file.batch_id)}) <= 1


def test_a_stray_file_in_a_negated_directory_is_read_by_name(model):
    """It is in the directory and not in the log: a reader of the directory would read it too."""
    from pathlib import Path

    first = model.run(QUERY.format(n=0))
    model.run(QUERY.format(n=1))
    state, _, _ = opened(model)
    old = next(file for file in state.files if file.max_time == first.time)
    path = Path(model.uri) / old.path
    (path.parent / "part-stray.parquet").write_bytes(path.read_bytes())
    model.assert_holds(QUERY.format(n=1))
    _, shard, _ = opened(model)
    rows = model.engine().query(as_of.collection_as_of(shard, first.time), "as of")
    assert sorted(rows) == [(n, n) for n in range(50)]
