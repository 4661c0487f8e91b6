"""Tables of files in a Spark that outlives a run: every run sees the files that are there, and all
its models see the same.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dbt.tests.util import run_dbt

pytestmark = pytest.mark.usefixtures("small_data")

READERS = {
    "direct.sql": "select id from {{ source('raw', 'files') }}",
    "named_by_hand.sql": "select id from {{ target.schema }}.files",
    "through_a_view.sql": "select id from {{ ref('seen') }}",
    "in_a_subquery.sql": "select explode(ids) id from (select (select array_agg(id) from {{ target.schema }}.files) ids)",
}
# after the others: to bind a version it has Spark list the files again, for every later reader
TASK = "".join(f"-- depends_on: {{{{ ref('{name.removesuffix('.sql')}') }}}}\n" for name in READERS)
TASK += "{{ config(materialized='continual_task') }} on input {{ source('raw', 'files') }} as (insert into {{ this }} select id from {{ source('raw', 'files') }})"


class TestListings:
    @pytest.fixture(scope="class")
    def models(self):
        maintained = {
            name: f"{{{{ config(materialized='self_correcting_mv') }}}} {query}"
            for name, query in READERS.items()
        }
        return {
            "raw.yml": "sources: [{name: raw, schema: \"{{ target.schema }}\", tables: [{name: files}]}]",
            "seen.sql": "{{ config(materialized='view') }} select * from {{ source('raw', 'files') }} "
            "where id in (select id from {{ source('raw', 'files') }})",
            "copied.sql": TASK,
            **maintained,
        }  # fmt: skip

    def test_a_file_that_came_between_two_runs_is_read_by_all_models_of_the_second(self, project, tmp_path):
        def arrive(*ids):
            pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), tmp_path / f"{ids[0]}.parquet")

        arrive(1, 2)
        project.run_sql(
            f"create table {project.test_schema}.files (id bigint) using parquet location '{tmp_path}'"
        )
        names = [*(name.removesuffix(".sql") for name in READERS), "copied"]
        for ids, more in (((1, 2), [3]), ((1, 2, 3), [4, 5]), ((1, 2, 3, 4, 5), [])):
            results = run_dbt(["run"])
            assert {result.node.name for result in results} == {*names, "seen"}
            for name in names:
                rows = project.run_sql(
                    f"select id from {project.test_schema}.{name} order by id", fetch="all"
                )
                assert (name, [id for (id,) in rows]) == (name, list(ids))
            if len(more) > 1:  # its rows are stale once the files have arrived
                project.run_sql(f"cache table {project.test_schema}.files")
            if more:
                arrive(*more)
        project.run_sql(f"uncache table {project.test_schema}.files")
