"""A commit to an Iceberg table in pyiceberg's terms: the updates of its metadata, and the
requirements under which they may be applied. See `as_iceberg`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

from pyiceberg import manifest as avro
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import update as change
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.published.protocol import Difference
from dbt.adapters.mvsink.shard import REMOVED_GRACE_MS

T = TypeVar("T")
SHARD, VERSION, GENERATION, FILES = "mvsink.shard-id", "mvsink.version", "mvsink.generation", "mvsink.files"
FORMAT_VERSION = 2
MAX_SNAPSHOTS = 100
UNPARTITIONED = UNPARTITIONED_PARTITION_SPEC.spec_id


def made(kind: Callable[..., T], **values: Any) -> T:
    """A value of a pyiceberg type. mypy knows its fields only by their names in JSON."""
    return kind(**values)


@dataclass(frozen=True)
class Exchanged:
    """How the files of one kind change: those of the last snapshot, the locations of those that go,
    and new ones.
    """

    live: Sequence[avro.DataFile]
    gone: Collection[str]
    added: Sequence[avro.DataFile]

    @property
    def left(self) -> list[avro.DataFile]:
        return [*(file for file in self.live if file.file_path not in self.gone), *self.added]

    @property
    def removed(self) -> list[avro.DataFile]:
        return [file for file in self.live if file.file_path in self.gone]


def summary(difference: Difference, data: Exchanged, deletes: Exchanged) -> Summary:
    """The summary of the snapshot after this difference."""
    figures = {
        "added-data-files": len(data.added),
        "deleted-data-files": len(data.removed),
        "added-records": _rows(data.added),
        "deleted-records": _rows(data.removed),
        "added-delete-files": len(deletes.added),
        "added-position-deletes": _rows(deletes.added),
        "removed-delete-files": len(deletes.removed),
        "removed-position-deletes": _rows(deletes.removed),
    }
    totals = {
        "total-data-files": len(data.left),
        "total-records": _rows(data.left),
        "total-delete-files": len(deletes.left),
        "total-position-deletes": _rows(deletes.left),
        "total-equality-deletes": 0,
        "total-files-size": sum(file.file_size_in_bytes for file in (*data.left, *deletes.left)),
    }
    texts = {name: str(value) for name, value in figures.items() if value}
    texts |= {name: str(value) for name, value in totals.items()}
    changes = difference.gone or deletes.added or deletes.removed
    return Summary(
        Operation.OVERWRITE if changes else Operation.APPEND,
        **texts,
        **{
            SHARD: str(difference.described.shard_id),
            VERSION: str(difference.version),
            GENERATION: str(difference.generation),
            FILES: str(difference.files),
        },
    )


def same_files(snapshot: Snapshot) -> Summary:
    """The summary of a snapshot that has the files of this one."""
    known = snapshot.summary.additional_properties if snapshot.summary else {}
    kept = {name: text for name, text in known.items() if name.startswith(("total-", "mvsink."))}
    return Summary(Operation.REPLACE, **kept)


def _rows(files: Sequence[avro.DataFile]) -> int:
    return sum(file.record_count for file in files)


def creation(schema: Schema, location: str, properties: Mapping[str, str]) -> list[change.TableUpdate]:
    """The updates that create a table without a snapshot."""
    return [
        change.AssignUUIDUpdate(uuid=uuid.uuid4()),
        made(change.UpgradeFormatVersionUpdate, format_version=FORMAT_VERSION),
        made(change.AddSchemaUpdate, schema=schema),
        made(change.SetCurrentSchemaUpdate, schema_id=-1),
        change.AddPartitionSpecUpdate(spec=UNPARTITIONED_PARTITION_SPEC),
        made(change.SetDefaultSpecUpdate, spec_id=-1),
        made(change.AddSortOrderUpdate, sort_order=UNSORTED_SORT_ORDER),
        made(change.SetDefaultSortOrderUpdate, sort_order_id=-1),
        change.SetLocationUpdate(location=location),
        change.SetPropertiesUpdate(updates=dict(properties)),
    ]


def description(
    metadata: TableMetadataV2, schema: Schema, properties: Mapping[str, str]
) -> list[change.TableUpdate]:
    """The updates after which the table has this schema and these properties. ``schema`` has its id
    already.
    """
    updates: list[change.TableUpdate] = []
    if schema.schema_id not in {each.schema_id for each in metadata.schemas}:
        updates.append(made(change.AddSchemaUpdate, schema=schema))
    if schema.schema_id != metadata.current_schema_id:
        updates.append(made(change.SetCurrentSchemaUpdate, schema_id=schema.schema_id))
    if not properties.items() <= metadata.properties.items():
        updates.append(change.SetPropertiesUpdate(updates=dict(properties)))
    if metadata.default_spec_id != UNPARTITIONED:
        updates.append(made(change.SetDefaultSpecUpdate, spec_id=UNPARTITIONED))
    return updates


def snapshot_updates(metadata: TableMetadataV2 | None, snapshot: Snapshot) -> list[change.TableUpdate]:
    """The updates that make a snapshot the current one, and remove expired snapshots."""
    expired = _expired(metadata) if metadata else []
    return [
        made(change.AddSnapshotUpdate, snapshot=snapshot),
        made(
            change.SetSnapshotRefUpdate,
            ref_name=MAIN_BRANCH,
            type=SnapshotRefType.BRANCH,
            snapshot_id=snapshot.snapshot_id,
        ),
        *([made(change.RemoveSnapshotsUpdate, snapshot_ids=expired)] if expired else []),
    ]


def only_snapshot(metadata: TableMetadataV2, snapshot: Snapshot) -> list[change.TableUpdate]:
    """The updates that make a snapshot the current one, and remove all others."""
    others = [each.snapshot_id for each in metadata.snapshots]
    made_current = snapshot_updates(None, snapshot)
    return [*made_current, made(change.RemoveSnapshotsUpdate, snapshot_ids=others)]


def requirements(metadata: TableMetadataV2 | None) -> list[change.TableRequirement]:
    """What must still hold when the updates are made."""
    if metadata is None:
        return [change.AssertCreate()]
    return [
        change.AssertTableUUID(uuid=metadata.table_uuid),
        made(change.AssertRefSnapshotId, ref=MAIN_BRANCH, snapshot_id=metadata.current_snapshot_id),
        made(change.AssertCurrentSchemaId, current_schema_id=metadata.current_schema_id),
        made(change.AssertLastAssignedFieldId, last_assigned_field_id=metadata.last_column_id),
    ]


def _expired(metadata: TableMetadataV2) -> list[int]:
    """Snapshots that were replaced more than 7 days ago, and the oldest of very many: the files of
    a snapshot stay as long as it does.
    """
    ordered = sorted(metadata.snapshots, key=lambda each: each.sequence_number or 0)
    needed = {metadata.current_snapshot_id, *(ref.snapshot_id for ref in metadata.refs.values())}
    before = wall_clock.now_ms() - REMOVED_GRACE_MS
    many = len(ordered) - MAX_SNAPSHOTS
    return [
        each.snapshot_id
        for number, (each, following) in enumerate(pairwise(ordered))
        if each.snapshot_id not in needed and (number < many or following.timestamp_ms < before)
    ]
