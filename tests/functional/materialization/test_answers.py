"""Queries that failed, or failed late, where they should be models: rows of the issue about what
fails where it should answer, by their letters.
"""

from __future__ import annotations

import os

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture

from tests.functional.materialization.base import Base, configured

FAR = "date_add(date'9999-12-30', cast(id as int))"
TABLE = f"select id, {FAR} as d, array({FAR}) as ds, id / 4 as q from range"
ALWAYS = configured(incremental="always", verify="never").split(" select")[0]


class TestAnswers(Base):
    START = {}

    @pytest.fixture(scope="class")
    def models(self):
        t = "{{ ref('answers') }}"
        recursive = (
            "with recursive r(n, s) as (select 1, array(named_struct('x', 1, 'y', 'a')) "
            "union all select n + 1, array(named_struct('x', n, 'y', 'b')) from r where n < 3) select n, s from r"
        )
        queries = {
            "b_bround": f"select bround(q, 0), count(*) n from {t} group by 1",
            "c_dates": f"select x.id, y.ds from {t} x join {t} y on x.d = y.d",
            "e_natural": f"select id, q, half from {t} natural left join (select id, q as half from {t} where id % 2 = 0) x",
            "u_count": f"select count(*) from {t} group by id",
            "u_recursive": recursive,
            "q_dropped": f"select q from {t} |> drop q",
        }
        table = f"{{{{ config(materialized='table', file_format='delta') }}}} {TABLE}(4)"
        return {"answers.sql": table, **{f"{name}.sql": f"{ALWAYS} {text}" for name, text in queries.items()}}

    def test_answers_b_c_e_u_in_a_first_and_in_an_incremental_run(self, project):
        run_dbt(["run", "--exclude", "q_dropped"])
        at, maintained = project.test_schema, ["b_bround", "c_dates", "e_natural", "u_count"]
        project.run_sql(f"insert into {at}.answers {TABLE}(1, 11, 5)")
        run_dbt(["run", "--select", *maintained])
        for name in maintained:
            assert "incremental" in self.last(project, name)["_message"], name
        columns = [row[0] for row in project.run_sql(f"describe {at}.u_count", fetch="all")]
        assert columns == ["count(1)"]
        assert self.rows(project, "u_count") == [(1,)] * 4 + [(2,)]
        assert len(self.rows(project, "u_recursive")) == 3
        assert self.rows(project, "b_bround") == [(0.0, 4), (1.0, 1), (2.0, 1)]
        matched = [(row[0], row[2]) for row in self.rows(project, "e_natural")]
        assert matched == [(0, 0.0), (1, None), (1, None), (2, 0.5), (3, None), (6, 1.5)]
        dates = project.run_sql(f"select id, cast(ds as string) from {at}.c_dates", fetch="all")
        assert sorted(map(tuple, dates))[-1] == (6, "[+10000-01-05]") and len(dates) == 8

    def test_answers_q_a_query_without_columns_is_refused_before_any_work(self, project, shard_root):
        _, out = run_dbt_and_capture(["run", "--select", "q_dropped"], expect_pass=False)
        assert (
            f"{project.test_schema}.q_dropped: its query has no columns, but a model needs at least one"
            in out
        )
        assert "q_dropped" not in os.listdir(shard_root / project.test_schema)
        assert "_mv_" not in out
