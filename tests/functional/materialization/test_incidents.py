"""A run that goes wrong leaves what went wrong beside the shards, until a run succeeds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from dbt.adapters.mvsink.shard import Incidents
from tests.functional.materialization.base import MV, SOURCE, Base, configured

pytestmark = pytest.mark.usefixtures("small_data")

MISSING = MV.replace("name from", "no_such_column from")
READER = "{{ config(materialized='self_correcting_mv') }} select count(*) as n from {{ ref('mv') }}"
NULLS = "select * from values (1, 'a'), (cast(null as int), 'b') as t(id, name)"
WRONG = {  # each: the model, or the source's rows, and what is kept of it
    "the query": (MISSING, SOURCE, "failed", "no_such_column"),
    "a macro": (
        MV.replace("{{ config", "{{ no_such_macro() }} {{ config"),
        SOURCE,
        "failed",
        "no_such_macro",
    ),
    "an option": (configured(verify="often"), SOURCE, "failed", "invalid config `verify`"),
    "a hook": (configured(post_hook="select * from no_such_table"), SOURCE, "failed", "no_such_table"),
    "the gate": (
        configured(max_change=1),
        "select * from values (7, 'a'), (8, 'b'), (9, 'c') as t(id, name)",
        "failed",
        "max_change",
    ),
    "a NULL": (configured(assert_not_null=["id"]), NULLS, "warned", "readers get"),
}


class TestIncidents(Base):
    @pytest.fixture(scope="class")
    def models(self):
        return {"source_rows.sql": SOURCE, "mv.sql": MV, "reader.sql": READER}

    def kept(self, project):
        """What is kept, by the model."""
        credentials = project.adapter.config.credentials
        incidents = Incidents(str(credentials.shards), credentials.storage_options)
        read = [incidents.read(name) for name in incidents.names()]
        return {each.relation.split(".")[1]: each for each in read if each is not None}

    @pytest.mark.parametrize(("model", "rows", "trouble", "shown"), WRONG.values(), ids=WRONG)
    def test_what_went_wrong_is_kept_until_a_run_succeeds(self, project, model, rows, trouble, shown):
        run_dbt(["run", "--full-refresh"])
        log = self.state(project).version
        self.set_source(project, rows)
        self.set_model(project, model)
        passes = trouble == "warned"
        for runs in (1, 2):
            run_dbt(["run", "--select", "source_rows", "mv"], expect_pass=passes)
            incident = self.kept(project)["mv"]
            assert (incident.trouble.value, incident.runs) == (trouble, runs)
            assert shown in " ".join(incident.messages) and incident.where == "models/mv.sql"
        assert incident.since < incident.time
        if not passes and "hook" not in shown:
            assert self.state(project).version >= log
        self.set_source(project, SOURCE)
        self.set_model(project, MV)
        run_dbt(["run"])
        assert self.kept(project) == {}

    def test_what_reads_it_is_skipped_and_that_is_kept_too(self, project):
        run_dbt(["run", "--full-refresh"])
        self.set_model(project, MISSING)
        run_dbt(["run"], expect_pass=False)
        assert {name: each.trouble.value for name, each in self.kept(project).items()} == {
            "mv": "failed",
            "reader": "skipped",
        }
        self.set_model(project, MV)
        run_dbt(["run", "--select", "mv"])
        assert list(self.kept(project)) == ["reader"]
        run_dbt(["run"])
        assert self.kept(project) == {}

    def test_a_model_that_the_project_no_longer_has_is_forgotten(self, project):
        write_file(MISSING, project.project_root, "models", "wrong.sql")
        run_dbt(["run"], expect_pass=False)
        Path(project.project_root, "models", "wrong.sql").unlink()
        assert list(self.kept(project)) == ["wrong"]
        run_dbt(["run"])
        assert self.kept(project) == {}

    @pytest.mark.parametrize("options", [["--empty"], ["--vars", "{mvsink_read_only: true}"]])
    def test_a_run_that_writes_no_rows_keeps_nothing(self, project, options):
        run_dbt(["run", "--full-refresh"])
        self.set_model(project, MISSING)
        run_dbt(["run", "--select", "mv", *options], expect_pass=False)
        assert self.kept(project) == {}
        self.set_model(project, MV)

    def test_a_run_with_warnings_ends_with_one_line_that_counts_them(self, project, capfd):
        self.set_source(project, NULLS)
        self.set_model(project, configured(assert_not_null=["id"]))
        run_dbt(["-q", "run", "--full-refresh", "--select", "source_rows", "mv"])
        lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("dbt-mvsink: ")]
        assert lines == ["dbt-mvsink: 1 warning: mv (1); `mvsink status` shows 1 of them again"]
        self.set_source(project, SOURCE)
        self.set_model(project, MV)
        run_dbt(["-q", "run"])
        assert "dbt-mvsink: " not in capfd.readouterr().err

    def test_a_preview_warns_of_nothing(self, project):
        run_dbt(["run", "--full-refresh"])
        self.set_source(project, "select * from values (1, 'a') as t(id, name)")
        run_dbt(["run", "--select", "source_rows"])
        vars = json.dumps({"mvsink_read_only": True})
        _, out = run_dbt_and_capture(["--warn-error", "run", "--select", "mv", "--vars", vars])
        assert "read-only: would write +0 -2" in out and "WARN" not in out.replace("WARN=0", "")
        self.set_model(project, MV.replace("name from", "uuid() as name from"))  # a run warns of that
        run_dbt(["--warn-error", "run", "--select", "mv", "--vars", vars])
        self.set_model(project, MV)
