"""Publishes a model as a table if its `file_format` asks for one. `published` writes the table.

Some shards cannot be shown as they are (`NotLocated`): an earlier release wrote their files outside
the table's root, or two rows share a hash. Such a shard is compacted first. Afterwards all its live
files are below the root, and equal rows are one record.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import numpy as np

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.engine import Engine
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.materialization.opening import Opened
from dbt.adapters.mvsink.materialization.publish import Docs
from dbt.adapters.mvsink.physical import HASH
from dbt.adapters.mvsink.published import NotLocated, Publication, is_published, publish, unpublish
from dbt.adapters.mvsink.published.shown_rows import Numbers
from dbt.adapters.mvsink.shard import CompactionPlan, Directory, WriteHandle
from dbt.adapters.mvsink.shard.directories import uncancelled
from dbt.adapters.mvsink.shard.state import TABLE
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.layout import files_of
from dbt.adapters.mvsink.shard_sql.rewrite import compact

log = logging.getLogger("mvsink.sink.append")
# The property of the shard that records the format that it was last published in.
KEPT = "file_format"


@dataclass(frozen=True)
class Words:
    """What a run reports about the table: ``notes`` for its line, and warnings."""

    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def publish_table(opened: Opened, docs: Docs) -> Words:
    """Make the model's table show the shard. If the model no longer wants a table, the
    table's log is deleted.
    """
    handle, engine = opened.handle, opened.context.engine
    kept = handle.state().properties.get(KEPT, "view")
    wanted = opened.context.options.file_format
    if wanted == kept == "view":
        return Words()
    if wanted == "view":
        unpublish(handle)
        handle.set_properties({KEPT: wanted})
        return Words(("no longer published as a Delta table (file_format)",))
    if kept != wanted:
        handle.set_properties({KEPT: wanted})  # first: if this run is killed, later ones know of the table
    order = [column.name for column in opened.columns]
    comments = docs.of_columns(opened.columns).column_comments or {}
    first = not is_published(handle)
    try:
        done, rewritten = _published(engine, handle, order, comments)
    except NotLocated as error:
        return Words((), (f"the table shows an earlier version, for its rows cannot be located: {error}",))
    notes = []
    if first and done.changed:
        place = masked(f"{handle.uri}/{TABLE}")
        notes.append(f"published as a Delta table (file_format) at {place}")
    if rewritten:
        notes.append(f"its contents were written once for that ({rewritten} bytes)")
    if done.undone:
        notes.append(f"{done.undone} commit(s) of other tools to the table undone")
    if done.kept:
        return Words(tuple(notes), (f"the table shows an earlier version, without errors: {done.kept}",))
    return Words(tuple(notes))


def _published(
    engine: Engine, handle: WriteHandle, order: Sequence[str], comments: Mapping[str, str]
) -> tuple[Publication, int]:
    """Publish the table, after a compaction if there must be one; also returns the bytes that the
    compaction wrote, or 0.
    """

    def hashes(layout: Layout, directories: Sequence[Directory]) -> Mapping[str, Numbers]:
        return _hashes(engine, layout, directories)

    try:
        return publish(handle, order, comments, hashes), 0
    except NotLocated as error:
        log.debug("%s is compacted for its table: %s", handle.uri, error)
    handle.upgrade()
    state = handle.state()
    whole = CompactionPlan(uncancelled(state.files), state.since)
    compact(engine, handle, whole, Layout.of(handle, state))
    size = sum(file.size for file in handle.state().files)
    return publish(handle, order, comments, hashes), size


def _hashes(engine: Engine, layout: Layout, directories: Sequence[Directory]) -> Mapping[str, Numbers]:
    """The hash of each row of these directories' files, by path: the stored one, or computed by the
    engine. Raises `NotLocated` if they have too many rows to bring into this process.
    """
    files = files_of(directories)
    if sum(file.rows or 0 for file in files) > limits.LOCAL_ROWS:
        raise NotLocated("too many rows have no hash")
    items = f"_metadata.file_path, _metadata.row_index, coalesce({HASH}, {layout.hash_of()})"
    by_path = {file.path: np.zeros(file.rows or 0, np.int64) for file in files}
    by_name = {tuple(path.split("/")[-2:]): path for path in by_path}
    for path, position, hashed in engine.query(layout.select(directories, items), "hashes"):
        by_path[by_name[tuple(unquote(str(path)).split("/")[-2:])]][int(str(position))] = int(str(hashed))
    return by_path
