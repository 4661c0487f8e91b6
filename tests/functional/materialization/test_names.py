"""Names and texts with a meaning of their own: to a file system, to Spark's parser, to its variable
substitution.
"""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture

from tests.functional.materialization.base import SOURCE, Base, configured

BAD = ["../../x", "..", "a/b", "a b", "1e5", "a-b", "${env:HOME}"]


class TestBadAliases(Base):
    START = {}

    @pytest.fixture(scope="class")
    def models(self):
        bad = {f"bad_{number}.sql": configured(alias=alias) for number, alias in enumerate(BAD)}
        task = "{{ config(materialized='continual_task', alias='../t') }} on input {{ ref('source_rows') }} as (insert into {{ this }} select 1)"
        return {"source_rows.sql": SOURCE, "task.sql": task, **bad}

    def test_each_is_refused_by_its_models_name_before_anything_is_made(self, project, shard_root):
        before = set(os.listdir(shard_root))
        run_dbt(["run", "--select", "source_rows"])
        _, out = run_dbt_and_capture(["run", "--exclude", "source_rows"], expect_pass=False)
        for alias in (*BAD, "../t"):
            assert f"{project.test_schema}.{alias}: invalid " in out, alias
        assert f"ERROR={len(BAD) + 1}" in out
        assert set(os.listdir(shard_root)) == before


class TestVariables(Base):
    """`spark.app.name` stands for any secret of Spark's, its JVM's or its environment's."""

    START = {
        "mv.sql": configured(persist_docs={"relation": True, "columns": True}).replace(
            "name from", "'${spark.app.name}' app from"
        ),
        "schema.yml": "models: [{name: mv, description: 'a ${spark.app.name}', columns: [{name: id, description: '${env:HOME}'}]}]",
    }

    def test_what_is_ours_is_not_substituted_and_the_users_sql_is(self, project, spark):
        run_dbt(["run", "--full-refresh"])
        rows = [
            tuple(row) for row in project.run_sql(f"describe extended {project.test_schema}.mv", fetch="all")
        ]
        assert ("id", "int", "${env:HOME}") in rows and ("Comment", "a ${spark.app.name}", "") in rows
        assert {row[1] for row in self.rows(project)} == {spark.conf.get("spark.app.name")}
        _, out = run_dbt_and_capture(["run"])
        assert "+0 -0" in out and "republished" not in out

    def test_a_column_named_like_a_variable_is_refused(self, project, tmp_path):
        pq.write_table(pa.table({"${x}": [1]}), tmp_path / "part.parquet")
        self.set_model(project, configured().split(" select")[0] + f" select * from parquet.`{tmp_path}`")
        _, out = run_dbt_and_capture(["run", "--select", "mv"], expect_pass=False)
        assert f"{project.test_schema}.mv: the name `${{x}}` holds a variable" in out
