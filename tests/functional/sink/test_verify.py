"""Verification finds what the row hash cannot see."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.engine import row_digest as digest
from dbt.adapters.mvsink.engine.row_hash import row_hash
from dbt.adapters.mvsink.shard_sql import layout
from dbt.adapters.mvsink.sink import correction, verify, write
from tests.support.session_engine import Model

QUERY = "select id, concat('v', cast(if(id = 3, {n}, 0) as string)) v from range(200)"
TYPES = {
    "a": ("bigint", "1"),
    "b": ("string", "'x|y'"),
    "c": ("double", "0.0D"),
    "d": ("decimal(12,2)", "2.25"),
    "e": ("date", "date'2020-01-01'"),
    "f": ("timestamp", "timestamp'2020-01-01 00:00:00'"),
    "g": ("boolean", "true"),
    "h": ("binary", "X'00ff'"),
    "i": ("array<int>", "array(1, null)"),
    "j": ("map<string,int>", "map('a', 1)"),
    "k": ("struct<x:int,y:string>", "named_struct('x', 1, 'y', 'z')"),
    "l": ("timestamp_ntz", "timestamp_ntz'2020-01-01 00:00:00'"),
    "m": ("int", "0"),
    "n": ("int", "1"),
    "o": ("tinyint", "-1"),
    "p": ("smallint", "1"),
    "q": ("float", "1.5"),
    "r": ("decimal(38,2)", "2.25"),
    "s": ("string", "''"),
}


@pytest.fixture
def model(session, tmp_path, monkeypatch):
    """A view whose row hash looks at its first column only."""
    for module in (write, verify):
        monkeypatch.setattr(module, "FEW_ROWS", 0)
    for module in (correction, layout):
        monkeypatch.setattr(
            module, "row_hash", lambda columns, salt, error=None: row_hash(columns[:1], salt, error)
        )
    return Model(session, tmp_path)


def test_a_change_that_keeps_the_hash_is_corrected(model):
    before, after = QUERY.format(n=0), QUERY.format(n=1)
    assert model.run(before, verify=True).verified
    missed = model.run(after)
    assert (missed.counts.inserted, missed.counts.deleted, missed.verified) == (0, 0, False)
    corrected = model.run(after, verify=True)
    assert (corrected.counts.inserted, corrected.counts.deleted, corrected.verified) == (1, 1, True)
    model.assert_holds(after)
    assert model.run(after, verify=True).counts.nothing


def test_the_digest_is_another_for_all_rows_that_group_by_keeps_apart(quick):
    columns = tuple(Column(name, parse_type(kind, name)) for name, (kind, _) in TYPES.items())
    base = {name: value for name, (_, value) in TYPES.items()}
    rows = [
        base,
        dict.fromkeys(base, "null"),
        {**base, "c": "-0.0D"},
        {**base, "b": "'x'"},
    ]  # of the third, the first's
    rows += [{**base, name: "null"} for name in base]
    rows += [{**base, "m": "-2147483648", "n": str(n)} for n in (-2147483648, -1, 0, 2147483647)]
    rows += [{**base, "b": "'x|'", "s": "'y'"}, {**base, "b": "'x'", "s": "'|y'"}, {**base, "o": "-128"}]
    query = "\nunion all\n".join(
        "select "
        + ", ".join(f"cast({value} as {TYPES[name][0]}) {name}" for name, value in row.items())
        + ", cast(null as string) err"
        for row in rows
    )
    digests = [
        row[0] for row in quick.sql(f"select {digest.row_digest(columns, 'err')} from ({query})").collect()
    ]
    assert digests[0] == digests[2]
    assert len(set(digests)) == len(rows) - 1
