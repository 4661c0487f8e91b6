"""docs/design/dbt.md, *Flags and configs*: `--empty`, `read_only`, time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from tests.functional.materialization.base import MV, Base, configured
from tests.support.seldom import often

READ_ONLY = ["--vars", "{mvsink_read_only: true}"]
CHANGED = "select * from values (9, 'z') as t(id, name)"
CONTRACT = """
models:
  - name: mv
    config: {contract: {enforced: true}}
    columns: [{name: id, data_type: %s}, {name: name, data_type: string}]
"""


class TestEmpty(Base):
    @pytest.fixture(autouse=True)
    def no_contract(self, project):
        yield
        Path(project.project_root, "models", "schema.yml").unlink(missing_ok=True)

    def test_the_query_is_analyzed(self, project):
        self.set_model(project, MV.replace("select id", "select nope"))
        results = run_dbt(["run", "--empty"], expect_pass=False)
        assert "UNRESOLVED_COLUMN" in results[-1].message and "nope" in results[-1].message

    def test_the_contract_is_checked(self, project):
        write_file(CONTRACT % "string", project.project_root, "models", "schema.yml")
        results = run_dbt(["run", "--empty"], expect_pass=False)
        assert "enforced contract" in results[-1].message

    def test_columns_and_types_are_checked(self, project):
        self.set_model(project, MV.replace("select id", "select parse_json('1') as payload, id"))
        results = run_dbt(["run", "--empty"], expect_pass=False)
        assert "`payload` has type variant" in results[-1].message

    def test_the_schema_is_checked_against_the_shard(self, project):
        run_dbt(["run", "--full-refresh"])
        self.set_model(project, configured(on_schema_change="fail").replace("select id,", "select"))
        results = run_dbt(["run", "--empty"], expect_pass=False)
        assert "`id` is gone" in results[-1].message

    def test_an_existing_shard_is_not_written_even_with_full_refresh(self, project):
        run_dbt(["run", "--full-refresh"])
        before = self.state(project)
        run_dbt(["run", "--empty", "--full-refresh"])
        assert self.state(project) == before and len(self.rows(project)) == 3


class TestReadOnly(Base):
    SNAPSHOT = (
        "{% snapshot snap %}{{ config(unique_key='id', strategy='check', check_cols='all', target_schema=schema) }}"
        "select 1 as id{% endsnapshot %}"
    )

    def test_snapshots_are_refused(self, project):
        write_file(self.SNAPSHOT, project.project_root, "snapshots", "snap.sql")
        results = run_dbt(["snapshot", *READ_ONLY], expect_pass=False)
        assert "read-only: would rebuild" in results[0].message and "(snapshot)" in results[0].message
        Path(project.project_root, "snapshots", "snap.sql").unlink()

    @pytest.mark.usefixtures("manifest_json")
    def test_clones_are_refused(self, project):
        run_dbt(["run", "--full-refresh"])
        shutil.copytree(Path(project.project_root) / "target", Path(project.project_root) / "state")
        clone = ["clone", "--state", "state", "--select", "mv", "--full-refresh", *READ_ONLY]
        results = run_dbt(clone, expect_pass=False)
        assert "read-only: would rebuild" in results[0].message

    @pytest.mark.seldom
    def test_of_the_profile_it_holds_for_the_invocation(self, project):
        run_dbt(["run", "--full-refresh"])
        before = self.state(project)
        self.set_source(project, CHANGED)
        run_dbt(["run", "--select", "source_rows"])
        write_file(
            "{{ config(materialized='table') }} select 1 as a", project.project_root, "models", "built.sql"
        )
        profiles = Path(str(project.profiles_dir), "profiles.yml")
        text = profiles.read_text()
        profile = yaml.safe_load(text)
        for output in profile["test"]["outputs"].values():
            output["read_only"] = True
        profiles.write_text(yaml.safe_dump(profile))
        try:
            _, out = run_dbt_and_capture(["run", "--select", "mv", "built"], expect_pass=False)
        finally:
            profiles.write_text(text)
            Path(project.project_root, "models", "built.sql").unlink()
        assert "read-only: would write +1 -3" in out and "read-only: would rebuild" in out and "built" in out
        assert self.state(project) == before and len(self.rows(project)) == 3

    def test_hooks_grants_and_docs_are_not_run_and_dbts_line_says_what_would_be(self, project):
        run_dbt(["run", "--full-refresh"])
        described = f"describe extended {project.test_schema}.mv"
        before = project.run_sql(described, fetch="all")
        self.set_model(
            project,
            configured(
                pre_hook="no SQL",
                post_hook="no SQL",
                grants={"select": ["a_user"]},
                persist_docs={"relation": True},
            ),
        )
        write_file("models: [{name: mv, description: new}]", project.project_root, "models", "schema.yml")
        _, out = run_dbt_and_capture(["--log-format", "json", "run", "--select", "mv", *READ_ONLY])
        Path(project.project_root, "models", "schema.yml").unlink()
        lines = [json.loads(line)["info"] for line in out.splitlines() if line.startswith("{")]
        assert {line["level"] for line in lines if "would write +0 -0" in line["msg"]} == {"info"}
        assert project.run_sql(described, fetch="all") == before

    def test_switching_it_off_writes_the_very_same_correction(self, project):
        run_dbt(["run", "--full-refresh"])
        self.set_source(project, CHANGED)
        run_dbt(["run", "--select", "source_rows"])
        run_dbt(["run", "--select", "mv", *READ_ONLY])
        would = self.last(project)
        run_dbt(["run", "--select", "mv"])
        did = self.last(project)
        assert (would["rows_inserted"], would["rows_deleted"], would["lower"]) == (1, 3, did["lower"])
        assert (did["rows_inserted"], did["rows_deleted"]) == (1, 3)

    def test_a_model_that_was_never_run_gets_no_view(self, project):
        self.set_model(project, configured(alias="never_run"))
        run_dbt(["run", "--select", "source_rows"])
        _, out = run_dbt_and_capture(["run", "--select", "mv", *READ_ONLY])
        assert "read-only: would write +3 -0" in out
        tables = [row[1] for row in project.run_sql(f"show tables in {project.test_schema}", fetch="all")]
        assert "never_run" not in tables


class TestTime(Base):
    def test_all_models_of_a_run_are_written_at_the_same_time(self, project):
        now = "{{ config(materialized='self_correcting_mv') }} select unix_millis({{ mv_now() }}) as now"
        for name in ("one", "two"):
            write_file(now, project.project_root, "models", f"{name}.sql")
        run_dbt(["run"])
        uppers = [self.last(project, name)["upper"] for name in ("one", "two", "mv")]
        assert len(set(uppers)) == 1
        assert self.rows(project, "one") == self.rows(project, "two") == [(uppers[0] - 1,)]
        for name in ("one", "two"):
            Path(project.project_root, "models", f"{name}.sql").unlink()

    @pytest.mark.seldom
    def test_dbt_retry_is_a_new_run_with_its_own_time(self, project):
        self.set_model(project, MV.replace("select id", "select cast(id div (id - 1) as int) as id"))
        run_dbt(["run"], expect_pass=False)
        started = json.loads((Path(project.project_root) / "target" / "run_results.json").read_text())[
            "metadata"
        ]
        self.set_model(project, MV)
        results = run_dbt(["retry"])
        assert [r.node.name for r in results] == ["mv"]
        upper = self.last(project)["upper"]
        again = json.loads((Path(project.project_root) / "target" / "run_results.json").read_text())[
            "metadata"
        ]
        assert again["invocation_id"] != started["invocation_id"]
        assert upper > millis(started["invocation_started_at"]) + 1

    FORMS = ["1795186800000", "'2026-11-20T15:00:00Z'", "'2026-11-20 15:00'", "'2026-11-20T16:00:00+01:00'"]

    @pytest.mark.parametrize("form", often(FORMS, FORMS[0], FORMS[-1]))
    def test_run_time_is_milliseconds_or_iso(self, project, form):
        run_dbt(["run", "--full-refresh", "--vars", f"{{mvsink_run_time: {form}}}"])
        assert self.last(project)["upper"] == 1795186800001


def millis(text):
    """dbt's timestamps as ms."""
    from datetime import datetime

    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)
