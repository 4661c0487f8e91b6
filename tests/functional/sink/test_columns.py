"""Columns that a query has gained are added to the shard in place: its history goes on."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.engine.whole_rows import row_hash
from dbt.adapters.mvsink.materialization.response import log_line
from dbt.adapters.mvsink.shard import Antichain, SchemaMismatch
from dbt.adapters.mvsink.shard_sql import Kind, Layout, OnError, as_of, layout
from dbt.adapters.mvsink.sink import (
    Driver,
    Gate,
    MaxChange,
    OnSchemaChange,
    SchemaChanged,
    correction,
    not_null,
)
from tests.support.seldom import often_rows
from tests.support.session_engine import T0, Model, SessionEngine, open_shard

NAMES = "select id, concat('row ', id) name from range({})"
WIDER = "select id, concat('row ', id) name, id * 10 c from range({})"
KEEP = OnSchemaChange.APPEND_NEW_COLUMNS


@pytest.fixture
def model(session, tmp_path):
    yield Model(session, tmp_path)
    failpoints.install(None)


@pytest.fixture
def on_spark(quick, tmp_path):
    yield Model(quick, tmp_path)
    failpoints.install(None)


def state_of(model):
    with open_shard(model.uri, None) as handle:
        return handle.state()


def parts(model):
    with open_shard(model.uri, None) as handle:
        return Layout.of(handle, handle.state())


def held_at(model, time):
    """The collection at ``time`` as sorted tuples."""
    return sorted(model.engine().query(as_of.collection_as_of(parts(model), time), "as of"), key=repr)


def kinds(model):
    with open_shard(model.uri, None) as handle:
        return [commit.kind for commit in handle.history()]


def test_history_goes_on_and_is_null_in_the_new_column(model):
    first = model.run(NAMES.format(3))
    second = model.run(NAMES.format(4))
    before = state_of(model)
    would = model.run(WIDER.format(4), read_only=True, sample=100)
    assert state_of(model) == before and len(would.preview.sample) == 8
    assert would.preview.compacted == before.files  # what adding the column rewrites
    outcome = model.run(WIDER.format(4))
    after = state_of(model)
    assert (outcome.counts.inserted, outcome.counts.deleted) == (4, 4) and would.counts == outcome.counts
    assert log_line(would) == "read-only: would write +4 -4; columns added: c bigint"
    assert log_line(outcome).endswith("; columns added: c bigint") and outcome.generation == ""
    assert (after.generation, after.since, after.creation) == (0, before.since, before.creation)
    assert kinds(model)[-2:] == ["evolve", "append"]
    with open_shard(model.uri, None) as handle:
        evolve = handle.history()[-2]
    assert (evolve.note.purpose, evolve.upper, evolve.note.computed_through) == (
        "columns added: c bigint",
        None,
        outcome.time,
    )
    model.assert_holds(WIDER.format(4))
    assert held_at(model, first.time) == [(i, f"row {i}", None) for i in range(3)]
    assert (
        held_at(model, second.time)
        == held_at(model, outcome.time - 1)
        == [(i, f"row {i}", None) for i in range(4)]
    )
    assert held_at(model, outcome.time) == [(i, f"row {i}", i * 10) for i in range(4)]
    changes = as_of.updates_between(parts(model), second.time, outcome.time)
    assert model.engine().query(changes, "changes") == [(3, "row 3", None, second.time, 1, None)]
    again = model.run(WIDER.format(4))
    assert again.counts.nothing and again.kind is Kind.NONE and again.columns_added == ()

    table = DeltaTable(model.uri)  # what other engines see
    assert [field.name for field in table.schema().fields][:3] == ["id", "name", "c"]
    rows = table.to_pyarrow_table(columns=["id", "c", "_mv_diff"]).to_pylist()
    assert sorted((r["id"], r["c"] or -1, r["_mv_diff"]) for r in rows if r["id"] == 2) == [
        (2, -1, -1),
        (2, -1, 1),
        (2, 20, 1),
    ]


VALUES = "select cast(x as string) x{} from values {} as t(x)"
NULL = ", cast(null as map<string, array<int>>) m"
# the contents run by run before; after columns are added, the rows of all times are as they were
CONTENTS = {
    "rows that the base repeats, corrected": (
        [["'a'", "'a'", "'a'", "null", "null", "'b'"], ["'a'", "'a'", "null"]],
        {},
    ),
    "never anything": ([[]], {}),
    "more inserted than was there": (
        [["'a'"], ["'a'", "'b'", "'c'", "'d'"], ["'b'", "'c'", "'d'", "'e'"]],
        {},
    ),
    "errors": ([["'a'", "null"], ["'a'", "null", "null"], ["'a'", "null"]], {"assertions": (not_null("x"),)}),
}


def values(rows, more=""):
    empty = f"select cast(null as string) x{more} where false"
    return VALUES.format(more, ", ".join(f"({row})" for row in rows)) if rows else empty


def snapshot(model, time):
    query = as_of.snapshot_as_of(parts(model), time)
    return sorted(
        model.engine().query(f"select x, _mv_error, sum(_mv_diff) from ({query}) group by all", "snapshot"),
        key=repr,
    )


@pytest.mark.parametrize(
    ("runs", "how"), **often_rows(CONTENTS, "rows that the base repeats, corrected", "errors")
)
def test_every_kind_of_contents_survives(on_spark, runs, how):
    model = on_spark
    times = [model.run(values(rows), **how).time for rows in runs]
    before = [snapshot(model, time) for time in times]
    base = parts(model).base
    added = model.run(values(runs[-1], NULL), **how)  # of a type that Spark's own hash refuses
    # NULL everywhere: the shard is right already
    assert added.counts.nothing and [c.name for c in added.columns_added] == ["m"]
    assert [snapshot(model, time) for time in times] == before
    shard = parts(model)
    assert len(shard.directories) <= 2 and (shard.base is None) == (base is None)
    assert base is None or base.rows == shard.base.rows
    assert model.run(values(runs[-1], NULL), **how).counts.nothing
    filled = values([*runs[-1], "'z'"], ", map('k', array(1, null)) m")
    final = model.run(filled, **how)
    assert final.counts.inserted >= 1 and snapshot(model, times[-1]) == before[-1]
    if not how:  # Spark has no EXCEPT for maps
        assert model.rows() == sorted(model.engine().query(filled, "filled"), key=repr)


def test_a_hash_that_the_base_repeats_stays_null_and_the_others_are_believed(model):
    model.run(values(["'a'"] * 3 + ["'b'", "'c'"] + [f"'{i}'" for i in range(50)]))
    model.run(values(["'a'"] * 2 + ["'b'"] + [f"'{i}'" for i in range(50)]))
    model.run(values(["'a'"] * 2 + ["'b'"] + [f"'{i}'" for i in range(50)], ", cast(null as int) n"))
    shard = parts(model)
    [rest] = shard.unhashed
    rows = pq.read_table(f"{model.uri}/table/{rest.batch_id}").to_pylist()
    assert sorted((row["x"], row["_mv_diff"], row["_mv_hash"] is None) for row in rows) == [
        ("a", -1, True),
        ("c", -1, False),
    ]


def test_two_rows_of_one_hash_are_different_rows(model, monkeypatch):
    """A hash of 6 bits: nearly every row shares its hash with another."""
    model.run(NAMES.format(300))
    model.run("select id, concat('row ', id) name from range(20, 320)")
    for module in (layout, correction):
        monkeypatch.setattr(module, "row_hash", lambda *arguments: f"({row_hash(*arguments)} & 63)")
    wider = "select id, concat('row ', id) name, cast({} as bigint) c from range({}, {})"
    assert model.run(wider.format("null", 20, 320)).columns_added
    assert parts(model).unhashed and not parts(model).recent
    model.assert_holds(wider.format("null", 20, 320))


# which changes are made in place


def test_a_column_that_the_query_lost_stays_as_null_with_append_new_columns(model):
    first = model.run("select id, 'n' n from range(2)", on_schema_change=KEEP)
    both = "select id, 1 as one from range(2)"
    would = model.run(both, on_schema_change=KEEP, read_only=True)
    outcome = model.run(both, on_schema_change=KEEP)
    assert would.counts == outcome.counts and (outcome.counts.inserted, outcome.counts.deleted) == (2, 2)
    assert log_line(outcome).endswith("; columns added: one int") and state_of(model).generation == 0
    assert model.rows() == [(0, None, 1), (1, None, 1)]
    assert held_at(model, first.time) == [(0, "n", None), (1, "n", None)]


def test_fail_still_fails_and_other_changes_are_still_generations(on_spark):
    on_spark.run(NAMES.format(2))
    with pytest.raises(SchemaChanged, match="`c` bigint is new"):
        on_spark.run(WIDER.format(2), on_schema_change=OnSchemaChange.FAIL)
    changed = {
        "select id, concat('row ', id) as label from range(2)": "`label` string is new; `name` is gone",
        "select cast(id as int) id, concat('row ', id) as label, 1 as c from range(2)": "`c` int is new; `id` was bigint, is int",
        "select id, label, c, named_struct('a', 1) s from (select 1 id, 'b' label, 2 c)": "`s` struct<a:int> is new; `id` was int, is int",
    }
    for query, words in list(changed.items())[:2]:
        outcome = on_spark.run(query)
        assert outcome.generation == f"columns changed ({words})" and outcome.columns_added == ()
    nested = "select cast(id as int) id, concat('row ', id) as label, 1 as c, {} s from range(2)"
    outcome = on_spark.run(nested.format("named_struct('a', 1)"))
    assert [c.name for c in outcome.columns_added] == ["s"] and outcome.generation == ""
    outcome = on_spark.run(nested.format("named_struct('a', 1, 'b', 2)"))
    assert outcome.generation == "columns changed (`s` was struct<a:int>, is struct<a:int,b:int>)"
    on_spark.assert_holds(nested.format("named_struct('a', 1, 'b', 2)"))


def test_with_a_gate_columns_are_added_in_place_and_a_gate_that_fails_leaves_everything(model):
    first = model.run(NAMES.format(3))
    before, files = state_of(model), stored(model)
    strict = Gate(MaxChange(rows=1))
    with pytest.raises(Exception, match="6 rows, max_change allows 1"):
        model.run(WIDER.format(9), gate=strict)
    assert state_of(model) == before and stored(model) == files
    would = model.run(WIDER.format(9), gate=strict, read_only=True)
    assert "6 rows, max_change allows 1" in would.preview.gate
    outcome = model.run(WIDER.format(3), gate=strict)  # all rows, but only in the new column
    assert (outcome.generation, outcome.counts.inserted, outcome.counts.deleted) == ("", 3, 3)
    assert held_at(model, first.time) == [(i, f"row {i}", None) for i in range(3)]
    model.assert_holds(WIDER.format(3))
    with pytest.raises(Exception, match="3 rows, max_change allows 1"):  # from then on as ever
        model.run("select id, name, c + 1 c from (" + WIDER.format(3) + ")", gate=strict)


def test_a_change_after_columns_that_had_nothing_to_be_filled_with_is_no_exception(model):
    """A wider type changes no row: the next run that replaces most rows is judged as ever."""
    model.run("select cast(id as int) id, 'a' name from range(9)")
    strict = Gate(MaxChange(rows=1))
    widened = model.run("select id, 'a' name from range(9)", gate=strict)
    assert widened.counts.nothing and widened.columns_widened
    with pytest.raises(Exception, match="9 rows, max_change allows 1"):
        model.run("select id, 'b' name from range(9)", gate=strict)


def test_a_gate_lets_a_run_fill_the_columns_of_a_run_that_died_after_it_had_added_them(model):
    model.run(NAMES.format(3))

    def die(point):
        if point == "evolved":
            raise KeyboardInterrupt

    failpoints.install(die)
    with pytest.raises(KeyboardInterrupt):
        model.run(WIDER.format(3), gate=Gate(MaxChange(rows=1)))
    failpoints.install(None)
    outcome = model.run(WIDER.format(3), gate=Gate(MaxChange(rows=1)))
    assert (outcome.counts.inserted, outcome.counts.deleted) == (3, 3)
    model.assert_holds(WIDER.format(3))


def stored(model):
    with open_shard(model.uri, None) as handle:
        return {file.path for file in handle.storage.list_files("table") if file.path.endswith(".parquet")}


def test_foreign_files_are_folded_in_first(model):
    model.run(NAMES.format(5))
    DeltaTable(model.uri).delete("id = 2")
    untimed = pa.table({"id": [7], "name": ["x"]})
    write_deltalake(model.uri, untimed, mode="append", schema_mode="merge")
    would = model.run(WIDER.format(5), read_only=True)
    outcome = model.run(WIDER.format(5))
    assert would.counts == outcome.counts and (
        outcome.counts.inserted,
        outcome.counts.deleted,
        outcome.drift,
    ) == (5, 4, 1)
    assert kinds(model)[-3:] == ["compact", "evolve", "append"]
    model.assert_holds(WIDER.format(5))


# what can come between


def test_a_run_that_dies_between_leaves_a_right_shard_and_the_next_one_corrects(model):
    first = model.run(NAMES.format(3))

    def die(point):
        if point == "evolved":
            raise KeyboardInterrupt

    failpoints.install(die)
    with pytest.raises(KeyboardInterrupt):
        model.run(WIDER.format(3))
    failpoints.install(None)
    assert state_of(model).upper == Antichain.of(first.time + 1)
    assert model.rows() == [(i, f"row {i}", None) for i in range(3)]
    outcome = model.run(WIDER.format(3))
    assert (outcome.counts.inserted, outcome.counts.deleted, outcome.columns_added) == (3, 3, ())
    model.assert_holds(WIDER.format(3))


def test_a_run_that_dies_before_the_commit_leaves_the_shard_as_it_was(on_spark):
    on_spark.run(NAMES.format(3))
    before, files = state_of(on_spark), stored(on_spark)

    class Dying(SessionEngine):
        def execute(self, statement, what):
            super().execute(statement, what)
            if what == "evolve":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), on_spark.open(WIDER.format(3)) as handle:
        Driver(on_spark.request(WIDER.format(3)), handle, Dying(on_spark.session)).run()
    assert state_of(on_spark) == before and stored(on_spark) == files


class Interrupted(SessionEngine):
    """Does something once, when a statement of that kind has run."""

    def __init__(self, session, what, then):
        super().__init__(session)
        self.what, self.then = what, then

    def execute(self, statement, what):
        super().execute(statement, what)
        self.interrupt(what)

    def arrow(self, query, what):
        rows = super().arrow(query, what)
        self.interrupt(what)
        return rows

    def interrupt(self, what):
        if what == self.what and self.then:
            then, self.then = self.then, None
            then()


def run_with(model, query, what, then, **changes):
    engine = Interrupted(model.session, what, then)
    with model.open(query) as handle:
        return Driver(model.request(query, **changes), handle, engine).run()


LATER = T0 + 3_600_000
# what another run does while ours has staged the shard with the new column: ours at the same or a
# later time
MEANWHILE = {
    "the same": (WIDER.format(4), LATER - 60_000, LATER),
    "the same, and it is the later run": (WIDER.format(4), LATER + 60_000, LATER),
    "a correction of the old query": (NAMES.format(5), LATER - 60_000, LATER),
}


@pytest.mark.parametrize(
    ("query", "theirs", "ours"), **often_rows(MEANWHILE, "the same", "a correction of the old query")
)
def test_another_writer_who_was_faster_makes_it_start_again(on_spark, query, theirs, ours):
    on_spark.run(NAMES.format(3))
    run_with(on_spark, WIDER.format(4), "evolve", lambda: on_spark.run(query, time=theirs), time=ours)
    on_spark.assert_holds(WIDER.format(4))
    assert kinds(on_spark).count("evolve") == 1 and state_of(on_spark).generation == 0
    assert on_spark.run(WIDER.format(4), time=LATER + 120_000).counts.nothing


def test_a_run_of_the_old_query_never_appends_its_rows_to_the_new_columns(on_spark):
    on_spark.run(NAMES.format(3))

    def dies_after_it_evolved(point):
        if point == "evolved":
            raise RuntimeError("died")

    def evolved():
        failpoints.install(dies_after_it_evolved)
        with pytest.raises(RuntimeError, match="died"):
            on_spark.run(WIDER.format(3))
        failpoints.install(None)

    with pytest.raises(SchemaMismatch, match="`c` int64 is missing"):
        run_with(on_spark, NAMES.format(4), "collect", evolved)
    assert on_spark.rows() == [(i, f"row {i}", None) for i in range(3)]
    with open_shard(on_spark.uri, None) as handle:  # what it had staged is gone
        assert stored(on_spark) == {file.path for file in handle.state().files} | set(
            handle.storage.removals().times
        )
    assert on_spark.run(WIDER.format(4)).counts.inserted == 4
    on_spark.assert_holds(WIDER.format(4))


def test_a_recorded_error_comes_in_the_new_columns(on_spark):
    on_spark.run(NAMES.format(2))
    failing = "select id, concat('row ', id) name, 1 div (id - 1) c from range(2)"
    outcome = on_spark.run(failing, on_query_error=OnError.RECORD)
    assert outcome.counts.errors_inserted == 1 and [c.name for c in outcome.columns_added] == ["c"]
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        on_spark.rows()
    on_spark.run(WIDER.format(2))
    on_spark.assert_holds(WIDER.format(2))
