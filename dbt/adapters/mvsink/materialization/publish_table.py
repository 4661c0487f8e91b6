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
from dbt.adapters.mvsink.engine import Engine, sql
from dbt.adapters.mvsink.materialization.opening import Opened
from dbt.adapters.mvsink.materialization.publish import Docs
from dbt.adapters.mvsink.physical import HASH
from dbt.adapters.mvsink.published import (
    NotLocated,
    Publication,
    TableDocs,
    is_published,
    publish,
    recorded,
    retire,
    table_of,
)
from dbt.adapters.mvsink.published.formats import recorded_tables, recording
from dbt.adapters.mvsink.published.protocol import PublishedTable
from dbt.adapters.mvsink.published.shown_rows import Computed
from dbt.adapters.mvsink.shard import CompactionPlan, Directory, WriteHandle
from dbt.adapters.mvsink.shard.directories import is_negation, uncancelled
from dbt.adapters.mvsink.shard.state import TABLE
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.layout import files_of
from dbt.adapters.mvsink.shard_sql.rewrite import compact

log = logging.getLogger("mvsink.sink.append")


@dataclass(frozen=True)
class ModelTable:
    """What a run made of a model's table. ``place`` is where the table is, which shows the shard or
    an earlier version of it; empty if there is no table. ``first`` says that this run created it.
    """

    place: str = ""
    first: bool = False
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def publish_table(opened: Opened, docs: Docs, order: Sequence[str]) -> ModelTable:
    """Make the model's table show the shard, if the model wants one, with columns in this
    ``order``.
    """
    context, handle = opened.context, opened.handle
    wanted, known = context.table_format, recorded_tables(handle.state().properties)
    if wanted is None:
        return ModelTable()
    if known[:1] != [wanted]:
        # first: if this run is killed, later ones know of the table, and of former ones
        handle.set_properties(recording(wanted, [each for each in known if each != wanted]))
    return brought_up_to_date(context.engine, handle, order, docs, context.iceberg_catalog)


def brought_up_to_date(
    engine: Engine,
    handle: WriteHandle,
    order: Sequence[str],
    docs: Docs,
    catalog: Mapping[str, str] | None,
) -> ModelTable:
    """Make the table of a shard that has one, or is to have one, show its newest version.
    ``order``: of its columns. ``catalog``: the properties of the Iceberg catalog.
    """
    published = recorded(handle.state().properties)
    if published is None:
        return ModelTable()
    place, table = f"{handle.uri}/{TABLE}", table_of(handle, published, catalog)
    first = not is_published(table)
    try:
        done, rewritten = _published(engine, handle, order, docs, table)
    except NotLocated as error:
        warning = f"the table shows an earlier version, for its rows cannot be located: {error}"
        return ModelTable("" if first else place, warnings=(warning,))
    notes = []
    if rewritten:
        notes.append(f"its contents were written once for that ({rewritten} bytes)")
    if done.undone:
        notes.append(f"{done.undone} commit(s) of other tools to the table undone")
    kept = f"the table shows an earlier version, without errors: {done.kept}"
    return ModelTable(
        place if done.version >= 0 else "",
        first and done.changed,
        tuple(notes),
        (kept,) if done.kept else (),
    )


def withdraw_table(opened: Opened) -> tuple[str, ...]:
    """Take back the tables that the model does not want any more. Returns notes."""
    handle, wanted = opened.handle, opened.context.table_format
    if not [each for each in recorded_tables(handle.state().properties) if each != wanted]:
        return ()
    former, left = retire(handle, opened.context.iceberg_catalog, but=wanted)
    handle.set_properties(recording(wanted))
    return (*(f"no longer published as {each.words} (file_format)" for each in former), *left)


def _published(
    engine: Engine, handle: WriteHandle, order: Sequence[str], docs: Docs, table: PublishedTable
) -> tuple[Publication, int]:
    """Publish the table, after a compaction if there must be one; also returns the bytes that the
    compaction wrote, or 0.
    """
    described = TableDocs(docs.comment, docs.column_comments or {}, docs.properties)

    def hashes(layout: Layout, directories: Sequence[Directory]) -> Mapping[str, Computed]:
        return _hashes(engine, layout, directories)

    try:
        return publish(handle, order, described, hashes, table), 0
    except NotLocated as error:
        log.debug("%s is compacted for its table: %s", handle.uri, error)
    handle.upgrade()
    state = handle.state()
    whole = CompactionPlan(uncancelled(state.files), state.since)
    compact(engine, handle, whole, Layout.of(handle, state))
    size = sum(file.size for file in handle.state().files)
    return publish(handle, order, described, hashes, table), size


def _hashes(engine: Engine, layout: Layout, directories: Sequence[Directory]) -> Mapping[str, Computed]:
    """The hashes of these directories' rows that have none, by the path of the file. Raises
    `NotLocated` if they are too many to bring into this process.

    A negation here cancels nothing. It has the hashes of what it copied, and a hash that several
    rows of the base have is among them: all of its rows are computed.
    """
    partly = [each for each in directories if not is_negation(each.batch_id)]
    wholly = [each for each in directories if is_negation(each.batch_id)]
    lacking = sum((file.rows or 0) - (file.hashes or 0) for file in files_of(partly))
    if lacking + sum(each.rows for each in wholly) > limits.LOCAL_ROWS:
        raise NotLocated("too many rows have no hash")
    items = f"_metadata.file_path, _metadata.row_index, {layout.hash_of()}"
    queries = [layout.select(partly, items, f"{HASH} is null")] if partly else []
    queries += [layout.select(wholly, items)] if wholly else []
    computed: dict[str, list[tuple[int, int]]] = {file.path: [] for file in files_of(directories)}
    by_name = {tuple(path.split("/")[-2:]): path for path in computed}
    for path, position, hashed in engine.query(sql.union_all(queries), "hashes"):
        name = by_name[tuple(unquote(str(path)).split("/")[-2:])]
        computed[name].append((int(str(position)), int(str(hashed))))
    arrays = {path: np.array(pairs, np.int64).reshape(-1, 2) for path, pairs in computed.items()}
    return {path: Computed(array[:, 0], array[:, 1]) for path, array in arrays.items()}
