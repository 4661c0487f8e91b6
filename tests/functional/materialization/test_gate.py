"""The publish gate through dbt: its tests as audits, `max_change`, and what a failing gate leaves:
nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from tests.functional.materialization.base import MV, SOURCE, Base, configured

SCHEMA = """
models:
  - name: mv
    columns:
      - name: id
        data_tests:
          - unique
          - not_null: {config: {severity: warn}}
      - name: name
        data_tests:
          - accepted_values:
              name: known_names
              arguments: {values: [a, b, c, d, e]}
              config: {where: "id < 50", error_if: "> 1", warn_if: "> 0"}
"""
SINGULAR = (
    "select m.id, mv.name from {{ ref('mv') }} m join {{ ref('mv') }} using (id) where m.name = 'forbidden'"
)
ACCEPT = ["--vars", "{mvsink_accept: [mv]}"]
READ_ONLY = ["--vars", "{mvsink_read_only: true}"]


def source(*rows):
    return "select * from values " + ", ".join(f"({id}, '{name}')" for id, name in rows) + " as t(id, name)"


GOOD = ((1, "a"), (2, "b"), (3, "c"))


class TestGate(Base):
    START = {"mv.sql": MV, "schema.yml": SCHEMA}

    @pytest.fixture(scope="class")
    def tests(self):
        return {"no_forbidden.sql": SINGULAR}

    def trace(self, project):
        state = self.state(project)
        files = sorted(str(path) for path in Path(self.uri(project)).rglob("*") if path.is_file())
        return state.version, state.properties, files, self.properties(project), self.rows(project)

    def test_the_models_tests_keep_bad_rows_back(self, project):
        self.set_model(project, configured(audit=True))
        run_dbt(["run"])
        before = self.trace(project)
        cases = {
            "a generic test": (((1, "a"), (1, "b")), "unique_mv_id: 1 failure\n"),
            "the failing rows": (((1, "a"), (1, "b")), "unique_field=1, n_records=2"),
            "a singular test": (((1, "forbidden"),), "no_forbidden: 1 failure\n"),
            "error_if": (((1, "x"), (2, "y")), "known_names: 2 failures\n"),
        }
        for what, (rows, message) in cases.items():
            self.set_source(project, source(*rows))
            [_, result] = run_dbt(["run"], expect_pass=False)
            message_lines = "\n".join(line.strip() for line in result.message.splitlines()) + "\n"
            assert "the new contents fail their audit; nothing was written" in message_lines, what
            assert message in message_lines, (what, message_lines)
            assert self.trace(project) == before, what
        shown = run_dbt_and_capture(["run", "--select", "mv", *READ_ONLY])[1]
        assert result.message.split(": ", 1)[1].split("\n")[0] in shown
        passing = {"warn_if": (4, "x"), "where": (60, "x"), "another": (5, "e")}
        self.set_source(project, source(*GOOD, *passing.values()))
        out = run_dbt_and_capture(["run"])[1]
        assert "mv: audit known_names: 1 failure" in out and len(self.rows(project)) == 6

    def test_by_name_whatever_the_rest_says(self, project):
        self.set_source(project, source((1, "forbidden"), (1, "a")))
        self.set_model(project, configured(audit=["unique_mv_id"]))
        [_, result] = run_dbt(["run", "--full-refresh"], expect_pass=False)
        assert "unique_mv_id" in result.message and "no_forbidden" not in result.message
        self.set_model(project, configured(audit="not_null_mv_id"))
        run_dbt(["run"])
        self.set_model(project, configured(audit="not_null_mv"))
        [_, result] = run_dbt(["run"], expect_pass=False)
        assert (
            "invalid config `audit`" in result.message
            and "no_forbidden, not_null_mv_id, unique_mv_id" in result.message
        )

    def test_max_change(self, project):
        self.set_model(project, configured(max_change={"rows": 1}))
        run_dbt(["run", "--full-refresh"])
        before = self.trace(project)
        self.set_source(project, source((1, "z")))
        [_, result] = run_dbt(["run"], expect_pass=False)
        reason = "it would change by +1 -"
        assert f"{project.test_schema}.mv: {reason}" in result.message
        assert "rows, max_change allows 1" in result.message
        assert f"gate: would fail: {reason}" in run_dbt_and_capture(["run", "--select", "mv", *READ_ONLY])[1]
        assert self.trace(project) == before
        run_dbt(["run", *ACCEPT])
        assert self.rows(project) == [(1, "z")]

    def test_a_first_load_that_fails_leaves_no_view_and_nothing_to_read(self, project):
        write_file(MV.replace("_mv')", "_mv', audit='no_new')"), project.project_root, "models", "new.sql")
        write_file("select * from {{ ref('new') }} where id = 3", project.project_root, "tests", "no_new.sql")
        try:
            [_, result] = run_dbt(["run", "--select", "new", "source_rows"], expect_pass=False)
            assert "no_new: 1 failure" in result.message and "id=3, name=c" in result.message
            assert [
                row[1] for row in project.run_sql(f"show views in {project.test_schema}", fetch="all")
            ].count("new") == 0
        finally:
            Path(project.project_root, "models", "new.sql").unlink()
            Path(project.project_root, "tests", "no_new.sql").unlink()

    @pytest.mark.seldom
    def test_an_owner_that_was_to_be_replaced_stays_after_a_failing_gate(self, project):
        self.set_source(project, SOURCE)
        self.set_model(project, MV)
        run_dbt(["run", "--full-refresh"])
        other = self.properties(project)
        with self.writer(project) as handle:
            handle.set_properties(
                {"owner": handle.state().properties["owner"].replace('"test"', '"q"').replace("mv", "vm")}
            )
        before = self.state(project)
        self.set_source(project, source((1, "a"), (1, "b")))
        self.set_model(project, configured(audit=True, adopt=True))
        run_dbt(["run"], expect_pass=False)
        after = self.state(project)
        assert (after.version, after.properties) == (before.version, before.properties)
        assert self.properties(project) == other
