"""Whole suites with models that are published as Delta tables, whatever the tests are about: after
each publication, other engines must read from the table what the shard holds.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.materialization.catalog_entry import CatalogEntry, publish_entry
from dbt.adapters.mvsink.materialization.opening import Opened
from dbt.adapters.mvsink.materialization.options import table as options
from dbt.adapters.mvsink.materialization.publish import Docs
from dbt.adapters.mvsink.physical import DIFF, LARGEST_TIME
from dbt.adapters.mvsink.shard import Antichain, ReadHandle
from dbt.adapters.mvsink.shard.updates import advance, consolidate

MODES = ("auto", "delta", "mixed")
compared: Counter[str] = Counter()  # publications of this process, by what became of the comparison


class TableDiffers(AssertionError):
    """A reader of a table sees other rows than those of the shard."""


def install(mode: str, patch: pytest.MonkeyPatch) -> None:
    """`delta` publishes each model whose config says nothing else as a Delta table, `mixed` about
    half of them, by their names. `auto` leaves models as they are.
    """
    if mode == "auto":
        return
    parse = options._parse

    def published(materialization: str, model: str, config: Mapping[str, Any]) -> options.ModelOptions:
        chosen = mode == "delta" or zlib.crc32(model.rpartition(".")[2].encode()) % 2 == 0
        value = config.get("file_format")
        return parse(
            materialization, model, {**config, "file_format": value or ("delta" if chosen else None)}
        )

    def and_read(opened: Opened, docs: Docs) -> CatalogEntry:
        entry = publish_entry(opened, docs)
        if opened.context.options.file_format == "delta":
            compared[_compare(opened, entry)] += 1
        return entry

    patch.setattr(options, "_parse", published)
    patch.setattr("dbt.adapters.mvsink.materialization.run.publish_entry", and_read)


def _compare(opened: Opened, entry: CatalogEntry) -> str:
    """Raises `TableDiffers`."""
    # here, because every suite imports this module, also where the engines are not installed
    from tests.support.table_readers import READERS, rows_of

    with opened.context.client.open_reader(opened.handle.uri) as reader:
        state = reader.state()
        if not state.readable:
            return "no contents"
        if any("the table shows an earlier version" in each for each in entry.warnings):
            return "an earlier version"
        own, kept = [column.name for column in opened.columns], state.schema.names
        names = own if sorted(own) == sorted(kept) else kept
        wanted = rows_of(shard_rows(reader).select(names))
        for name, read in READERS.items():
            rows = read(f"{reader.uri}/table")
            if rows != wanted and reader.state().version == state.version:  # no other run wrote meanwhile
                raise TableDiffers(
                    f"{opened.context.model}: {name} lacks {wanted - rows} and has {rows - wanted}"
                )
    return "compared"


def shard_rows(reader: ReadHandle) -> pa.Table:
    """The shard's contents, without a lease: some tests look for those."""
    updates = reader._updates(reader.state(), Antichain.of(0), Antichain.empty())
    rows = consolidate(advance(updates, LARGEST_TIME))
    many = rows.column(DIFF).to_pylist()
    return rows.take(pa.array([n for n, copies in enumerate(many) for _ in range(copies)], pa.int64()))
