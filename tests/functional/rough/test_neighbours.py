"""What dbt-spark builds beside maintained views, under the same kind of names and columns: seeds,
tables, incremental models, snapshots.
"""

from __future__ import annotations

import pytest

from tests.functional.rough.base import Case, Table, three_runs

pytestmark = pytest.mark.usefixtures("small_data")

SEED = '''id,select,größe,a b,day,at
1,x,"quoted ""twice""",1.5,0001-01-01,9999-12-31 23:59:59
2,,"comma, and it's",,1582-10-10,1582-10-10 00:00:00
3,'${env:HOME}',名前,-0.0,9999-12-31,2024-02-29 12:34:56
'''
TABLE = "{{ config(materialized='table') }} select id, id * (select n from {{ ref('step') }}) as `order` from range(4)"
INCREMENTAL = """{{ config(materialized='incremental', incremental_strategy='append') }}
select id, 'x' as `Url` from range(9) where id < 2 + (select n from {{ ref('step') }})
{% if is_incremental() %} and id > (select max(id) from {{ this }}) {% endif %}"""
SNAPSHOT = """{% snapshot secret_history %}
{{ config(target_schema=schema, unique_key='id', strategy='check', check_cols=['order'], file_format='delta') }}
select id, `order` from {{ ref('accesskey') }}
{% endsnapshot %}"""


class TestNeighbours(Table):
    CASES = {
        "my_url": Case("select s.*, :n as n from {{ ref('token') }} s", wanted="select s.*, :n as n from {{ ref('token') }} s"),
        "of_table": Case("select * from {{ ref('accesskey') }}", wanted="select id, id * :n as `order` from range(4)"),
        "of_incremental": Case("select * from {{ ref('hourly') }}", wanted="select id, 'x' as `Url` from range(2 + :n)"),
        "of_snapshot": Case(
            "select id, `order`, dbt_valid_to is null as newest from {{ ref('secret_history') }}",
            wanted="select id, id * :n as `order`, true as newest from range(4) union all select id, id, false from range(1, 4) where :n = 2",
        ),
    }  # fmt: skip

    @pytest.fixture(scope="class")
    def seeds(self):
        return {"token.csv": SEED}

    @pytest.fixture(scope="class")
    def snapshots(self):
        return {"secret_history.sql": SNAPSHOT}

    @pytest.fixture(scope="class")
    def models(self):
        neighbours = {"step.sql": "select 1L as n", "accesskey.sql": TABLE, "hourly.sql": INCREMENTAL}
        return neighbours | {f"{name}.sql": case.model() for name, case in self.CASES.items()}

    @pytest.fixture(scope="class")
    def observed(self, project, spark):
        return three_runs(project, spark, self.CASES, command="build")
