"""Five million rows whose keys are NULL, or one and the same: a bucket of detection then holds
millions of rows.
"""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from dbt.tests.util import run_dbt, write_file
from deltalake import DeltaTable

from tests.functional.rough.base import STEP, VERIFIED, Case, uri_of

MILLION = 1_000_000
CASES = {
    "half_null": Case(
        f"select if(id % 2 = 0, null, id) as k, if(id < :n, -1, id % 7) as v from range({5 * MILLION})"
    ),
    "a_hot_key": Case(
        f"select if(id % 10 < 9, 42L, id) as k, if(id < :n, -1, id % 1000) as v from range({5 * MILLION})"
    ),
    "three_values": Case(f"select id % 3 as k, if(id = 77, :n, 0L) as v from range({5 * MILLION})"),
    "far_dates": Case(
        f"select id, timestamp'9999-12-31' as valid_to, if(id < :n, timestamp'0001-01-01', timestamp'1582-10-10') as since from range({MILLION})"
    ),
}


class TestManyRows:
    CASES = CASES

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"step.sql": STEP.format(1)} | {f"{name}.sql": case.model() for name, case in CASES.items()}

    @pytest.fixture(scope="class")
    def runs(self, project: Any) -> list[dict[str, str]]:
        """Per run, what it said of each model."""
        messages = []
        for n, verified in ((1, ()), (1, VERIFIED), (2, ())):
            write_file(STEP.format(n), project.project_root, "models", "step.sql")
            messages.append(
                {result.node.name: result.message for result in run_dbt(["run", *verified], expect_pass=None)}
            )
        return messages

    def test_two_runs_a_change_and_contents(
        self, project: Any, spark: Any, runs: list[dict[str, str]], case: str
    ) -> None:
        size = MILLION if case == "far_dates" else 5 * MILLION
        for run, wanted in enumerate((f"+{size} -0 at ", "+0 -0 at ", "+1 -1 at ")):
            assert runs[run][case].startswith(wanted), runs[run][case]
        view = f"{project.test_schema}.{case}"
        assert difference(spark, f"select * from {view}", CASES[case].at(2, project.test_schema)) == (0, 0)
        with duckdb.connect() as connection:
            connection.register(
                "shard", DeltaTable(uri_of(project, project.test_schema, case)).to_pyarrow_dataset()
            )
            assert connection.sql("select sum(_mv_diff) from shard where _mv_error is null").fetchall() == [
                (size,)
            ]


def difference(spark: Any, actual: str, wanted: str) -> tuple[int, int]:
    """EXCEPT ALL both ways in one pass: rows that ``actual`` has too many, and too few."""
    union = f"select *, 1 as c from ({actual}) union all select *, -1 from ({wanted})"
    names = ", ".join(spark.sql(wanted).columns)
    sums = f"select sum(c) as c from ({union}) group by {names}"
    [row] = spark.sql(f"select sum(greatest(c, 0)), sum(greatest(-c, 0)) from ({sums})").collect()
    return tuple(row)
