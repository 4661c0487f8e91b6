"""Verification finds what the row hash cannot see."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.engine import whole_rows as digest
from dbt.adapters.mvsink.engine.whole_rows import row_hash
from dbt.adapters.mvsink.shard.progress import PLACE
from dbt.adapters.mvsink.shard_sql import Layout, layout
from dbt.adapters.mvsink.sink import correction
from tests.support.duck_engine import DuckEngine
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
    monkeypatch.setattr(limits, "COMPARED_WHOLE", 0)
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


@dataclass
class Watched:
    """A model, and the statements of its verifications."""

    model: Model
    engine: DuckEngine

    def run(self, n, *, verify=True):
        """The counts, and whether rows of the base, and of other directories, were read."""
        self.engine.ran.clear()
        outcome = self.model.run(
            f"select id, concat('value-', cast(if(id = 3, {n}, id) as string)) v from range(200)",
            verify=verify,
        )
        text = "".join(statement for what, statement in self.engine.ran if what == "verify")
        with self.model.open("select 1L id, 'a' v") as handle:
            shard = Layout.of(handle, handle.state())
        others = [directory for directory in shard.directories if directory is not shard.base]
        return outcome.counts, shard.base.batch_id in text, any(each.batch_id in text for each in others)


@pytest.fixture
def watched(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "COMPARED_WHOLE", 0)
    engine = DuckEngine()
    monkeypatch.setattr(Model, "engine", lambda _: engine)
    return Watched(Model(None, tmp_path), engine)


def test_rows_of_which_the_bytes_are_those_of_the_last_verification_are_not_read(watched):
    watched.run(0)
    assert watched.run(0)[1:] == (True, False)
    assert watched.run(0)[1:] == (False, False)
    assert watched.run(1)[0].inserted == 1
    counts, of_base, of_others = watched.run(1)
    assert counts.nothing and (of_base, of_others) == (False, True)


def test_a_byte_of_the_base_that_changed_is_found(watched):
    watched.run(0)
    assert watched.run(0)[1] and not watched.run(0)[1]
    [path] = Path(watched.model.uri).glob("table/*/*.parquet")
    at, content = path.stat(), path.read_bytes()
    path.write_bytes(content.replace(b"value-", b"VALUE-", 1))
    os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))
    counts, _, _ = watched.run(0, verify=False)
    assert counts.nothing  # the row hashes are as they were
    counts, read, _ = watched.run(0)
    assert counts.inserted == counts.deleted > 0 and read
    assert watched.run(0)[0].nothing


@pytest.mark.parametrize("kept", ["", "[]", "{}", '{"shard_id": "other"}', "sums"])
def test_what_was_kept_and_is_of_no_use(watched, kept):
    watched.run(0)
    watched.run(0)
    place = Path(watched.model.uri) / PLACE
    if kept == "sums":
        kept = json.dumps({**json.loads(place.read_text()), "sums": [1]})
    place.write_text(kept)
    counts, read, _ = watched.run(0)
    assert counts.nothing and read
    assert not watched.run(0)[1]


def test_a_spark_elsewhere_reads_all_rows(watched, monkeypatch):
    monkeypatch.setattr(DuckEngine, "cores", 0)
    for _ in range(3):
        watched.run(0)
    assert watched.run(0)[1]
    assert not (Path(watched.model.uri) / PLACE).exists()


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
