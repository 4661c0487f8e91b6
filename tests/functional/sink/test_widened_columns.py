"""Columns get wider types in place; other changes of columns end no more than a day of history, or
keep the generation before readable.
"""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.history.points import resolve
from dbt.adapters.mvsink.limits import DAY
from dbt.adapters.mvsink.materialization.response import log_line
from dbt.adapters.mvsink.shard import collect_garbage
from dbt.adapters.mvsink.shard_sql import Kind, Layout, as_of
from dbt.adapters.mvsink.sink import OnSchemaChange
from dbt.adapters.mvsink.sink.errors import HistoryWouldEnd
from tests.support.session_engine import Model, open_shard

NAMES = "select id, concat('row ', id) name from range({})"


@pytest.fixture
def model(session, tmp_path):
    return Model(session, tmp_path)


@pytest.fixture
def on_spark(quick, tmp_path):
    return Model(quick, tmp_path)


def state_of(model):
    with open_shard(model.uri, None) as handle:
        return handle.state()


def kinds(model):
    with open_shard(model.uri, None) as handle:
        return [commit.kind for commit in handle.history()]


def held_at(model, time):
    """The collection at ``time`` as sorted tuples."""
    with open_shard(model.uri, None) as handle:
        parts = Layout.of(handle, handle.state())
    return sorted(model.engine().query(as_of.collection_as_of(parts, time), "as of"), key=repr)


def stored(model):
    with open_shard(model.uri, None) as handle:
        return {file.path for file in handle.storage.list_files("table") if file.path.endswith(".parquet")}


WIDENINGS = {  # the type before and after, and values of the first
    "tinyint": ("smallint", ("-128", "127", "null")),
    "smallint": ("int", ("-32768", "32767", "null")),
    "int": ("bigint", ("-2147483648", "7", "7", "null")),
    "float": ("double", ("'1.1'", "'-0.0'", "'0.0'", "'Infinity'", "null")),
    "decimal(5,2)": ("decimal(38,2)", ("999.99", "-0.01", "null")),
    "decimal(18,18)": ("decimal(19,18)", ("0.000000000000000001", "null")),
}


@pytest.mark.parametrize(("before", "after"), [(kind, to) for kind, (to, _) in WIDENINGS.items()])
def test_a_wider_type_is_taken_in_place_and_history_goes_on(model, before, after):
    rows = ", ".join(f"({value}, 'x')" for value in WIDENINGS[before][1])
    narrow = f"select cast(n as {before}) n, s from values {rows} as t(n, s)"
    wide = f"select cast(n as {after}) n, s from ({narrow})"
    first = model.run(narrow)
    second = model.run(narrow + " where n is not null")
    stored_then = held_at(model, first.time)
    would = model.run(wide, read_only=True)
    outcome = model.run(wide)
    assert would.columns_widened == outcome.columns_widened and outcome.columns_added == ()
    assert log_line(outcome).endswith(f"; columns widened: n {after}") and outcome.generation == ""
    assert (outcome.counts.inserted, outcome.counts.deleted) == (1, 0)  # the row with NULL is there again
    assert repr(held_at(model, first.time)) == repr(stored_then)
    assert len(held_at(model, second.time)) == len(stored_then) - 1
    assert kinds(model)[-2:] == ["evolve", "append"] and state_of(model).generation == 0
    model.assert_holds(wide)
    again = model.run(wide)
    assert again.counts.nothing and again.kind is Kind.NONE


def test_columns_are_added_and_widened_at_once(on_spark):
    on_spark.run("select cast(id as int) id, cast(id as float) f from range(3)")
    wide = "select id + 3000000000 id, cast(id as double) / 3 f, 'x' s from range(4)"
    outcome = on_spark.run(wide)
    assert log_line(outcome).endswith("; columns added: s string; columns widened: id bigint, f double")
    on_spark.assert_holds(wide)


NARROWER = "select cast(id as int) id, name from (" + NAMES + ")"


def aged(model, days=3):
    """A shard with some days of history; the first run's outcome."""
    first = model.run(NAMES.format(3), retain_history=30 * DAY)
    model.run(NAMES.format(4), retain_history=30 * DAY, time=first.time + days * DAY)
    return first


def test_a_change_that_would_end_more_than_a_day_of_history_is_refused(model):
    first = aged(model)
    before, files = state_of(model), stored(model)
    for read_only in (True, False):
        with pytest.raises(HistoryWouldEnd) as raised:
            model.run(
                NARROWER.format(4),
                time=first.time + 4 * DAY,
                read_only=read_only,
                retain_history=30 * DAY,
            )
        message = str(raised.value)
        assert "`id` was bigint, is int" in message and "end 3.0 days of history" in message
        assert "on_schema_change: new_generation" in message and "--full-refresh" in message
    assert (state_of(model), stored(model)) == (before, files)
    outcome = model.run(NARROWER.format(4), time=first.time + 4 * DAY, full_refresh=True)
    assert outcome.generation == "full refresh"
    with open_shard(model.uri, None) as handle:
        assert handle.kept_generations(handle.state()) == ()


def test_a_new_generation_keeps_the_one_before_readable(model):
    first = aged(model)
    at = first.time + 4 * DAY
    lets = {"on_schema_change": OnSchemaChange.NEW_GENERATION, "retain_history": 30 * DAY}
    outcome = model.run(NARROWER.format(5), time=at, **lets)
    assert outcome.generation == "columns changed (`id` was bigint, is int)"
    with open_shard(model.uri, None) as handle:
        state = handle.state()
        [kept] = handle.kept_generations(state)
        collect_garbage(handle, removed_grace_ms=-1, staged_grace_ms=-1)
        commits = handle.history()
        assert commits[-1 if commits[-1].generation else -2].note.purpose.startswith(
            "new generation: columns"
        )

        def contents_at(text):
            point = resolve(text, state, commits, "m", [kept])
            query = as_of.collection_as_of(Layout.of(handle, point.earlier or state), point.time)
            return sorted(model.engine().query(query, "as of")), point

        for text, rows in ((str(first.time), 3), ("-1", 4), (str(at - 1), 4), ("latest", 5), (str(at), 5)):
            contents, point = contents_at(text)
            assert contents == [(i, f"row {i}") for i in range(rows)], text
            assert (point.earlier is None) == (text in ("latest", str(at)))
        handle.storage.clock = lambda: wall_clock.now_ms() + 31 * DAY
        gone = collect_garbage(handle, removed_grace_ms=-1)
        assert {file.path for file in kept.last.files} <= set(gone)
    model.assert_holds(NARROWER.format(5))
