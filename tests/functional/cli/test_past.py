"""`mvsink diff`, `mvsink blame` and `mv_history` over Spark: the same values as on DuckDB, with the
types and names that DuckDB does not have.
"""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt, write_file

from dbt.adapters.mvsink.cli.main import cli
from tests.functional.materialization.base import Base

pytestmark = pytest.mark.usefixtures("small_data")
ODD = "map('k', v, 'n', null) m, array(named_struct('f', cast(-0.0 as double))) s, cast(v as decimal(9,2)) d"
WIDE = f"{{{{ config(materialized='self_correcting_mv') }}}} select id, v as `odd ``name`, {ODD} from {{{{ ref('source_rows') }}}}"
SCD = "{{ config(materialized='table') }} select * from {{ mv_history(ref('mv'), key=['id']) }}"
WHOLE = "{{ config(materialized='table') }} select * from {{ mv_history(ref('mv')) }}"


def source(*rows):
    listed = ", ".join(f"({id}, {v})" for id, v in rows)
    return f"select cast(id as int) id, cast(v as int) v from values {listed} as t(id, v)"


BEFORE = source((1, 10), (2, 20), ("null", 30), (4, 40), (4, 40))
AFTER = source((1, 11), (2, 20), ("null", "null"), (5, 50))


class TestPast(Base):
    @pytest.fixture(scope="class")
    def models(self):
        return {"source_rows.sql": BEFORE, "mv.sql": WIDE}

    @pytest.fixture(autouse=True)
    def fresh(self, project):
        """The class's tests are one story."""

    @pytest.fixture(scope="class")
    def two_runs(self, project):
        run_dbt(["run"])
        write_file(AFTER, project.project_root, "models", "source_rows.sql")
        run_dbt(["run"])

    def name(self, project):
        """Other classes have models called `mv` too, below the same root."""
        return f"{project.test_schema}.mv"

    def command(self, project, *arguments):
        place = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        result = CliRunner().invoke(cli, [*arguments, *place])
        assert result.exit_code == 0, result.output
        return result.stdout

    @pytest.mark.not_over_thrift("maps and structs arrive as texts")
    def test_diff(self, project, two_runs):
        answer = json.loads(
            self.command(project, "diff", self.name(project), "-1", "--key", "id", "--output", "json")
        )
        keys = ("only_in_a", "only_in_b", "changed", "repeated_keys")
        assert [answer[key] for key in keys] == [2, 1, 2, 1]
        assert (answer["a"]["rows"], answer["b"]["rows"]) == (5, 4)
        assert answer["changed_values"] == {"odd `name": 2, "m": 2, "d": 2}
        sample = [[side and side["odd `name"] for side in (c["a"], c["b"])] for c in answer["sample"]]
        assert sample == [[30, None], [10, 11], [40, None], [None, 50]]
        assert answer["sample"][1]["b"] == {
            "id": 1, "odd `name": 11, "m": {"k": 11, "n": None}, "s": [{"f": 0.0}], "d": "11.00",
        }  # fmt: skip
        unpaired = json.loads(self.command(project, "diff", self.name(project), "--output", "json"))
        assert [unpaired[key] for key in keys] == [4, 3, 0, 0] and unpaired["key"] is None

    def test_blame_through_spark(self, project, two_runs):
        where = "`odd ``name` + 0 = 11"
        answer = json.loads(
            self.command(
                project, "blame", self.name(project), "--where", where, "--key", "id", "--output", "json"
            )
        )
        [row] = answer["rows"]
        assert not answer["from_files"] and row["row"]["d"] == "11.00" and row["written"]["exact"]
        assert row["written"]["definition"] is not None
        assert [(e["row"]["d"], e["removed"]["version"]) for e in row["before"]] == [
            ("10.00", row["written"]["version"])
        ]

    def test_history(self, project, two_runs):
        write_file(WHOLE, project.project_root, "models", "whole.sql")
        run_dbt(["run", "--select", "whole"])
        columns = "id, d, valid_to = (select max(valid_from) from {0}), is_current, valid_from_known, copies"
        relation = f"{project.test_schema}.whole"
        rows = project.run_sql(
            f"select {columns.format(relation)} from {relation} order by id, d", fetch="all"
        )
        assert [tuple(str(value) for value in row) for row in rows] == [
            ("None", "None", "None", "True", "True", "1"),
            ("None", "30.00", "True", "False", "True", "1"),
            ("1", "10.00", "True", "False", "True", "1"),
            ("1", "11.00", "None", "True", "True", "1"),
            ("2", "20.00", "None", "True", "True", "1"),
            ("4", "40.00", "True", "False", "True", "2"),
            ("5", "50.00", "None", "True", "True", "1"),
        ]

    def test_a_key_that_is_not_unique_is_refused(self, project, two_runs):
        write_file(SCD + " where is_current", project.project_root, "models", "scd.sql")
        results = run_dbt(["run", "--select", "scd"], expect_pass=False)
        message = results.results[0].message
        refused = "the key is not unique: id = 4 occurs more than once at "
        assert refused in message and f"mv_history({project.test_schema}.mv)" in message

    def test_versions_by_key_of_the_keys_that_are_unique(self, project, two_runs):
        write_file(SCD + " where id <> 4", project.project_root, "models", "scd.sql")
        run_dbt(["run", "--select", "scd"])
        counted = project.run_sql(
            f"select count(*), sum(int(is_current)) from {project.test_schema}.scd", fetch="all"
        )
        assert [tuple(row) for row in counted] == [(4, 3)]
