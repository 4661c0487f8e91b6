"""Which audits may look at changed rows alone, and what makes one another audit."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.materialization.audits import CompiledTest, narrowed, scope_of
from dbt.adapters.mvsink.materialization.run_notes import gate_notes, gate_properties
from dbt.adapters.mvsink.sink import Audit, AuditScope, Learned
from tests.support.engines import ScriptedEngine
from tests.unit.user_sql.test_deciding_rows import M, relationship, unique

UNIQUE = CompiledTest("unique_id", unique("id"), "count(*)", "!= 0", "!= 0", None, True)
RELATED = replace(UNIQUE, name="related", sql=relationship("c"))


def shown(parent):
    return {"`dev`.`customers`": "version 1"}.get(parent, "")


def test_an_audit_with_its_key_and_a_digest():
    scope = scope_of(UNIQUE, M, "true UTC", shown)
    assert isinstance(scope, AuditScope)
    assert scope.key == "id"
    assert scope == scope_of(UNIQUE, M, "true UTC", shown)


OTHER = {
    "its text": (replace(UNIQUE, sql=unique("b")), "true UTC"),
    "ANSI mode": (UNIQUE, "false UTC"),
    "the time zone": (UNIQUE, "true Asia/Tokyo"),
}


@pytest.mark.parametrize(("test", "settings"), OTHER.values(), ids=OTHER)
def test_it_is_another_audit_with_another(test, settings):
    assert scope_of(test, M, settings, shown).digest != scope_of(UNIQUE, M, "true UTC", shown).digest


def test_a_parent_counts_by_its_version():
    first = scope_of(RELATED, M, "true UTC", shown)
    second = scope_of(RELATED, M, "true UTC", lambda parent: "version 2")
    assert first.digest != second.digest
    assert scope_of(RELATED, M, "true UTC", lambda parent: "") == (
        "it reads `dev`.`customers`, which is not a maintained model"
    )


def test_a_number_that_may_be_0_with_failing_rows_does_not_count():
    assert scope_of(replace(UNIQUE, fail_calc="sum(n)"), M, "", shown) == "its fail_calc is sum(n)"


def test_the_engine_is_asked_for_settings_and_parents():
    engine = ScriptedEngine(
        settings=lambda query: (
            [("4.1.0", "UTC", "c", "s", "double", 1)]
            if "timezone" in query
            else [("k", "double"), ("a.", "int")]
        ),
        catalog=lambda query: [],
    )
    context = SimpleNamespace(engine=engine, model="dev.orders", relation=M)
    scoped = narrowed(context, [UNIQUE])  # type: ignore[arg-type]
    assert [(test.scope.key, test.whole) for test in scoped] == [("id", "")]
    whole = narrowed(context, [replace(UNIQUE, sql=f"select sum(a) from {M}")])  # type: ignore[arg-type]
    assert [(test.scope, test.whole) for test in whole] == [(None, "it looks at more than one row at a time")]
    audit = whole[0].audit(M, "select 1")
    assert (audit.scope, audit.whole) == (None, "it looks at more than one row at a time")
    assert scoped[0].audit(M, "select 1").scope == scoped[0].scope


def opened(audits=(), max_change=None, kept=None):
    state = SimpleNamespace(properties=kept or {})
    handle = SimpleNamespace(state=lambda: state, history=lambda newest: [])
    options = SimpleNamespace(max_change=max_change)
    invocation = SimpleNamespace(time=0)
    return SimpleNamespace(
        audits=audits, handle=handle, context=SimpleNamespace(options=options, invocation=invocation)
    )


def same(contents):
    return contents


SUMS = Audit("sums", same, same, whole="it looks at more than one row at a time")
CASES = {
    "nothing": (opened([Audit("a", same, same)]), (), {}),
    "no bound yet": (
        opened(max_change=Learned.AUTO),
        ("max_change auto allows any change until 8 runs have changed something",),
        {"max_change": "auto"},
    ),
    "that was said": (opened(max_change=Learned.AUTO, kept={"max_change": "auto"}), (), {}),
    "audits of all rows": (
        opened([SUMS]),
        ("audits of all rows: sums: it looks at more than one row at a time",),
        {"audit_scope": "sums: it looks at more than one row at a time"},
    ),
    "those were said": (opened([SUMS], kept={"audit_scope": "sums: it looks at more than one row at a time"}), (), {}),
    "there are none any more": (opened(kept={"audit_scope": "sums: x"}), (), {"audit_scope": ""}),
}  # fmt: skip


@pytest.mark.parametrize(("run", "notes", "properties"), CASES.values(), ids=CASES)
def test_what_is_said_once(run, notes, properties):
    assert gate_notes(run) == notes
    assert gate_properties(run) == properties
