"""docs/design/sink.md, *write*, *How Spark computes the correction* and *Read-only*: the rows
and lines, each by its name, on Spark.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.shard_sql import Kind, OnError
from dbt.adapters.mvsink.sink import Driver, not_null
from tests.support.projects import replace_source
from tests.support.session_engine import Model, SessionEngine

pytestmark = pytest.mark.usefixtures("small_data")

A, B, C, Z = "'a'", "'b'", "'c'", "'z'"
FAILING = "select cast(1 div (length(x) - 1) as string) x from values ('a') as t(x)"
NOT_NULL = 'column "x" must not be null'


@pytest.fixture
def model(spark, tmp_path):
    return Model(spark, tmp_path)


@pytest.fixture
def any_engine(session, tmp_path):
    """A model of a test that no engine's own results decide."""
    return Model(session, tmp_path)


@pytest.fixture
def large(monkeypatch):
    """A shard of any size is too large to be compared by whole rows."""
    monkeypatch.setattr(limits, "COMPARED_WHOLE", 0)


def values(*rows):
    if not rows:
        return "select cast(null as string) x where false"
    return "select cast(x as string) x from values " + ", ".join(f"({row})" for row in rows) + " as t(x)"


def live(model):
    with model.open(values()) as handle:
        return {file.path for file in handle.state().files}


def batch_of(model, before, time=5):
    """The new files' updates at ``time``, ``(x or the message, time, diff)``.

    Without older ones that compaction put beside them.
    """
    rows = [row for path in live(model) - before for row in pq.read_table(f"{model.uri}/{path}").to_pylist()]
    return sorted(
        (row["x"] or shortened(row["_mv_error"]), row["_mv_time"], row["_mv_diff"])
        for row in rows
        if row["_mv_time"] == time
    )


def shortened(message):
    return "DIVIDE_BY_ZERO" if "DIVIDE_BY_ZERO" in message else message


def ran(model, query, **changes):
    """A run, and what it asked of the engine: ``(what, statement)``."""
    engine = SessionEngine(model.session)
    with model.open(query) as handle:
        outcome = Driver(model.request(query, **changes), handle, engine).run()
    return outcome, engine.ran


TABLE = {
    "{a,b} | {}": (values(A, B), (), {}, [("a", 5, 1), ("b", 5, 1)]),
    "{a,b} | {a,c}": (values(A, B), (A, C), {}, [("b", 5, 1), ("c", 5, -1)]),
    "{a,a} | {a}": (values(A, A), (A,), {}, [("a", 5, 1)]),
    "{} | {a,a,z}": (values(), (A, A, Z), {}, [("a", 5, -2), ("z", 5, -1)]),
    "{a} and 2 rows with NULL x, not-null asserted | {a,c}": (
        values(A, "null", "null"), (A, C), {"assertions": (not_null("x"),)}, [("c", 5, -1), (NOT_NULL, 5, 2)],
    ),
    "the query fails, on_error: record | {a}": (
        FAILING, (A,), {"on_query_error": OnError.RECORD}, [("DIVIDE_BY_ZERO", 5, 1)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("desired", "shard", "how", "batch"), TABLE.values(), ids=TABLE)
def test_desired_at_5_and_shard_at_5_give_the_batch_5_to_6(model, desired, shard, how, batch):
    model.run(values(*shard), time=4)
    before = live(model)
    outcome = model.run(desired, time=5, **how)
    assert (outcome.lower.as_option(), outcome.upper.as_option()) == (5, 6)
    added: dict = {}
    for row, time, diff in batch_of(model, before):
        added[row, time] = added.get((row, time), 0) + diff
    assert sorted((row, time, diff) for (row, time), diff in added.items()) == sorted(batch)


@pytest.mark.parametrize(
    ("desired", "shard", "how", "batch"), list(TABLE.values())[1:5], ids=list(TABLE)[1:5]
)
def test_a_run_writes_the_correction_that_a_read_only_run_reported(any_engine, desired, shard, how, batch):
    model = any_engine
    model.run(values(*shard), time=4)
    before = live(model)
    would = model.run(desired, time=5, read_only=True, sample=100, **how)
    assert (would.kind, live(model)) == (Kind.READ_ONLY, before)
    written = model.run(desired, time=5, **how)
    sample = sorted((x or error, time, diff) for x, time, diff, error, *_ in would.preview.sample)
    assert (would.counts, would.lower, would.upper) == (written.counts, written.lower, written.upper)
    assert sample == batch_of(model, before) == sorted(batch)


def test_read_only_moves_no_upper_of_a_new_shard(model):
    would = model.run(values(A, B), read_only=True)
    with model.open(values()) as handle:
        assert (handle.state().version, handle.storage.list_files("table")) == (0, [])
    assert would.counts.inserted == 2
    assert model.run(values(A, B)).counts == would.counts


# errors


def test_readers_fail_with_the_smallest_message_and_errors_are_retracted_like_rows(model):
    asserted = (not_null("y"), not_null("x"))
    two = "select cast(x as int) x, cast(y as int) y from values {} as t(x, y)"
    model.run(two.format("(null, 1), (1, null), (2, 2)"), assertions=asserted)
    with pytest.raises(Exception, match='column "x" must not be null'):
        model.contents().collect()
    healed = model.run(two.format("(1, 1), (1, null), (2, 2)"), assertions=asserted)
    assert (healed.counts.inserted, healed.counts.errors_deleted) == (1, 1)
    with pytest.raises(Exception, match='column "y" must not be null'):
        model.contents().collect()
    model.run(two.format("(1, 1), (2, 2)"), assertions=asserted)
    assert model.rows() == [(1, 1), (2, 2)]


RECORDED = {
    "overflow": "cast(2147483647 + length(x) as string)",
    "division by zero": "cast(1 div (length(x) - 1) as string)",
    "an invalid cast": "cast(cast(x as int) as string)",
}


@pytest.mark.parametrize("expression", RECORDED.values(), ids=RECORDED)
def test_errors_that_the_data_cause_can_be_recorded_and_leave_the_ok_side(model, expression):
    model.run(values(A, A))
    failing = f"select {expression} x from values ('a') as t(x)"
    outcome = model.run(failing, on_query_error=OnError.RECORD)
    counts = outcome.counts
    assert (counts.inserted, counts.deleted, counts.errors_inserted) == (0, 0, 1)
    assert model.run(values(A, A)).counts.errors_deleted == 1
    assert model.rows() == [("a",), ("a",)]


class Interfering(SessionEngine):
    """Does something just before the n-th statement that names ``source`` and evaluates it."""

    def __init__(self, session, source, at, act):
        super().__init__(session)
        self.source, self.left, self.act = str(source), at, act

    def _run(self, statement, what, *, fetch):
        if fetch is not True and self.source in statement:
            self.left -= 1
            if self.left == 0:
                self.act()
        return super()._run(statement, what, fetch=fetch)


def test_an_io_error_always_fails_the_model(model, tmp_path):
    source = tmp_path / "source"
    replace_source(source, [(1, "a"), (2, "b")])
    query = f"select id, name from parquet.`{source}`"
    model.run(query)
    before = live(model)
    damaged = Interfering(
        model.session, source, 1, lambda: (source / "part.parquet").write_bytes(b"no Parquet")
    )
    with model.open(query) as handle, pytest.raises(EngineError):
        Driver(model.request(query, on_query_error=OnError.RECORD), handle, damaged).run()
    assert live(model) == before


# detect, fetch, agree


def test_no_differing_bucket_means_there_is_nothing_to_do(model, large):
    query = "select id, id % 7 as seven from range(1000)"
    model.run(query)
    outcome, statements = ran(model, query)
    assert (
        outcome.kind,
        outcome.written.candidate_buckets,
        sum(batch.rows for batch in outcome.written.batches),
    ) == (Kind.NONE, 0, 0)
    assert "write" not in [what for what, _ in statements]


def test_only_candidate_buckets_are_fetched_and_only_the_difference_is_written(model, large):
    model.run("select id, id % 7 as seven from range(1000)")
    outcome, _ = ran(model, "select id, if(id = 500, 99, id % 7) as seven from range(1000)")
    assert (outcome.written.candidate_buckets, sum(batch.rows for batch in outcome.written.batches)) == (2, 2)


def test_a_first_load_skips_detection(model):
    outcome, statements = ran(model, values(A, B))
    assert outcome.written.candidate_buckets is None
    assert "detect" not in [what for what, _ in statements]


@pytest.mark.parametrize("at", [1, 2], ids=["before detection", "between the two evaluations"])
def test_inputs_that_move_never_give_an_inconsistent_batch(model, large, tmp_path, at):
    """The shard holds the inputs as they were, or as they are; the next run finds nothing to do."""
    source = tmp_path / "source"
    new = [(i, "new") for i in range(50, 130)]
    replace_source(source, [(i, "old") for i in range(100)])
    query = f"select id, name from parquet.`{source}`"
    model.run(query)
    replace_source(source, [(i, "between") for i in range(100)])
    moving = Interfering(model.session, source, at, lambda: replace_source(source, new))
    with model.open(query) as handle:
        outcome = Driver(model.request(query), handle, moving).run()
    assert outcome.written.evaluated_once is (at == 2)
    assert model.rows() == sorted(new, key=repr)
    assert model.run(query).kind is Kind.NONE


def test_a_non_deterministic_query_gives_one_evaluation_and_counts_that_fit_it(model, large):
    query = "select id, r, r as again from (select id, floor(rand() * 4) r from range(200))"
    model.run(query)
    for _ in range(2):
        before = model.rows()
        outcome = model.run(query)
        after = model.rows()
        assert len(after) == 200 and all(r == again for _, r, again in after)
        assert outcome.counts.inserted == outcome.counts.deleted == len(set(after) - set(before))


# what hashes are trusted for


def test_the_hash_is_salted_per_shard(spark, tmp_path):
    hashes = []
    for name in ("dev.one", "dev.two"):
        model = Model(spark, tmp_path, name)
        model.run(values(A, B, C))
        rows = spark.read.parquet(*(f"{model.uri}/{path}" for path in live(model))).collect()
        hashes.append({row["_mv_hash"] for row in rows})
    assert len(hashes[0]) == len(hashes[1]) == 3 and not hashes[0] & hashes[1]


def python_handle(model, *rows):
    """Updates ``(x, diff)`` appended by the Python handle, without hashes."""
    from tests.support.shards import updates

    with model.open(values()) as handle:
        time = handle.upper.as_option()
        handle.compare_and_append(
            updates(*((x, time, diff) for x, diff in rows)), handle.upper, handle.upper.step_forward()
        )


APPENDED = {
    "one more of a row": ([("a", 1)], ["a", "a", "a", "b"]),
    "one fewer of a row": ([("a", -1)], ["a", "b"]),
    "the last of a row": ([("b", -1)], ["a", "a"]),
    "rows of its own": ([("q", 2), (None, 1)], [None, "a", "a", "b", "q", "q"]),
    "everything gone": ([("a", -2), ("b", -1)], []),
}


@pytest.mark.parametrize(("rows", "shown"), APPENDED.values(), ids=APPENDED)
def test_rows_of_the_python_handle_count_as_without_a_hash(any_engine, rows, shown):
    model = any_engine
    model.run(values(A, A, B))
    python_handle(model, *rows)
    assert [x for (x,) in model.rows()] == sorted(shown, key=lambda x: repr((x,)))
    outcome = model.run(values(A, A, B))
    assert outcome.counts.inserted + outcome.counts.deleted == sum(abs(diff) for _, diff in rows)
    assert [x for (x,) in model.rows()] == ["a", "a", "b"]
    assert model.run(values(A, A, B)).kind is Kind.NONE


def test_sums_of_large_diffs_do_not_overflow(model):
    model.run(values(A, B))
    python_handle(model, ("a", 2**62), ("c", -(2**62)))
    model.run(values(A, B))
    assert model.rows() == [("a",), ("b",)]


def test_a_hash_in_a_foreign_file_is_not_believed(model):
    """A foreign writer gives its rows the hash of one of ours: the view shows both, and the next
    run takes its rows out.
    """
    model.run(values(A, B))
    rows = (
        model.session.read.parquet(*(f"{model.uri}/{path}" for path in live(model)))
        .where("x = 'a'")
        .toArrow()
    )
    forged = rows.set_column(0, "x", [["forged"]])
    write_deltalake(model.uri, forged, mode="append")
    assert model.rows() == [("a",), ("b",), ("forged",)]
    assert model.run(values(A, B)).counts.deleted == 1
    assert model.rows() == [("a",), ("b",)]


def vectors(model):
    """A shard asks for no deletion vectors; here another engine turns them on, and deletes a
    row by one.
    """
    model.run("select id from range(1000)")
    model.session.sql(
        f"alter table delta.`{model.uri}` set tblproperties ('delta.enableDeletionVectors' = 'true')"
    )
    model.session.sql(f"delete from delta.`{model.uri}` where id = 3")
    with model.open("select id from range(1000)") as handle:
        assert [file.deletion_vector for file in handle.state().files].count(True) == 1


def test_foreign_deletion_vectors_are_refused_by_name(model):
    vectors(model)
    with pytest.raises(Exception, match="deletion vectors on 1 file.*--full-refresh"):
        model.run("select id from range(1000)")


def test_a_full_refresh_is_the_way_out_of_deletion_vectors(model):
    vectors(model)
    model.run("select id from range(1000)", full_refresh=True)
    with model.open("select id from range(1000)") as handle:
        assert not any(file.deletion_vector for file in handle.state().files)
    assert model.contents().count() == 1000


def test_what_is_staged_lies_below_the_shard_and_nothing_is_left_beside_it(model):
    model.run("select id, rand() r from range(50)")
    model.run("select id, rand() r from range(50)")  # evaluated once, through a staging place
    with model.open("select id, rand() r from range(50)") as handle:
        directories = {path.name for path in (Path(model.uri) / "table").iterdir()}
        # by compaction; they live on
        dropped = {path.split("/")[1] for path in handle.storage.removals().times}
        assert directories - dropped == {file.batch_id for file in handle.state().files}
