"""docs/design/shard.md, *Errors*: four kinds, never mixed. And the compare-and-append of *How a
commit happens* against every reply a commit can get.
"""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.shard import (
    Conflict,
    FilesChanged,
    InvalidUsage,
    MemoryStorage,
    SchemaMismatch,
    ShardClient,
    ShardError,
    ShardReplaced,
    StorageError,
    UpperMismatch,
)
from dbt.adapters.mvsink.shard.errors import TransientError, UnknownOutcome, UnresolvedCommit
from tests.support.clocks import collect_at
from tests.support.shards import SCHEMA, at, live, read, staged, updates
from tests.support.storage_faults import FaultyStorage

U = "s"
KINDS = {
    "invalid usage": (InvalidUsage, {InvalidUsage, SchemaMismatch, ShardReplaced}),
    "expected conflict": (Conflict, {UpperMismatch, FilesChanged}),
    "storage failure": (StorageError, {StorageError}),
}


class Plan:
    """What the next calls meet: one entry a call, then nothing. Callable entries are called before
    the commit.
    """

    def __init__(self):
        self.next: list = []
        self.calls: list[str] = []

    def __call__(self, call):
        self.calls.append(call)
        fault = self.next.pop(0) if self.next and call == "commit" else None
        if callable(fault):
            fault()
            return None
        return fault


@pytest.fixture
def plan():
    return Plan()


@pytest.fixture
def inner():
    return MemoryStorage(U)


@pytest.fixture
def writer(inner, plan):
    return ShardClient(locate=lambda uri: FaultyStorage(inner, plan)).open_writer(U, SCHEMA)


@pytest.fixture
def other(inner, writer):
    return ShardClient(locate=lambda uri: inner).open_writer(U, SCHEMA)


@pytest.fixture
def impatient(writer):
    """A time-out of a blink for every member."""
    writer.storage.timeout = 0.05


@pytest.mark.parametrize(("root", "members"), KINDS.values(), ids=KINDS)
def test_kinds_are_never_mixed(root, members):
    assert all(issubclass(member, root) and issubclass(member, ShardError) for member in members)
    others = [kind for kind, _ in KINDS.values() if kind is not root]
    assert not any(issubclass(member, kind) for member in members for kind in others)
    # never seen outside
    assert not any(issubclass(inside, ShardError) for inside in (UnknownOutcome, TransientError))


def test_invalid_usage_is_never_retried(writer, plan):
    before = len(plan.calls)
    with pytest.raises(InvalidUsage):
        writer.compare_and_append(updates(("a", 9, 1)), at(0), at(3))
    assert plan.calls[before:] == []


def test_an_expected_conflict_carries_the_current_upper_and_is_not_retried(writer, other, plan):
    other.compare_and_append(updates(), at(0), at(4))
    before = len(plan.calls)
    with pytest.raises(UpperMismatch) as error:
        writer.compare_and_append(updates(), at(1), at(3))
    assert (error.value.current, error.value.expected) == (at(4), at(1))
    assert plan.calls[before:].count("commit") == 0


def test_another_version_with_the_same_upper_is_tried_again(writer, other, plan):
    """Another writer compacted, or changed a property: the upper still matches."""
    plan.next = [lambda: other.set_properties({"who": "cares"})]
    writer.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
    assert other.fetch_recent_upper() == at(1) and other.state().properties == {"who": "cares"}


def test_another_version_with_another_upper_is_a_mismatch(writer, other, plan):
    plan.next = [lambda: other.compare_and_append(updates(("b", 0, 1)), at(0), at(2))]
    with pytest.raises(UpperMismatch) as error:
        writer.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
    assert error.value.current == at(2) and staged(writer) == live(writer)


def test_a_transient_storage_failure_is_retried(writer, other, plan):
    plan.next = ["before", "before", "before"]
    writer.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
    assert [file.rows for file in other.state().files] == [1]


def test_a_storage_failure_that_lasts_becomes_storage_error_and_nothing_happened(
    writer, other, plan, impatient
):
    plan.next = ["before"] * 100
    with pytest.raises(StorageError, match="was not sent"):
        writer.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
    assert other.state().upper == at(0)


MEMBERS = {
    "fetch_recent_upper": lambda client, handle: handle.fetch_recent_upper(),
    "state": lambda client, handle: handle.state(),
    "downgrade_since": lambda client, handle: handle.downgrade_since(at(0)),
    "wait_for_upper_past": lambda client, handle: handle.wait_for_upper_past(at(5)),
    "open_reader": lambda client, handle: client.open_reader(U),
    "exists": lambda client, handle: client.exists(U),
}


@pytest.mark.parametrize("member", MEMBERS.values(), ids=MEMBERS)
def test_every_member_tries_until_the_clients_timeout(inner, member):
    reachable, asked = [True], []
    client = ShardClient(
        locate=lambda uri: FaultyStorage(
            inner, lambda call: asked.append(call) or (None if reachable[0] else "before")
        ),
        timeout=0.05,
    )
    handle = client.open_writer(U, SCHEMA)
    reachable[0] = False
    asked.clear()
    with pytest.raises(StorageError, match="cannot be read"):
        member(client, handle)
    assert 2 <= len(asked) < 100


def test_a_wait_ends_at_its_own_timeout_though_the_log_is_out_of_reach(inner):
    client = ShardClient(
        locate=lambda uri: FaultyStorage(inner, lambda call: None if reachable[0] else "before")
    )
    reachable = [True]
    handle = client.open_writer(U, SCHEMA)
    reachable[0] = False
    with pytest.raises(TimeoutError, match="not past") as late:
        handle.wait_for_upper_past(at(5), timeout=0.05)
    assert isinstance(late.value.__cause__, StorageError)


OUTCOMES = {"lost": ["lost"], "unknown, then it works": ["unknown"], "unknown, then lost": ["unknown", "lost"],
            "unknown, unsent, lost": ["unknown", "before", "lost"]}  # fmt: skip


@pytest.mark.parametrize("replies", OUTCOMES.values(), ids=OUTCOMES)
def test_an_unknown_outcome_is_resolved_by_the_token(writer, other, plan, replies):
    plan.next = list(replies)
    writer.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
    assert [(commit.kind, commit.upper) for commit in other.history()[1:]] == [("append", at(1))]
    assert len({commit.token for commit in other.history()}) == len(other.history())


def test_an_unknown_outcome_whose_version_was_taken_is_a_conflict(writer, other, plan, inner, monkeypatch):
    """It did not happen, and never can: the version carries another's token."""

    def another_writer():
        plan.next = ["unknown"]
        other.compare_and_append(updates(("b", 0, 1)), at(0), at(1))

    plan.next = ["unknown", another_writer]
    with pytest.raises(UpperMismatch):
        writer.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
    assert staged(writer) == live(other)


def test_nothing_staged_is_deleted_while_the_outcome_is_unknown(writer, other, plan, inner):
    listed = []
    kept = inner.token_at
    inner.token_at = lambda version: (listed.append(staged(other)), kept(version))[1]
    plan.next = ["lost"]
    writer.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
    assert listed == [live(other)]


def test_nothing_staged_is_deleted_when_the_log_never_answers(inner, writer, other, plan, impatient):
    """The commit happened, its reply was lost, and then the log is out of reach for longer than the
    time-out.
    """

    def unreachable(version):
        raise TransientError("injected: the log is out of reach")

    answering, inner.token_at = inner.token_at, unreachable
    batch = writer.batch(updates(("a", 0, 1)), at(0), at(1))
    plan.next = ["lost"]
    with writer, pytest.raises(StorageError):
        writer.compare_and_append_batch([batch], at(0), at(1))
    inner.token_at = answering
    assert live(other) <= staged(other)


def test_nothing_staged_is_deleted_when_the_log_cannot_be_loaded_after_a_commit_was_sent(
    inner, writer, other, plan, impatient
):
    """No reply, no answer for the token, and then no log at all."""
    kept_load, kept_token = inner.load, inner.token_at
    batch = writer.batch(updates(("a", 0, 1)), at(0), at(1))
    kept_commit = inner.commit

    def commit(version, change):
        kept_commit(version, change)

        def unreachable(*_):
            raise TransientError("injected: the log is out of reach")

        inner.load = unreachable
        inner.token_at = lambda version: None  # as a log answers that is not there yet
        raise UnknownOutcome("injected: no reply")

    inner.commit = commit
    with writer, pytest.raises(UnresolvedCommit, match="whether version 1 was committed is unknown"):
        writer.compare_and_append_batch([batch], at(0), at(1))
    inner.load, inner.token_at, inner.commit = kept_load, kept_token, kept_commit
    assert live(other) <= staged(other) and live(other)


def test_rule_8_a_failed_attempt_leaves_staged_files_at_most_and_garbage_collection_removes_them(opened):
    writer = opened.open_writer(U, SCHEMA)
    writer.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
    abandoned = [writer.stage(), writer.stage()]
    batch = writer.batch(updates(("b", 1, 1)), at(1), at(2))
    batch.to_transmittable()
    assert read(opened, U, 0) == [("a", 1)] and len(abandoned) == 2
    collect_at(writer, 4 * 10**12, staged_grace_ms=0)
    assert staged(writer) == live(writer)
