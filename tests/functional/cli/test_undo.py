"""`mvsink undo` over Spark: the view shows it, and the model is paused until its release."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt, write_file

from dbt.adapters.mvsink.cli.main import cli
from tests.functional.materialization.base import Base

pytestmark = pytest.mark.usefixtures("small_data")
ODD = "map('k', v, 'n', null) m, array(named_struct('f', cast(-0.0 as double))) s"
WIDE = f"{{{{ config(materialized='self_correcting_mv') }}}} select id, v as `odd ``name`, {ODD} from {{{{ ref('source_rows') }}}}"


def source(*rows):
    listed = ", ".join(f"({id}, {v})" for id, v in rows)
    return f"select cast(id as int) id, cast(v as int) v from values {listed} as t(id, v)"


FIRST = source((1, 10), (1, 10), (1, 10), ("null", 30), (2, "null"))
SECOND = source((1, 10), ("null", 30), ("null", 31), (2, 20))
THIRD = source((1, 10), ("null", 30), (2, 20))


class TestUndo(Base):
    @pytest.fixture(scope="class")
    def models(self):
        return {"source_rows.sql": FIRST, "mv.sql": WIDE}

    @pytest.fixture(autouse=True)
    def fresh(self, project):
        """The class's test is one story."""

    def name(self, project):
        """Other classes have models called `mv` too, below the same root."""
        return f"{project.test_schema}.mv"

    def command(self, project, *arguments):
        place = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        return CliRunner().invoke(cli, [*arguments, *place])

    def pairs(self, project):
        return sorted((row[:2] for row in self.rows(project)), key=repr)

    def test_the_view_shows_what_is_left(self, project):
        for text in (FIRST, SECOND, THIRD):
            write_file(text, project.project_root, "models", "source_rows.sql")
            run_dbt(["run"])
        third = self.pairs(project)
        refused = self.command(project, "undo", self.name(project), "-2", "--yes")
        assert refused.exit_code == 1 and "1 row(s) would be there fewer than 0 times" in refused.output
        undone = self.command(project, "undo", self.name(project), "-2", "-1", "--yes", "--output", "json")
        answer = json.loads(undone.stdout)
        assert (answer["inserted"], answer["deleted"], answer["committed"]) == (3, 1, True)
        wanted = [(1, 10), (1, 10), (1, 10), (2, None), (None, 30)]
        assert self.pairs(project) == wanted
        run_dbt(["run"])
        assert self.pairs(project) == wanted
        assert self.command(project, "release", self.name(project), "--yes").exit_code == 0
        run_dbt(["run"])
        assert self.pairs(project) == third

    @pytest.mark.seldom
    def test_audits_judge_what_would_be_left(self, project):
        """After the release the model has other contents again; going back fails its test."""
        audited = WIDE.replace("self_correcting_mv'", "self_correcting_mv', audit=true")
        schema = "models: [{name: mv, columns: [{name: id, data_tests: [unique]}]}]"
        write_file(audited, project.project_root, "models", "mv.sql")
        write_file(schema, project.project_root, "models", "schema.yml")
        before = self.pairs(project)
        shown = self.command(project, "undo", self.name(project), "-1", "--dry-run")
        assert shown.exit_code == 1 and "unique_mv_id: 1 failure" in shown.stdout, shown.output
        refused = self.command(project, "undo", self.name(project), "-1", "--yes", "--output", "json")
        assert refused.exit_code == 1 and "unique_mv_id" in json.loads(refused.stdout)["gate"]
        assert self.pairs(project) == before
        accepted = self.command(project, "undo", self.name(project), "-1", "--yes", "--accept")
        assert accepted.exit_code == 0 and self.pairs(project) != before
