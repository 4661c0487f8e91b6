"""What Spark writes to a published table in `spark_tables`: statements by name. Each is drawn with
the table's name in Spark and, of a Delta table, its newest version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

# statements that follow one another; none if the table cannot take them
Writes = Callable[[Random, str, int], Sequence[str]]
# what Spark refuses of a table, by the error's text: in words, or by an error of a class of its own
REFUSALS = ("GC is disabled", r"^\s*\[(?!INTERNAL_ERROR)[A-Z_]+[.\]]")
LAST = "columns mapped"  # nothing finds the column afterwards


def _plain(*statements: str) -> Writes:
    """``{t}``: the table. ``{n}``: a number below 10."""

    def written(chance: Random, table: str, version: int) -> list[str]:
        return [each.format(t=table, n=chance.randrange(10)) for each in statements]

    return written


def _one_of(*choices: str) -> Writes:
    """One of these statements."""
    return lambda chance, table, version: _plain(chance.choice(choices))(chance, table, version)


def _properties(*choices: str) -> Writes:
    """One of these properties, and a commit under it."""

    def written(chance: Random, table: str, version: int) -> list[str]:
        set_ = f"alter table {table} set tblproperties ({chance.choice(choices)})"
        return [set_, *ROWS[chance.choice([*ROWS])](chance, table, version)]

    return written


MERGE = (
    "merge into {t} t using (select id from range(0, 12, 3)) s on t.id = s.id "
    "when matched and t.id % 2 = 0 then delete when matched then update set id = t.id + 100 "
    "when not matched then insert (id) values (s.id) when not matched by source and t.id > 8 then delete"
)
ROWS: Mapping[str, Writes] = {
    "delete": _plain("delete from {t} where id < {n}"),
    "delete all": _plain("delete from {t}"),
    "update": _plain("update {t} set id = id + 1 where id % 3 = {n} % 3"),
    "merge": _plain(MERGE),
    "insert": _plain("insert into {t} select * from {t} limit 3"),
    "overwrite": _plain("insert overwrite {t} select * from {t} where id % 2 = {n} % 2"),
}
TWICE = ("update {t} set id = id + 1 where id = {n}", "delete from {t} where id > {n}")


def _restored(chance: Random, table: str, version: int) -> list[str]:
    if not version:
        return []
    return [f"restore table {table} to version as of {version - chance.randint(1, min(3, version))}"]


DELTA_WRITES: Mapping[str, Writes] = {
    **ROWS,
    "update and delete": _plain(*TWICE),
    "optimize": _plain("optimize {t}"),
    "z-order": _plain("optimize {t} zorder by (id)"),
    "purge": _plain("reorg table {t} apply (purge)"),
    "vacuum": _one_of("vacuum {t}", "vacuum {t} full", "vacuum {t} lite"),
    "restore": _restored,
    "truncate": _plain("truncate table {t}"),
    "properties": _one_of(
        "alter table {t} set tblproperties ('team.owner' = 'n{n}')",
        "alter table {t} set tblproperties ('delta.appendOnly' = 'true')",
        "alter table {t} set tblproperties ('delta.enableDeletionVectors' = 'false')",
        "alter table {t} set tblproperties ('delta.deletedFileRetentionDuration' = 'interval 1 days')",
        "alter table {t} set tblproperties ('delta.logRetentionDuration' = 'interval 1 days')",
        "alter table {t} set tblproperties ('delta.feature.v2Checkpoint' = 'supported')",
        "alter table {t} unset tblproperties if exists ('delta.deletedFileRetentionDuration')",
    ),
    "features and rows": _properties(
        "'delta.enableChangeDataFeed' = 'true'",
        "'delta.columnMapping.mode' = 'name'",
        "'delta.enableRowTracking' = 'true'",
        "'delta.enableInCommitTimestamps' = 'true'",
        "'delta.enableTypeWidening' = 'true'",
        "'delta.enableDeletionVectors' = 'false'",
        "'delta.dataSkippingNumIndexedCols' = '0'",
        "'delta.randomizeFilePrefixes' = 'true'",
    ),
    "checkpoints and rows": _properties(
        "'delta.checkpointInterval' = '1'",
        "'delta.checkpointInterval' = '1', 'delta.checkpoint.writeStatsAsStruct' = 'true'",
        "'delta.checkpointInterval' = '1', 'delta.checkpoint.writeStatsAsStruct' = 'true', "
        "'delta.checkpoint.writeStatsAsJson' = 'false'",
        "'delta.checkpointInterval' = '1', 'delta.checkpointPolicy' = 'v2'",
    ),
    "drop feature": _plain("alter table {t} drop feature deletionVectors"),
    "columns": _one_of(
        "alter table {t} add columns (more_{n} int)",
        "alter table {t} alter column id comment 'c{n}'",
        "alter table {t} alter column id first",
    ),
    LAST: _plain(
        "alter table {t} set tblproperties ('delta.columnMapping.mode' = 'name')",
        "alter table {t} rename column id to id_{n}",
        "insert into {t} select * from {t} limit 2",
    ),
    "constraint": _plain("alter table {t} add constraint c{n} check (id >= 0)"),
    "clustering": _plain("alter table {t} cluster by (id)"),
}


def _call(procedure: str, arguments: str = "") -> Writes:
    """A procedure of the table's catalog."""

    def written(chance: Random, table: str, version: int) -> list[str]:
        catalog, _, name = table.partition(".")
        more = f", {arguments}" if arguments else ""
        return [f"call {catalog}.system.{procedure}(table => '{name}'{more})"]

    return written


ON_READ = ", ".join(f"'write.{each}.mode' = 'merge-on-read'" for each in ("delete", "update", "merge"))
ICEBERG_WRITES: Mapping[str, Writes] = {
    **ROWS,
    "update and delete": _plain(*TWICE),
    "rewrite of data files": _call("rewrite_data_files", "options => map('rewrite-all', 'true')"),
    "rewrite of position deletes": _call(
        "rewrite_position_delete_files", "options => map('rewrite-all', 'true')"
    ),
    "rewrite of manifests": _call("rewrite_manifests"),
    "expiry of snapshots (vacuum)": _call("expire_snapshots"),
    "removal of orphans (vacuum)": _call("remove_orphan_files"),
    "truncate": _plain("truncate table {t}"),
    "properties": _one_of(
        "alter table {t} set tblproperties ('team.owner' = 'n{n}')",
        "alter table {t} set tblproperties ('history.expire.max-snapshot-age-ms' = '1')",
        "alter table {t} set tblproperties ('write.metadata.delete-after-commit.enabled' = 'true', 'write.metadata.previous-versions-max' = '1')",
        "alter table {t} unset tblproperties ('gc.enabled')",
        "alter table {t} unset tblproperties ('schema.name-mapping.default')",
        "alter table {t} set tblproperties ('format-version' = '3')",
    ),
    "properties and rows": _properties(
        ON_READ,
        "'write.format.default' = 'orc'",
        "'write.metadata.compression-codec' = 'gzip'",
        "'write.distribution-mode' = 'hash'",
        "'write.delete.granularity' = 'partition'",
        f"'format-version' = '3', {ON_READ}",
    ),
    "columns": _one_of(
        "alter table {t} add columns (more_{n} int)",
        "alter table {t} drop column tags",
        "alter table {t} rename column name to name_{n}",
        "alter table {t} alter column id comment 'c{n}'",
        "alter table {t} alter column tags first",
    ),
    "partitions": _plain(
        "alter table {t} add partition field bucket(4, id)", "insert into {t} select * from {t} limit 3"
    ),
    "sort order": _plain("alter table {t} write ordered by id"),
    "branch": _plain(
        "alter table {t} create or replace branch dev", "insert into {t}.branch_dev select * from {t} limit 2"
    ),
    "tag": _plain("alter table {t} create or replace tag t{n}"),
}
