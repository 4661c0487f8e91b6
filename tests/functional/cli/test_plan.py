"""`mvsink plan` on a project: its numbers are the run's, and it writes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt

from dbt.adapters.mvsink.cli.main import cli
from tests.functional.materialization.base import MV, SOURCE, Base, configured

pytestmark = pytest.mark.usefixtures("small_data")
CHANGED = "select * from values (1, 'a'), (2, 'z'), (4, cast(null as string)) as t(id, name)"
TABLE = "{{ config(materialized='table') }} select 1 as x"
SCHEMA = "models: [{name: mv, columns: [{name: id, data_tests: [unique]}]}]"


class Planning(Base):
    def plan(self, project, *arguments):
        place = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        return CliRunner().invoke(cli, ["plan", *place, *arguments])

    def planned(self, project, *arguments, code=0):
        """By model, with the exit code that is expected; and the shards' tree is as it was."""
        root = Path(project.adapter.config.credentials.shards)  # a plan may leave another adapter
        before = self.tree(root)
        result = self.plan(project, "--output", "json", *arguments)
        assert result.exit_code == code, result.output
        assert self.tree(root) == before
        return {model["model"]: model for model in json.loads(result.stdout)["models"]}

    def tree(self, root):
        return sorted((str(path), path.stat().st_size) for path in root.rglob("*"))


class TestPlan(Planning):
    START = {"mv.sql": MV, "some_table.sql": TABLE, "schema.yml": SCHEMA}

    @pytest.fixture(scope="class")
    def models(self):
        return {
            "source_rows.sql": SOURCE,
            "some_table.sql": TABLE,
            "mv.sql": MV,
            "scheduled.sql": configured(refresh="every 1 hour"),
        }

    @pytest.mark.seldom
    def test_from_the_first_load_on(self, project):
        run_dbt(["run", "--select", "source_rows"])
        first = self.planned(project, "--detailed-exitcode", code=2)
        # views and tables would be built: they are not planned
        assert set(first) == {"mv", "scheduled"}
        assert {(each["inserted"], each["deleted"]) for each in first.values()} == {(3, 0)}
        run_dbt(["run"])
        assert self.last(project)["rows_inserted"] == 3
        nothing = self.planned(project, "--detailed-exitcode")
        assert not nothing["mv"]["sample"] and nothing["mv"]["gate"] is None
        assert nothing["scheduled"]["next_refresh"] == self.state_of(project, "scheduled").upper.as_option()
        assert nothing["mv"]["next_refresh"] is None

    def test_what_it_says_is_what_the_run_does(self, project):
        run_dbt(["run", "--full-refresh"])
        self.set_source(project, CHANGED)
        run_dbt(["run", "--select", "source_rows"])
        plan = self.planned(project, "--select", "mv", "--detailed-exitcode", "--sample", "10", code=2)["mv"]
        assert sorted(
            (update["diff"], update["row"]["id"], update["row"]["name"]) for update in plan["sample"]
        ) == [
            (-1, 2, "b"),
            (-1, 3, "c"),
            (1, 2, "z"),
            (1, 4, None),
        ]
        assert self.planned(project, "--exclude", "scheduled", "--sample", "0")["mv"]["sample"] == []
        shown = self.plan(project, "--select", "mv", "--sample", "1").stdout
        assert "+2 -2" in shown and "every run" in shown and "id  name" in shown
        run_dbt(["run", "--select", "mv"])
        done = self.last(project)
        assert (plan["inserted"], plan["deleted"]) == (done["rows_inserted"], done["rows_deleted"]) == (2, 2)

    def test_the_gate_and_a_model_that_fails(self, project):
        self.set_source(project, SOURCE)
        run_dbt(["run", "--full-refresh"])
        self.set_source(project, SOURCE.replace("(2, 'b')", "(1, 'b')"))
        run_dbt(["run", "--select", "source_rows"])
        self.set_model(project, configured(audit=True))
        plan = self.planned(project, "--select", "mv", code=1)["mv"]
        assert plan["gate"] is False and "unique_mv_id: 1 failure" in plan["gate_message"]
        assert "gate" in self.plan(project, "--select", "mv").stdout
        self.set_model(project, configured(max_change={"rows": 1}))
        assert self.planned(project, "--select", "mv")["mv"]["gate"] is True
        self.set_model(project, MV.replace("id, name", "id, no_such_column"))
        assert "no_such_column" in self.planned(project, "--select", "mv", code=1)["mv"]["error"]
        self.set_model(project, MV.replace("source_rows", "nowhere"))
        assert "nowhere" in self.plan(project).stderr

    def state_of(self, project, name):
        from dbt.adapters.mvsink.shard import ShardClient

        with ShardClient().open_reader(self.uri(project, name)) as reader:
            return reader.state()


KEPT = "{{ config(materialized='self_correcting_mv') }} "


class TestBehind(Planning):
    """`mv` reads the source, `names` reads it through a dbt view, and `counted` reads that."""

    @pytest.fixture(scope="class")
    def models(self):
        return {
            "source_rows.sql": SOURCE,
            "mv.sql": MV,
            "shown.sql": "select upper(name) as name from {{ ref('mv') }}",
            "names.sql": KEPT + "select name, count(*) as n from {{ ref('shown') }} group by name",
            "counted.sql": KEPT + "select count(*) as names from {{ ref('names') }}",
            "aside.sql": KEPT + "select 1 as x",
        }

    def test_what_it_says_of_models_behind_a_change_is_what_the_run_does(self, project):
        run_dbt(["run", "--full-refresh"])
        assert not any(each["behind"] for each in self.planned(project).values())
        self.set_source(project, "select * from values (1, 'a'), (2, 'z'), (4, 'y'), (5, 'y') as t(id, name)")
        run_dbt(["run", "--select", "source_rows"])
        kept = Path(project.project_root) / "target" / "partial_parse.msgpack"
        before = kept.read_bytes()
        plan = self.planned(project, "--detailed-exitcode", code=2)
        assert kept.read_bytes() == before  # what would have the next run read the whole project
        assert list(plan) == ["aside", "mv", "names", "counted"]
        assert (plan["names"]["behind"], plan["counted"]["behind"]) == (["mv"], ["mv"])
        shown = self.plan(project).stdout
        assert "from what mv would hold" in shown
        quick = self.planned(project, "--quick")
        assert (quick["names"]["inserted"], quick["names"]["unknown"]) == (
            None,
            "it reads mv, which would change",
        )
        run_dbt(["run"])
        for name in ("mv", "names", "counted", "aside"):
            done = self.last(project, name)
            assert (plan[name]["inserted"], plan[name]["deleted"]) == (
                done["rows_inserted"],
                done["rows_deleted"],
            )
        assert self.rows(project, "counted") == [(3,)]
        left = [row[0] for row in project.run_sql("show schemas", fetch="all")]
        assert not any(name.startswith("mvsink_plan_") for name in left)
