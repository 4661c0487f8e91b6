"""Which audits the contents before a run have passed, as the log shows."""

from __future__ import annotations

import json

import pytest

from dbt.adapters.mvsink.shard import Commit, CommitNote
from dbt.adapters.mvsink.shard.commit_log import commit_of, metadata
from dbt.adapters.mvsink.shard.state import Change
from dbt.adapters.mvsink.sink.gate import AuditScope, passed_before


def commit(version, kind, audits=(), audited=None, token="t"):
    note = CommitNote(audits=audits, audited=audited)
    return Commit(version, 0, kind, None, None, token, "w", "h", note)


LOAD = commit(1, "append", ("a", "b"), 0)
HISTORIES = {
    "nothing": ([], ""),
    "an audited load": ([commit(0, "create"), LOAD], "ab"),
    "then runs without changes, properties, compaction": (
        [LOAD, commit(2, "advance"), commit(3, "schema"), commit(4, "compact")],
        "ab",
    ),
    "then another audited run": ([LOAD, commit(2, "append", ("b",), 1)], "b"),
    "then a run without audits": ([LOAD, commit(2, "append")], ""),
    "then columns": ([LOAD, commit(2, "evolve")], ""),
    "then another tool": ([LOAD, commit(2, "DELETE", token="")], ""),
    "then another tool that names its commit as we do": ([LOAD, commit(2, "advance", token="")], ""),
    "another tool before an audited run": ([LOAD, commit(2, "WRITE", token=""), commit(3, "append", ("a",), 2)], "a"),
    "another tool between check and append": (
        [LOAD, commit(2, "WRITE", token=""), commit(3, "append", ("a",), 1)],
        "",
    ),
    "our own commits between check and append": (
        [LOAD, commit(2, "schema"), commit(3, "compact"), commit(4, "append", ("a",), 1)],
        "a",
    ),
    "commits between that are gone": ([commit(9, "append", ("a",), 5)], ""),
    "commits before are gone": ([commit(9, "append", ("a",), 8)], "a"),
    "too long ago": ([commit(version, "advance") for version in range(60, 70)], ""),
}  # fmt: skip


@pytest.mark.parametrize(("commits", "passed"), HISTORIES.values(), ids=HISTORIES)
def test_what_the_contents_have_passed(commits, passed):
    assert passed_before(commits) == frozenset(passed)


def test_what_they_passed_is_in_the_log():
    change = Change(kind="append", note=CommitNote(audits=("a", "b"), audited=7), token="t")
    from_log = commit_of(8, own(change))
    assert (from_log.note.audits, from_log.note.audited) == (("a", "b"), 7)
    none = commit_of(8, own(Change(kind="append")))
    assert (none.note.audits, none.note.audited) == ((), None)


def own(change):
    return json.dumps({"commitInfo": {"mvsink": json.dumps(metadata(change))}})


def test_a_key_narrows_to_the_rows_that_share_it():
    assert AuditScope("d").narrowed("all", "added") == "added"
    assert AuditScope("d", "lower(k)").narrowed("all", "added") == (
        "select * from (\nall\n) where (lower(k)) in (select lower(k) from (\nadded\n))"
    )
