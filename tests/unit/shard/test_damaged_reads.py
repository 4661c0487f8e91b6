"""Row e of issue 41: whatever is in a file that the package reads from a storage, the outcome is
the right error, which names the file, or the file is ignored because it only helps. Never an
error of another kind, never another answer. The table in docs/design/storage-safety.md has a row
for each of these things.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.mvsink.shard import (
    CommitNote,
    ReadPoints,
    ShardClient,
    checkpoint,
    collect_garbage,
    progress,
)
from dbt.adapters.mvsink.shard import damage as damage_module
from dbt.adapters.mvsink.shard import removals as ledger
from dbt.adapters.mvsink.shard.commit_log import commit_path
from dbt.adapters.mvsink.shard.damage import LAST_CHECKPOINT
from dbt.adapters.mvsink.shard.errors import LogDamaged, StorageError, Unreachable
from dbt.adapters.mvsink.shard.leases import leased_since
from dbt.adapters.mvsink.shard.stored import Unreadable, number_in, parsed
from tests.support.package_edges import ROOT
from tests.support.shards import SCHEMA, at, read, updates

PACKAGE = ROOT / "dbt" / "adapters" / "mvsink"
DEEP = "[" * 100_000
# Each is put where a value was, as JSON: wrong types, numbers that no integer holds, half a pair
WRONG = (
    "[]",
    "{}",
    '"x"',
    "-1",
    "1e400",
    "NaN",
    "true",
    "null",
    str(2**70),
    "9" * 5000,
    "1.5",
    '"\\ud800"',
    DEEP,
)
ANOTHER = r'txn\.(appId: "x"|version: -1)'
COMMIT = 4  # the newest: an append
HOLDS_LOG = 3  # has the hold's transaction, and a checkpoint after it


@pytest.fixture(autouse=True)
def no_wait(monkeypatch):
    """Damage is checked twice; these tests do not wait between the two checks."""
    monkeypatch.setattr(damage_module, "MOMENT", 0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A shard with every file that the package reads."""
    root = tmp_path_factory.mktemp("whole") / "s"
    with ShardClient().open_writer(str(root), SCHEMA) as handle:
        for t in range(2):
            handle.compare_and_append(updates((f"a{t}", t, 1)), at(t), at(t + 1), inputs={"i": t})
        handle.hold("h", 1)
        checkpoint(handle)
        note = CommitNote(read=ReadPoints({"a": 1}, {"b": 2}), audits=("x",), seconds=0.5)
        handle.compare_and_append(updates(("b", 2, 1)), at(2), at(3), inputs={"i": 7}, note=note)
        collect_garbage(handle)
        kept = progress.Verified("rows", {"p": "d"}, (1, 2))
        progress.keep_verified(handle, kept)
        handle.storage.write_text("leases/r", json.dumps({"since": 2, "expires": 0}))
    return root


@pytest.fixture
def copied(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "s"))


def damages(text: str) -> Iterator[tuple[str, bytes]]:
    """Whole contents that no process of ours has written, with a name."""
    raw = text.encode()
    yield "empty", b""
    yield "cut off", raw[: len(raw) // 2]
    yield "not UTF-8", raw[: len(raw) // 2] + b"\xff\xfe" + raw[len(raw) // 2 :]
    yield "another encoding", text.encode("utf-16")
    for wrong in WRONG:
        yield f"only {wrong[:9]}", wrong.encode()


def values(text: str) -> Iterator[tuple[str, bytes]]:
    """Each value of each line in turn is missing, or another."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        for path in paths(json.loads(line)):
            for wrong in (None, *WRONG):
                changed = [*lines[:number], replaced(json.loads(line), path, wrong), *lines[number + 1 :]]
                name = f"line {number}, {'.'.join(path)}: {'missing' if wrong is None else wrong[:9]}"
                yield name, "\n".join(changed).encode()


def paths(value: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield (*above, key)
        yield from paths(inner, (*above, key))


def replaced(value: Any, path: tuple[str, ...], wrong: str | None) -> str:
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    if wrong is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = "@"
    return json.dumps(value, separators=(",", ":")).replace('"@"', wrong or "")


# What is only a help: everything is as it was without the file.


def test_row_e_the_hint_at_the_newest_checkpoint_is_only_a_help(copied):
    path = copied / LAST_CHECKPOINT
    text = path.read_text()
    for name, raw in (*damages(text), *values(text)):
        path.write_bytes(raw)
        handle = ShardClient(timeout=0).open_writer(str(copied), SCHEMA)
        assert handle.storage.checkpointed() in (0, HOLDS_LOG), name
        state = handle.state()
        assert (state.version, state.upper, dict(state.holds)) == (COMMIT, at(3), {"h": 1}), name


def test_row_e_an_append_succeeds_whatever_is_in_the_hint(copied):
    (copied / LAST_CHECKPOINT).write_text('{"version": "x"}')
    handle = ShardClient(timeout=0).open_writer(str(copied), SCHEMA)
    assert handle.compare_and_append(updates(("c", 3, 1)), at(3), at(4)).version == COMMIT + 1


def test_row_e_the_ledger_is_only_a_help(copied):
    handle = ShardClient(timeout=0).open_writer(str(copied), SCHEMA)
    text = handle.storage.read_text(ledger.PLACE) or ""
    for name, raw in (*damages(text), *values(text)):
        (copied / ledger.PLACE).write_bytes(raw)
        assert handle.storage.removals().times == {}, name
    (copied / ledger.PLACE).write_text(DEEP)
    assert collect_garbage(handle) == []


def test_row_e_what_was_verified_is_only_a_help(copied):
    handle = ShardClient(timeout=0).open_writer(str(copied), SCHEMA)
    kept = progress.last_verified(handle)
    assert kept is not None
    text = kept.text(str(handle.shard_id))
    same = {"line 0, what: \"x\"", "line 0, digests: {}", "line 0, digests.p: missing", 'line 0, digests.p: "x"', "line 0, sums: []"}  # fmt: skip
    for name, raw in (*damages(text), *values(text)):
        (copied / progress.PLACE).write_bytes(raw)
        assert progress.last_verified(handle) is None or name in same, name


def test_row_e_a_lease_that_cannot_be_read_keeps_all_history(copied):
    handle = ShardClient(timeout=0).open_writer(str(copied), SCHEMA)
    text = (copied / "leases/r").read_text()
    for name, raw in (*damages(text), *values(text)):
        (copied / "leases/r").write_bytes(raw)
        whole = name.startswith("line 0, expires") and not any(
            each in name for each in ("1e400", "NaN", "9999", "ud800", "[[[[")
        )
        assert leased_since(handle.storage).stored() == (2 if whole else 0), name


# What is the shard itself: named.


def outcome(root: Path) -> Any:
    """What the shard has, or the error; another error is a defect."""
    try:
        handle = ShardClient(timeout=0).open_writer(str(root), SCHEMA)
        state = handle.state()
        assert read(ShardClient(timeout=0), str(root), 2) == [("a0", 1), ("a1", 1), ("b", 1)]
        return state.version, state.upper, dict(state.holds), handle.progress("i"), len(state.files)
    except StorageError as error:
        assert str(root) in str(error)
        return type(error)


@pytest.mark.parametrize("kind", ["damages", "values"])
def test_row_e_the_newest_commit_is_read_whole_or_refused(copied, kind):
    """Nothing between: neither a part of it, nor an error of another class."""
    path = copied / commit_path(COMMIT)
    text, right = path.read_text(), outcome(copied)
    # one name or number instead of another is no damage that shows
    cases = [
        each for each in (damages if kind == "damages" else values)(text) if not re.search(ANOTHER, each[0])
    ]
    for name, raw in cases if kind == "damages" else cases[:: len(cases) // 80]:
        path.write_bytes(raw)
        result = outcome(copied)
        assert result == LogDamaged or (kind == "values" and result == right) or "add.path" in name, name
        assert "add.path" not in name or result in (LogDamaged, Unreachable), name


@pytest.mark.parametrize("kind", ["damages", "values"])
def test_row_e_a_commit_behind_a_checkpoint_is_read_as_history_or_refused(copied, kind):
    handle = ShardClient(timeout=0).open_writer(str(copied), SCHEMA)
    path, before = copied / commit_path(1), handle.storage.history()
    text = path.read_text()
    for name, raw in damages(text) if kind == "damages" else values(text):
        path.write_bytes(raw)
        try:
            after = handle.storage.history()
        except LogDamaged as error:
            assert commit_path(1) in str(error), name
        else:
            assert [commit.version for commit in after] == [commit.version for commit in before], name
        token = handle.storage.token_at(1)
        assert token in (before[1].token, None, "") or "token" in name, name


WRONG_SETTINGS = {
    "shard_id": ("no uuid", "expected a UUID"),
    "format_version": ("1e400", "expected an integer"),
    "salt": ("²", "expected an integer"),
    "created": ("[]", "expected an integer"),
    "claims": ('{"a": 1}', "expected a text"),
}


@pytest.mark.parametrize(("name", "value", "why"), [(n, *each) for n, each in WRONG_SETTINGS.items()])
def test_row_e_a_table_property_of_ours_is_named_with_its_value_and_the_remedy(copied, name, value, why):
    path = copied / commit_path(0)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    [metadata] = [line for line in lines if "metaData" in line]
    metadata["metaData"]["configuration"][f"mvsink.{name}"] = value
    newer = copied / commit_path(COMMIT + 1)
    newer.write_text(json.dumps(metadata) + "\n")
    with pytest.raises(
        LogDamaged, match=f"at version 5 the table property mvsink.{name} is .*{why}.*--full-refresh"
    ):
        ShardClient(timeout=0).open_reader(str(copied))


def test_row_e_a_line_separator_in_a_text_is_no_new_line_of_the_commit(copied):
    """JSON leaves U+2028 and U+0085 as they are, and `splitlines` breaks lines at them."""
    text = "select '\u2028\u0085\x1c'"
    with ShardClient(timeout=0).open_writer(str(copied), SCHEMA) as handle:
        handle.set_properties({"definition": text}, CommitNote(reason=text))
        handle.compare_and_append(updates(("c", 3, 1)), at(3), at(4))
        assert [commit.note.reason for commit in handle.history(2)] == [text, ""]
        assert ShardClient(timeout=0).open_reader(str(copied)).state().properties["definition"] == text


@pytest.mark.parametrize(
    "text", [None, "", "{", "[1,]", "1e400", "-Infinity", DEEP, '{"a": \udcff}', "9" * 5000]
)
def test_row_e_what_is_no_json_is_unreadable(text):
    with pytest.raises(Unreadable):
        parsed(text)


@pytest.mark.parametrize("text", ["", "-", "1.0", "٣", " 1", str(2**63), "9" * 30, "-1"])
def test_row_e_what_is_no_integer_is_unreadable(text):
    with pytest.raises(Unreadable):
        number_in(text)


# No other module parses what a storage keeps. These parse what another program prints or sends.
OTHERS = {
    "inputs/query_inputs.py", "references/inlined.py", "shard_sql/published_view.py",  # what Spark describes
    "materialization/definition.py",  # what this run has just made
    "cli/dbt_runner.py",  # what dbt prints
    "adapter/commands.py",  # what the command asks
    "materialization/fixture_values.py",  # what a unit test has
    "connection/class_archive_maker.py", "connection/metastore.py", "connection/cursor.py",  # of this machine
    "connection/warm_sessions.py", "connection/warm_server.py",
}  # fmt: skip


def test_row_e_one_module_parses_what_a_storage_keeps():
    parsing = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search(r"\bjson\.(loads?|JSONDecoder)\b|from json import", path.read_text())
    }
    assert parsing == {"shard/stored.py"} | OTHERS
