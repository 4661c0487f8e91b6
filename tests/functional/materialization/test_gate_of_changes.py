"""The publish gate that knows the log: a learned `max_change`, and audits of changed rows alone."""

from __future__ import annotations

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from tests.functional.materialization.base import MV, Base, configured
from tests.functional.materialization.test_gate import GOOD, SCHEMA, SINGULAR, source


class TestGateOfChanges(Base):
    START = {"mv.sql": MV, "schema.yml": SCHEMA}

    @pytest.fixture(scope="class")
    def tests(self):
        return {"no_forbidden.sql": SINGULAR}

    def test_max_change_auto_says_once_that_it_has_no_bound_yet(self, project):
        self.set_model(project, configured(max_change="auto"))
        message = "max_change auto allows any change until 8 runs have changed something"
        for arguments, times in ((["--full-refresh"], 1), ([], 0)):
            assert run_dbt_and_capture(["run", *arguments])[1].count(message) == times

    def test_audits_of_changes_look_at_the_added_rows_once_all_have_passed(self, project):
        write_file(
            SCHEMA.replace('error_if: "> 1", warn_if: "> 0"', "error_if: '!= 0'"),
            project.project_root,
            "models",
            "schema.yml",
        )
        write_file(
            "select count(*) n from {{ ref('mv') }} having count(*) > 50",
            project.project_root,
            "tests",
            "few.sql",
        )
        self.set_model(project, configured(audit={"tests": True, "scope": "changes"}))
        first = run_dbt_and_capture(["run", "--full-refresh"])[1]
        message = "audits of all rows: few: it looks at more than one row at a time, no_forbidden: it reads"
        assert first.count(message) == 1
        self.set_source(project, source(*GOOD, (4, "d")))
        second = run_dbt_and_capture(["--debug", "run"])[1]
        assert message not in second
        [unique] = [text for text in second.split("/* {") if "unique_field" in text and "n_records" in text]
        assert "in (select id from" in unique
        self.set_source(project, source(*GOOD, (4, "d"), (4, "e")))
        [_, result] = run_dbt(["run"], expect_pass=False)
        assert "unique_mv_id: 1 failure" in result.message and "unique_field=4, n_records=2" in result.message
        self.set_source(project, source(*GOOD, (4, "z")))
        [_, result] = run_dbt(["run"], expect_pass=False)
        assert "known_names: 1 failure" in result.message and "value_field=z, n_records=1" in result.message
