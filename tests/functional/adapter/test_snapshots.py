"""Snapshots, on Delta."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.basic.test_snapshot_check_cols import BaseSnapshotCheckCols
from dbt.tests.adapter.basic.test_snapshot_timestamp import BaseSnapshotTimestamp
from dbt.tests.adapter.simple_snapshot import test_various_configs
from dbt.tests.adapter.simple_snapshot.new_record_check_mode import BaseSnapshotNewRecordCheckMode
from dbt.tests.adapter.simple_snapshot.new_record_dbt_valid_to_current import (
    BaseSnapshotNewRecordDbtValidToCurrent,
)
from dbt.tests.adapter.simple_snapshot.new_record_timestamp_mode import BaseSnapshotNewRecordTimestampMode
from dbt.tests.adapter.simple_snapshot.test_ephemeral_snapshot_hard_deletes import (
    BaseSnapshotEphemeralHardDeletes,
    BaseSnapshotNewColumnSpecificCheckCols,
    BaseSnapshotNewColumnTimestampStrategy,
    BaseSnapshotNewColumnWithDeletes,
)
from dbt.tests.adapter.simple_snapshot.test_snapshot import BaseSimpleSnapshot, BaseSnapshotCheck
from dbt.tests.adapter.simple_snapshot.test_various_configs import (
    BaseSnapshotColumnNames,
    BaseSnapshotColumnNamesFromDbtProject,
    BaseSnapshotDbtValidToCurrent,
    BaseSnapshotInvalidColumnNames,
    BaseSnapshotMultiUniqueKey,
)
from dbt.tests.util import run_sql_with_adapter

from tests.functional.adapter.spelling import Delta, SparkScripts


class SparkSnapshots(Delta, SparkScripts):
    @pytest.fixture(scope="class")
    def project_files(self, project_files, project_root):
        """A Spark relation has no database, and the bases' SQL names one; a test that rewrites
        dbt_project.yml keeps Delta.
        """
        for path in (*(project_root / "snapshots").listdir(), *(project_root / "models").listdir()):
            path.write(
                path.read()
                .replace("{{target.database}}.", "")
                .replace("config(", "config(file_format='delta', ")
            )


class TestSnapshotCheckCols(Delta, BaseSnapshotCheckCols):
    pass


class TestSnapshotTimestamp(Delta, BaseSnapshotTimestamp):
    pass


class TestSnapshot(SparkSnapshots, BaseSimpleSnapshot):
    pass


class TestSnapshotCheck(SparkSnapshots, BaseSnapshotCheck):
    pass


class TestSnapshotColumnNames(SparkSnapshots, BaseSnapshotColumnNames):
    pass


class TestSnapshotColumnNamesFromDbtProject(SparkSnapshots, BaseSnapshotColumnNamesFromDbtProject):
    pass


class TestSnapshotInvalidColumnNames(SparkSnapshots, BaseSnapshotInvalidColumnNames):
    pass


class TestSnapshotDbtValidToCurrent(SparkSnapshots, BaseSnapshotDbtValidToCurrent):
    def test_valid_to_current(self, project, monkeypatch):
        """The base knows rows by their place: Spark returns them in any order, so they are sorted
        as Postgres has them.
        """

        def in_order(adapter, script, fetch):
            numbered = "(select *, row_number() over (partition by id order by test_updated_at) as version from {schema}.snapshot_actual)"
            query = script.replace("{schema}.snapshot_actual", numbered + " order by version, id")
            return run_sql_with_adapter(adapter, query, fetch)

        monkeypatch.setattr(test_various_configs, "run_sql_with_adapter", in_order)
        super().test_valid_to_current(project)


class TestSnapshotMultiUniqueKey(SparkSnapshots, BaseSnapshotMultiUniqueKey):
    pass


class TestSnapshotNewRecordTimestampMode(SparkSnapshots, BaseSnapshotNewRecordTimestampMode):
    pass


class TestSnapshotNewRecordCheckMode(SparkSnapshots, BaseSnapshotNewRecordCheckMode):
    pass


class TestSnapshotNewRecordDbtValidToCurrent(SparkSnapshots, BaseSnapshotNewRecordDbtValidToCurrent):
    pass


class TestSnapshotEphemeralHardDeletes(SparkSnapshots, BaseSnapshotEphemeralHardDeletes):
    pass


class TestSnapshotNewColumnTimestampStrategy(SparkSnapshots, BaseSnapshotNewColumnTimestampStrategy):
    pass


class TestSnapshotNewColumnSpecificCheckCols(SparkSnapshots, BaseSnapshotNewColumnSpecificCheckCols):
    pass


class TestSnapshotNewColumnWithDeletes(SparkSnapshots, BaseSnapshotNewColumnWithDeletes):
    pass
