"""Exceptions that come from outside, at any moment: a signal's in the main thread, whatever
statement is being executed.

Whatever happens to a commit, a log never names a file that is not there.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.shard import (
    InvalidUsage,
    MemoryStorage,
    ShardClient,
    UpperMismatch,
    commit_loop,
    staging,
    versions,
    write_handle,
)
from dbt.adapters.mvsink.shard import batch as batch_module
from dbt.adapters.mvsink.shard.errors import UnresolvedCommit
from tests.support.clocks import collect_at
from tests.support.processes import process
from tests.support.shards import SCHEMA, at, evolve, live, read, staged, updates
from tests.support.storage_faults import FaultyStorage

APPENDS = 500
OWNERS = {  # the functions that stage, commit, consume and delete
    *(
        "compare_and_append",
        "compare_and_append_batch",
        "append_batch",
        "replace",
        "_rewrite",
        "commit_batches",
        "_undo",
    ),
    *(
        "doubt",
        "settle",
        "delete",
        "end",
        "_claimed",
        "adopt",
        "finish",
        "expire",
        "commit",
        "_commit",
        "__exit__",
    ),
}
TRACED = {module.__file__ for module in (batch_module, commit_loop, staging, versions, write_handle)}


class Interrupted(BaseException):
    """What a signal handler raises."""


# An exception between the lines of `logging` or of a queue may leave a lock taken: a process of its
# own does not pass it on.
APPENDER = """
import random, signal, sys, time, warnings
from dbt.adapters.mvsink.shard import ShardClient
from tests.support.shards import SCHEMA, updates

class Interrupted(BaseException): pass

root, appends, shards = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
chance, armed, took, interrupts = random.Random(5), False, 0.01, 0

def handler(*_):
    global armed, interrupts
    if armed:
        armed, interrupts = False, interrupts + 1
        raise Interrupted

signal.signal(signal.SIGALRM, handler)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])  # whatever started the tests may have blocked it
warnings.simplefilter("ignore")
sys.unraisablehook = lambda _: None
for n in range(appends):
    before = interrupts
    try:
        with ShardClient().open_writer(f"{root}/s{n % shards}", SCHEMA) as handle:
            upper, started = handle.upper, time.monotonic()
            armed = True
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, 1.5 * took))
            handle.compare_and_append(updates(("a", upper.as_option(), 1)), upper, upper.step_forward())
            armed = False
            took = time.monotonic() - started
    except Interrupted:
        took *= 1.05  # so that some appends succeed however slow the machine has become
    except Exception:  # libraries report in their own words what interrupts them
        if interrupts == before:
            raise
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
print(interrupts)
"""


def test_a_signal_at_a_random_moment_of_an_append_leaves_no_log_that_names_a_missing_file(tmp_path):
    """The handle is given up after each signal, as a run does that is interrupted. A shard takes 25
    appends: its log stays short.
    """
    shards, files = APPENDS // 25, 0
    done = process(APPENDER, str(tmp_path), str(APPENDS), str(shards))
    assert done.returncode == 0, done.stderr
    interrupts = int(done.stdout)
    for n in range(shards):
        handle = ShardClient().open_writer(str(tmp_path / f"s{n}"), SCHEMA)
        named = handle.state().files
        assert [file.path for file in named if not (Path(handle.uri) / file.path).is_file()] == []
        files += len(named)
        collect_at(handle, 4 * 10**12)
        assert staged(handle) == live(handle)
        if named:
            assert read(ShardClient(), handle.uri, handle.upper.as_option() - 1) == [("a", len(named))]
    assert interrupts > 50 and files > 50


def append(handle):
    handle.compare_and_append(updates(("b", 3, 1)), at(3), at(4))


def append_cut(handle):
    batches = [
        handle.batch(updates(("b", 1, 1), ("c", 4, 1)), at(0), at(9)),
        handle.batch(updates(("d", 3, 1)), at(3), at(5)),
    ]
    handle.compare_and_append_batch(batches, at(3), at(5))


def append_replicated(handle):
    handle.append(updates(("b", 1, 1), ("c", 3, 1)), at(1), at(4))


def lose(handle):
    handle.compare_and_append(updates(("b", 7, 1)), at(7), at(8))


def replace(handle):
    handle.replace([handle.batch(updates(("b", 1, 1)), at(1), at(2))], SCHEMA, at(2), at(1))


def compact(handle):
    handle.compact([handle.batch(updates(("a", 2, 3)), at(0), at(3))], handle.state().files)


def add_column(handle):
    evolve(handle, "y")


OPERATIONS = [append, append_cut, append_replicated, lose, replace, compact, add_column]


@pytest.fixture(scope="module")
def begun():
    """A shard with three appends."""
    inner = MemoryStorage("s")
    with ShardClient(locate=lambda uri: inner).open_writer("s", SCHEMA) as handle:
        for t in range(3):
            handle.compare_and_append(updates(("a", t, 1)), at(t), at(t + 1))
    return inner


def completed(operation, shard, after):
    """Run ``operation`` with an exception at the ``after``-th bytecode of what owns staged files.
    True: it was over before.
    """
    inner = MemoryStorage(
        "s", states=list(shard.states), commits=list(shard.commits), blobs=dict(shard.blobs)
    )
    left = after

    def trace(frame, event, _):
        nonlocal left
        if frame.f_code.co_filename not in TRACED:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = frame.f_code.co_name in OWNERS, False
        left -= event == "opcode"
        if left == 0:
            sys.settrace(None)
            raise Interrupted
        return trace

    before = sys.gettrace()
    try:
        with ShardClient(locate=lambda uri: inner).open_writer("s", SCHEMA) as handle:
            sys.settrace(trace)
            try:
                operation(handle)
            finally:
                sys.settrace(before)
    except (Interrupted, UpperMismatch):
        pass
    assert {file.path for file in inner.load().files} <= inner.blobs.keys(), (operation.__name__, after)
    return left > 0


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_an_exception_at_any_bytecode_deletes_nothing_that_the_log_names(operation, begun):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for after in range(1, 100_000):
            if completed(operation, begun, after):
                break
    assert 100 < after < 99_999


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_failure_of_any_kind_after_the_commit_leaves_the_batch_in_doubt(failure):
    def fail():
        raise failure

    plan, inner = [None], MemoryStorage("s")
    client = ShardClient(
        locate=lambda uri: FaultyStorage(inner, lambda call: plan[0] if call == "commit" else None)
    )
    with client.open_writer("s", SCHEMA) as handle:
        batch = handle.batch(updates(("a", 0, 1)), at(0), at(1))
        plan[0] = fail
        with pytest.raises(failure):
            handle.compare_and_append_batch([batch], at(0), at(1))
        batch.delete()  # as a clean-up does
        with pytest.raises(InvalidUsage, match="unknown outcome"):
            handle.compare_and_append_batch([batch], at(0), at(1))
    assert read(client, "s", 0) == [("a", 1)]


def test_a_definite_failure_while_an_earlier_try_is_in_doubt_is_unresolved():
    """The first try may yet take effect, so its files stay, whatever the second says."""
    inner = MemoryStorage("s")
    replies = iter(["unknown"])
    storage = FaultyStorage(inner, lambda call: next(replies, None) if call == "commit" else None)
    handle = ShardClient(locate=lambda uri: storage).open_writer("s", SCHEMA)
    batch = handle.batch(updates(("a", 0, 1)), at(0), at(1))
    first = inner.token_at

    def gone(version):
        inner.blobs.pop(batch.files[0].path)  # the second try finds that out, definitely
        return first(version)

    inner.token_at = gone
    with pytest.raises(UnresolvedCommit, match="staged file .* is gone"):
        handle.compare_and_append_batch([batch], at(0), at(1))
    assert batch.state is batch_module.BatchState.IN_DOUBT


def test_a_batch_is_appended_or_deleted_never_both():
    """The first claim on the files decides, in whatever thread."""
    inner = MemoryStorage("s")
    handle = ShardClient(locate=lambda uri: inner).open_writer("s", SCHEMA)
    batch = handle.batch(updates(("a", 0, 1)), at(0), at(1))
    batch.doubt()
    batch.delete()
    handle.expire()
    assert staged(handle) == {file.path for file in batch.files}
    batch.settle()
    batch.delete()
    assert staged(handle) == set()
    with pytest.raises(InvalidUsage, match="deleted"):
        batch.doubt()


def test_a_staged_directory_whose_files_are_a_batch_is_the_batchs_to_delete():
    inner = MemoryStorage("s")
    handle = ShardClient(locate=lambda uri: inner).open_writer("s", SCHEMA)
    directory = handle.stage()
    part = handle.storage.write_part(f"{directory.path}/part-00000.parquet", SCHEMA)
    source = handle.batch(updates(("a", 0, 1)), at(0), at(1))
    part.write(
        pa.concat_tables(
            handle.storage.read(file, handle.storage._table(file.path).schema) for file in source.files
        )
    )
    part.close()
    source.delete()
    batch = handle.adopt(directory, at(0), at(1))
    handle.compare_and_append_batch([batch], at(0), at(1))
    directory.delete()
    handle.expire()
    assert (
        live(ShardClient(locate=lambda uri: handle.storage).open_writer("s", SCHEMA))
        <= staged(handle)
        != set()
    )
