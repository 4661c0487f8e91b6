"""The publish gate at the sink: what it lets through, what it keeps back, and that keeping back
leaves no trace.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from deltalake import DeltaTable

from dbt.adapters.mvsink.refresh_schedule import RefreshSpec
from dbt.adapters.mvsink.shard_sql import Kind
from dbt.adapters.mvsink.sink import Audit, Gate, GateFailed, Learned, MaxChange, change_limit, not_null
from tests.support.session_engine import Model, open_shard

TEN = "select id x, 'a' y from range(10)"


def audit(bad, severe=True):
    """Rows that satisfy ``bad`` fail; one more and it fails, any and it warns."""
    return Audit(
        "no_bad_rows",
        lambda contents: f"select * from ({contents}) where {bad}",
        lambda contents: f"select count(*), count(*) > 0, count(*) > 0 from ({contents}) where {bad}",
        severe,
    )


@pytest.fixture
def model(session, tmp_path):
    return Model(session, tmp_path)


def trace(model):
    """All that is on storage of the shard."""
    root = Path(model.uri)
    with open_shard(model.uri, None) as handle:
        state = handle.state()
    files = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    return state.version, state.upper, state.properties, files


def kept_back(model, query, gate, **how):
    """The error of a run; read-only says the same, and neither leaves anything."""
    before = trace(model)
    preview = model.run(query, gate=gate, read_only=True, **how)
    assert preview.kind is Kind.READ_ONLY
    with pytest.raises(GateFailed) as error:
        model.run(query, gate=gate, **how)
    assert trace(model) == before
    assert placeless(preview.preview.gate) == placeless(str(error.value))
    return str(error.value)


def placeless(message):
    """Spark says where in its own text an error is; the two texts differ."""
    return re.sub(r"line \d+ pos \d+", "", message)


def passes(model, query, gate, **how):
    preview = model.run(query, gate=gate, read_only=True, **how)
    outcome = model.run(query, gate=gate, **how)
    assert preview.preview.gate == "" and preview.counts == outcome.counts
    model.assert_holds(query)
    return outcome


def test_max_change(model):
    gate = Gate(MaxChange(rows=3, percent=20))
    first = passes(model, TEN, gate)
    assert first.counts.inserted == 10  # the first load is exempt
    passes(model, "select id x, if(id < 2, 'b', 'a') y from range(10)", gate)
    passes(model, TEN, gate)
    message = kept_back(model, "select id x, 'a' y from range(7)", gate)
    assert message == (
        "it would change by +0 -3: 3 of 10 rows (30.0 %), max_change allows 20 %. Nothing was written; "
        "--vars '{mvsink_accept: [m]}' lets it through"
    )
    assert "+4 -0: 4 rows, max_change allows 3" in kept_back(model, "select id x, 'a' y from range(14)", gate)
    accepted = model.run("select id x, 'a' y from range(7)", gate=Gate(MaxChange(rows=0), accepted=True))
    assert accepted.counts.deleted == 3
    assert model.run("select id x, 'a' y from range(7)", gate=Gate(MaxChange(rows=0))).counts.nothing
    passes(model, "select id x, 'z' y from range(900)", gate, full_refresh=True)  # exempt as well
    other = "select id x, 'z' y, 1 z from range({})"
    # a new generation counts by its number of rows
    assert "+0 -899: 899 rows" in kept_back(model, other.format(1), gate)
    passes(model, other.format(899), gate)
    assert len(model.rows()) == 899


def test_max_change_learned_from_the_log(model):
    def auto():
        with open_shard(model.uri, None) as handle:
            return Gate(change_limit(Learned.AUTO, handle.history))

    numbers = "select id x, 'a' y from range({})"
    model.run(numbers.format(1000))
    for run in range(1, 9):
        passes(model, numbers.format(1000 + 150 * run), auto())
    assert (
        "+601 -0: 601 rows, max_change auto allows 600: 4 times the largest of the last 8 changes, 150 rows"
        in kept_back(model, numbers.format(2801), auto())
    )
    passes(model, numbers.format(2800), auto())
    passes(model, numbers.format(10), auto(), full_refresh=True)


def rows(*of):
    return "select * from values " + ", ".join(f"({x}, {y!r})" for x, y in of) + " as t(x, y)"


A, B, C, BAD, WORSE = (1, "a"), (2, "b"), (3, "c"), (9, "i"), (10, "j")
NO_BAD = Gate(audits=(audit("x > 5"),))


def test_audits_see_the_contents_as_they_would_be(model):
    passes(model, rows(A, A, B), NO_BAD)
    message = kept_back(model, rows(A, BAD), NO_BAD)
    assert message == (
        "the new contents fail their audit; nothing was written\n  no_bad_rows: 1 failure\n    x=9, y=i"
    )
    assert "2 failures" in kept_back(model, rows(A, A, B, BAD, BAD), NO_BAD)  # each copy of a row
    passes(model, rows(A, B, C, C), NO_BAD)
    model.run(rows(A, BAD, BAD, C))
    passes(model, rows(A, B), NO_BAD)  # what would be deleted is no part of the contents
    model.run(rows(A, BAD, BAD, C))
    # the stored rows, one copy fewer
    assert "1 failure" in kept_back(model, rows(A, BAD, B), NO_BAD)
    assert model.run(rows(A, BAD, BAD, C), gate=NO_BAD).counts.nothing  # nothing would be published
    total = Audit(
        "total", lambda c: f"select sum(x) s from ({c})", lambda c: f"select 1, false, sum(x) <> 6 from ({c})"
    )
    assert "total: 1 failure\n    s=7" in kept_back(model, rows(A, A, B, C), Gate(audits=(total,)))
    passes(model, rows(A, B, C), Gate(audits=(total,)))


def test_all_failing_audits_are_reported_and_mild_ones_only_warn(model):
    both = Gate(audits=(audit("x = 9"), audit("y = 'j'")))
    model.run(rows(A))
    assert kept_back(model, rows(BAD, WORSE), both).count("no_bad_rows: 1 failure") == 2
    broken = Gate(audits=(audit("no_such_column = 1"), audit("x = 9")))
    message = kept_back(model, rows(BAD), broken)
    assert "no_bad_rows cannot run: " in message and "no_such_column" in message and "x=9, y=i" in message
    assert passes(model, rows(BAD), Gate(audits=(audit("x = 9", severe=False),))).warnings == (
        "audit no_bad_rows: 1 failure",
    )


def test_a_new_shard_is_not_even_raised(model):
    bad = rows(A, BAD)
    model.open(bad).expire()  # as dbt's layer does before it runs the sink
    kept_back(model, bad, NO_BAD)
    with open_shard(model.uri, None) as handle:
        assert (handle.state().version, handle.state().upper.as_option()) == (0, 0)
    assert passes(model, rows(A, B), NO_BAD).counts.inserted == 2


def test_a_gate_that_fails_folds_no_foreign_files_in(model):
    model.run(rows(A, B, C))
    DeltaTable(model.uri).delete("x = 2")
    kept_back(model, rows(A, B, C, BAD), NO_BAD)
    assert len(model.rows()) == 2
    outcome = passes(model, rows(A, B, C), NO_BAD)
    assert outcome.counts.inserted == 1


def test_other_columns_and_recorded_errors(model):
    model.run(rows(A))
    kept_back(model, rows(A, BAD).replace("select *", "select *, 1 z"), NO_BAD)
    passes(model, rows(A, B).replace("select *", "select *, 1 z"), NO_BAD)
    asserted = {"assertions": (not_null("y"),)}
    outcome = model.run("select 1 x, 'a' y, 1 z union all select 9, null, 1", gate=NO_BAD, **asserted)
    # errors are not rows; `on_error` decides about them
    assert outcome.counts.errors_inserted == 1


@pytest.mark.parametrize("time", [None, 5])
def test_where_no_refresh_is_due_nothing_is_read(model, time):
    hourly = {"refresh": RefreshSpec.from_stored({"every": [[3_600_000, 0]], "at": [], "at_creation": False})}
    never = Gate(MaxChange(rows=0), (audit("true"),))
    model.run(rows(A), time=7_200_000, **hourly)
    assert model.run(rows(B), time=7_200_000 + (time or 0), gate=never, **hourly).kind is Kind.NONE
