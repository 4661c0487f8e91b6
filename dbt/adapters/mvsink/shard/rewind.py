"""Taking a shard's upper back to the present, with its history: the remedy after a wrong clock.

A run whose time was far ahead leaves an upper that no later run can pass. A rewind begins a new
generation at a time ``to``: what was written after it is at that time from then on, everything
before it stays as it is. The collection at ``to`` is the newest one that the shard had, and so are
the readable times before it. No row is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.physical import HASH, TIME
from dbt.adapters.mvsink.shard.batch import Batch, BatchState
from dbt.adapters.mvsink.shard.errors import InvalidUsage
from dbt.adapters.mvsink.shard.frontier import Antichain
from dbt.adapters.mvsink.shard.read import appended
from dbt.adapters.mvsink.shard.state import CommitNote, DataFile, ShardState
from dbt.adapters.mvsink.shard.storage import part_path
from dbt.adapters.mvsink.shard.updates import physical_schema
from dbt.adapters.mvsink.shard.write import WriteHandle

ROWS = 100_000  # that are in memory at once


def rewind(handle: WriteHandle, to: int, note: CommitNote | None = None) -> int | None:
    """Make ``to`` (ms) the newest readable time; the version, None if it is not before the newest.

    Copies every file. Raises `FilesChanged` if another writer commits meanwhile, and `InvalidUsage`
    for a shard that was dropped or is read by others up to a later time.
    """
    state, upper = handle.follow(), Antichain.of(to).step_forward()
    if not upper.less_than(state.upper) or not state.readable:
        return None
    require_rewindable(handle, state, to)
    creation = None if state.creation is None else min(state.creation, to)
    since = state.since.meet(Antichain.of(to))
    batches: list[Batch] = []
    try:
        for files in _directories(state.files):
            batches.append(_copied(handle, state, files, to, upper))
        filled = [batch for batch in batches if batch.files]
        done = handle.replace(
            filled, state.schema, upper, since, note=note, expected_version=state.version, creation=creation
        )
    except BaseException:
        for batch in batches:
            if batch.state is BatchState.STAGED:
                batch.delete()
        raise
    return done.version


def require_rewindable(handle: WriteHandle, state: ShardState, to: int) -> None:
    """Raises `InvalidUsage` with the reason if ``state`` cannot be taken back to ``to``."""
    if state.dropped is not None:
        raise InvalidUsage(f"shard {handle.uri} was dropped")
    vectors = [file.path for file in state.files if file.deletion_vector]
    if vectors:
        raise InvalidUsage(
            f"another engine left a deletion vector on {vectors[0]} of shard {handle.uri}; "
            "which rows it deletes cannot be distinguished here"
        )


def _directories(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """The live files by their directory: what one batch staged stays one batch."""
    together: dict[str, list[DataFile]] = {}
    for file in files:
        together.setdefault(file.path.rpartition("/")[0], []).append(file)
    yield from together.values()


def _copied(
    handle: WriteHandle, state: ShardState, files: Sequence[DataFile], to: int, upper: Antichain
) -> Batch:
    """The updates of ``files``, none later than ``to``."""
    schema = physical_schema(state.schema)
    mixed = _is_mixed(files, to)
    staged = handle.stage()
    try:
        for number, file in enumerate(files):
            part = handle.storage.write_part(part_path(staged.batch_id, number), schema)
            for table in handle.storage.scan(file, schema, ROWS):
                part.write(_moved(table.filter(appended(table, state)), to, mixed))
            part.close()
        return handle.adopt(staged, Antichain.of(0), upper)
    except BaseException:
        staged.delete()
        raise


def _is_mixed(files: Sequence[DataFile], to: int) -> bool:
    """Whether updates of several times come to one. A row may then be there twice, so the batch
    must not count as one of ours that has it once: its hashes are left out.
    """
    times = {time for file in files for time in (file.min_time, file.max_time)}
    return len(times) > 1 and any(time is None or time > to for time in times)


def _moved(table: pa.Table, to: int, mixed: bool) -> pa.Table:
    times = pc.min_element_wise(table.column(TIME), pa.scalar(to, pa.int64()))
    moved = table.set_column(table.schema.get_field_index(TIME), table.schema.field(TIME), times)
    if mixed:
        index = table.schema.get_field_index(HASH)
        moved = moved.set_column(index, table.schema.field(HASH), pa.nulls(table.num_rows, pa.int64()))
    return moved
