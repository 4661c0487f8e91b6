"""Audits of changed rows say what audits of all rows say, whatever happens between runs: on DuckDB,
against plain Python.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dbt.adapters.mvsink.materialization.audits import CompiledTest, scope_of
from dbt.adapters.mvsink.sink import AuditScope, Gate, GateFailed
from tests.support.session_engine import Model
from tests.unit.user_sql.test_deciding_rows import accepted, not_null, relationship, unique

M = "`dev`.`m`"
PARENT = "(select 1 id union all select 2 union all select 3)"
ROW = st.tuples(st.sampled_from([1, 2, 3, 4, None]), st.sampled_from(["a", "b", "z"]))
CONTENTS = st.lists(ROW, max_size=5)
TESTS = {  # a test, and whether contents break it
    "not_null": (not_null("x", M), lambda rows: any(x is None for x, _ in rows)),
    "accepted": (accepted("y", "'a','b'", M), lambda rows: any(y == "z" for _, y in rows)),
    "unique": (
        unique("x", M),
        lambda rows: max(Counter(x for x, _ in rows if x is not None).values(), default=0) > 1,
    ),
    "filtered": (
        unique("concat(x, y)", f"(select * from {M} where y <> 'b') dbt_subquery"),
        lambda rows: max(Counter(r for r in rows if r[0] and r[1] != "b").values(), default=0) > 1,
    ),
    "expression": (f"select 1 from {M} where not (x < 4)", lambda rows: any(x == 4 for x, _ in rows)),
    "total": (f"select sum(x) s from {M} having sum(x) > 6", lambda rows: sum(x or 0 for x, _ in rows) > 6),
    "related": (relationship("x", "`dev`.`p`", relation=M), lambda rows: any(x == 4 for x, _ in rows)),
}
HAPPENS = st.sampled_from(
    [*[""] * 5, "a run without audits", "another tool adds a row", "another tool deletes"]
)
STEP = st.tuples(HAPPENS, st.lists(st.sampled_from(sorted(TESTS)), min_size=1, unique=True), CONTENTS)


def audit(name):
    """As dbt's macro and the adapter make it; the parent is a constant."""
    text = TESTS[name][0]
    test = CompiledTest(name, text, "count(*)", "!= 0", "!= 0", None, True)
    scope = scope_of(test, M, "true UTC", lambda parent: "its version")
    verdict = f"select count(*), count(*) != 0, count(*) != 0 from (\n{text}\n) t"
    made = replace(test, scope=scope if isinstance(scope, AuditScope) else None).audit(M, verdict)
    return replace(made, failing=with_parent(made.failing), verdict=with_parent(made.verdict))


def with_parent(query):
    return lambda contents: query(contents).replace("`dev`.`p`", PARENT)


AUDITS = {name: audit(name) for name in TESTS}


def values(rows):
    listed = ", ".join(f"({'null' if x is None else x}, '{y}')" for x, y in rows)
    nothing = "select cast(null as int) x, cast(null as string) y where false"
    return f"select cast(x as int) x, y from values {listed} as t(x, y)" if rows else nothing


def happen(model: Model, what: str, rows: list[tuple[Any, str]]) -> None:
    if what == "a run without audits":
        model.run(values(rows[1:]))
    if what == "another tool adds a row":
        files = DeltaTable(model.uri).to_pyarrow_table()
        if files.num_rows:
            write_deltalake(model.uri, files.slice(0, 1), mode="append")
    if what == "another tool deletes" and any(x == 2 for x, _ in model.rows()):
        DeltaTable(model.uri).delete("x = 2")


def test_all_but_one_of_them_are_narrowed():
    assert [name for name, audit in AUDITS.items() if audit.scope is None] == ["total"]


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STEP, min_size=2, max_size=7))
@example(
    [
        ("", sorted(TESTS), [(1, "a"), (2, "b")]),
        ("a run without audits", ["not_null"], [(3, "a"), (None, "b")]),
    ]
)
@example([("", ["unique"], [(None, "a"), (1, "a")]), ("", ["not_null"], [(None, "a"), (1, "a"), (2, "b")])])
@example([("", ["unique"], [(1, "a"), (2, "a")]), ("", ["unique"], [(1, "a"), (2, "a"), (2, "b")])])
@pytest.mark.seldom
def test_any_history(tmp_path_factory, steps):
    model = Model(None, tmp_path_factory.mktemp("audits"))
    model.run(values([(1, "a")]))
    for what, names, rows in steps:
        happen(model, what, rows)
        stored = model.rows()
        gate = Gate(audits=tuple(AUDITS[name] for name in names))
        # a run that changes nothing is not checked
        wrong = (
            {name for name in names if TESTS[name][1](rows)} if Counter(stored) != Counter(rows) else set()
        )
        try:
            model.run(values(rows), gate=gate)
            failed = set()
            assert Counter(model.rows()) == Counter(rows)
        except GateFailed as error:
            failed = {line.split(":")[0].strip() for line in str(error).splitlines()[1:] if ": " in line}
        assert failed == wrong, (stored, what, names, rows)
