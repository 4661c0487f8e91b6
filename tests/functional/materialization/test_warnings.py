"""Warnings are dbt's: `--warn-error` fails the model, and leaves nothing half-done."""

from __future__ import annotations

from pathlib import Path

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from dbt.adapters.mvsink.shard_sql.published_view import read_marker
from tests.functional.materialization.base import MV, Base, configured
from tests.support.seldom import often_rows

pytestmark = pytest.mark.usefixtures("small_data")

STRICT = ["--warn-error-options", '{"error": ["AdapterEventWarning"]}', "run"]
CHANGED = "select * from values (1, 'a'), (9, 'z') as t(id, name)"
WITH_NULL = "select * from values (1, 'a'), (cast(null as int), 'b') as t(id, name)"
HOOK = "create table {{ this.schema }}.hooked as select 1 as one"
CONTRACT = """
models:
  - name: mv
    config: {contract: {enforced: true}}
    columns:
      - {name: id, data_type: int, constraints: [{type: not_null}, {type: check, expression: id > 0}]}
      - {name: name, data_type: string}
"""
BEFOREHAND = {
    "a function that differs from run to run": (
        configured(pre_hook=HOOK).replace("name from", "uuid() as name from"),
        "uuid",
    ),
    "an option that a shard does not use": (configured(pre_hook=HOOK, partition_by=["id"]), "partition_by"),
    "a clock that is wrong": (configured(pre_hook=HOOK), "ahead of the clock"),
}


class TestWarnings(Base):
    @pytest.mark.parametrize(("model", "warning"), **often_rows(BEFOREHAND, "a clock that is wrong"))
    def test_what_is_known_beforehand_is_an_error_before_anything_is_written(self, project, model, warning):
        run_dbt(["run", "--full-refresh"])
        before, rows = self.state(project), self.rows(project)
        self.set_source(project, CHANGED)
        self.set_model(project, model)
        future = ["--vars", "{mvsink_run_time: '2099-01-01'}"] if "clock" in warning else []
        results = run_dbt([*STRICT, *future], expect_pass=False)
        assert [result.status for result in results] == ["success", "error"] and warning in results[1].message
        assert (self.state(project), self.rows(project)) == (before, rows)
        assert not project.run_sql(f"show tables in {project.test_schema} like 'hooked'", fetch="all")

    @pytest.mark.parametrize(
        ("shown", "readers"), [("view", "readers"), ("delta", "models that read its shard")]
    )
    def test_what_only_the_run_shows_is_an_error_after_all_of_it_and_stays_one(self, project, shown, readers):
        self.set_model(project, configured(file_format=shown))
        run_dbt(["run", "--full-refresh"])
        before = self.rows(project)
        self.set_source(project, WITH_NULL)
        self.set_model(project, configured(assert_not_null=["id"], post_hook=HOOK, file_format=shown))
        results = run_dbt(STRICT, expect_pass=False)
        assert "rows break an assertion" in results[1].message
        if shown == "view":  # published
            text = project.run_sql(f"show create table {project.test_schema}.mv", fetch="one")[0]
            assert read_marker(text.rpartition("\nAS ")[2]).version == self.state(project).version
        else:
            assert self.rows(project) == before
        assert project.run_sql(f"show tables in {project.test_schema} like 'hooked'", fetch="all")
        project.run_sql(f"drop table {project.test_schema}.hooked")

        self.set_model(project, configured(assert_not_null=["id"], file_format=shown))
        # nothing is new, and readers still get the error
        results = run_dbt(STRICT, expect_pass=False)
        assert f"holds 1 recorded error(s); {readers} get an error until" in results[1].message
        _, out = run_dbt_and_capture(["run"])
        assert (
            "mv: holds 1 recorded error(s)" in " ".join(out.split())
            and f"; {1 if shown == 'view' else 2} warning" in out
        )
        assert len(self.last(project)["warnings"]) == (1 if shown == "view" else 2)
        self.set_source(project, CHANGED)
        results = run_dbt(STRICT)
        assert len(self.rows(project)) == 2 and "warning" not in results[1].message

    def test_a_view_that_waits_for_its_first_refresh_is_a_warning(self, project):
        write_file(configured(refresh={"at": "2099-01-01"}), project.project_root, "models", "later.sql")
        _, out = run_dbt_and_capture(["run", "--select", "later"])
        results = run_dbt([*STRICT, "--select", "later"], expect_pass=False)
        Path(project.project_root, "models", "later.sql").unlink()
        assert "later: not refreshed yet: all readers" in " ".join(out.split())
        assert "not refreshed yet" in results[0].message

    def test_constraints_that_a_shard_enforces_are_no_warning(self, project):
        write_file(CONTRACT, project.project_root, "models", "schema.yml")
        self.set_model(project, MV)
        _, out = run_dbt_and_capture(["--warn-error", "run", "--full-refresh", "--no-partial-parse"])
        write_file("", project.project_root, "models", "schema.yml")
        assert "ignored" not in out and len(self.rows(project)) == 3
