"""Incremental models: merges on Delta, and microbatches by partition."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.incremental.test_incremental_merge_exclude_columns import BaseMergeExcludeColumns
from dbt.tests.adapter.incremental.test_incremental_microbatch import BaseMicrobatch
from dbt.tests.adapter.incremental.test_incremental_on_schema_change import BaseIncrementalOnSchemaChange
from dbt.tests.adapter.incremental.test_incremental_predicates import BaseIncrementalPredicates
from dbt.tests.adapter.incremental.test_incremental_unique_id import BaseIncrementalUniqueKey
from dbt.tests.util import read_file, run_dbt

from tests.functional.adapter.spelling import Delta, SparkScripts

MERGE = {"models": {"+incremental_strategy": "merge"}}


class TestIncrementalUniqueKey(Delta, SparkScripts, BaseIncrementalUniqueKey):
    @pytest.fixture(scope="class")
    def project_config_update(self):
        """dbt-spark appends unless it is configured to merge."""
        return MERGE

    # the same merge as with one key, or none as with an empty list
    test__unary_unique_key_list = test__duplicated_unary_unique_key_list = None
    test__no_unique_keys = test__empty_str_unique_key = None

    def fail_to_build_inc_missing_unique_key_column(self, incremental_model_name):
        """The base wants the column's name in the message: this Delta has lost the text of its
        message, the SQL has the name.
        """
        status, message = super().fail_to_build_inc_missing_unique_key_column(incremental_model_name)
        assert "DELTA_MERGE_UNRESOLVED_EXPRESSION" in message
        return status, read_file("target", "run", "test", "models", f"{incremental_model_name}.sql")


class TestIncrementalPredicates(Delta, BaseIncrementalPredicates):
    @pytest.fixture(scope="class")
    def project_config_update(self):
        """Spark has no delete+insert; a merge names the target's column."""
        return {
            "models": {
                "+incremental_predicates": ["dbt_internal_dest.id != 2"],
                "+incremental_strategy": "merge",
            }
        }


class TestPredicates(Delta, BaseIncrementalPredicates):
    @pytest.fixture(scope="class")
    def project_config_update(self):
        """The other name of the same config."""
        return {"models": {"+predicates": ["dbt_internal_dest.id != 2"], "+incremental_strategy": "merge"}}


class TestMergeExcludeColumns(Delta, BaseMergeExcludeColumns):
    pass


class TestIncrementalOnSchemaChange(Delta, BaseIncrementalOnSchemaChange):
    @pytest.fixture(scope="class")
    def project_config_update(self):
        """dbt-spark appends unless it is configured to merge."""
        return MERGE

    def test_run_incremental_append_new_columns(self, project):
        """Without the case of a column that goes at the same time: Delta's `insert *` wants every
        column of the table.
        """
        self.run_incremental_append_new_columns(project)

    @pytest.mark.parametrize("model", ["incremental_sync_all_columns", "incremental_sync_remove_only"])
    def test_run_incremental_sync_all_columns(self, project, model):
        """dbt-spark drops no column, and says so."""
        assert len(run_dbt(["run", "--select", "model_a", model])) == 2
        results = run_dbt(["run", "--select", "model_a", model], expect_pass=False)
        assert "Delta Lake does not support dropping columns" in results[1].message


class TestMicrobatch(BaseMicrobatch):
    @pytest.fixture(scope="class")
    def microbatch_model_sql(self):
        """dbt-spark replaces the batch's partition, so the model needs a partition column."""
        return """
            {{ config(materialized='incremental', incremental_strategy='microbatch', event_time='event_time',
                      partition_by='day', batch_size='day', begin=modules.datetime.datetime(2020, 1, 1)) }}
            select id, event_time, cast(event_time as date) as day from {{ ref('input_model') }}
        """
