"""`mvsink rename`: history, readers, holds, tasks and subscribers go on under the new name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt_and_capture, write_file

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.cli.main import cli
from dbt.adapters.mvsink.shard import ShardClient
from tests.functional.cli.test_import import Deadly
from tests.functional.materialization.base import Base
from tests.support.seldom import often

pytestmark = pytest.mark.usefixtures("small_data")
MV = "{{ config(materialized='self_correcting_mv', retain_history='30 days') }} "
QUERY = "select id, name from {{ ref('source_rows') }}"
TASK = (
    "{{{{ config(materialized='continual_task') }}}} on input {{{{ ref('{}') }}}} as "
    "(insert into {{{{ this }}}} select id, name, {{{{ mv_now() }}}} at from {{{{ ref('{}') }}}})"
)
DAILY = "{{{{ config(materialized='self_correcting_mv', refresh='every 1 hour') }}}} select count(*) n from {{{{ ref('{}') }}}}"
POINTS = ("place noted", "renamed", "new name published", "view published")


def values(*names):
    return "select * from values {} as t(id, name)".format(
        ", ".join(f"({number}, '{name}')" for number, name in enumerate(names, 1))
    )


class TestRename(Base):
    @pytest.fixture(scope="class")
    def models(self):
        return {"source_rows.sql": values("a")}

    @pytest.fixture(autouse=True)
    def fresh(self, project, shard_root):
        """The project with `before`, which a task and a scheduled view read."""
        self.root = shard_root / project.test_schema
        models = Path(project.project_root) / "models"
        for file in models.glob("*.sql"):
            file.unlink()
        for shard in ("before", "after", "copies", "hourly", "before.2", "taken"):
            self.forget(project, shard)
        self.set_source(project, values("a"))
        self.write(project, "before", MV + QUERY)
        self.readers(project, "before")
        self.dbt(project, "run")
        self.set_source(project, values("a", "b"))
        self.dbt(project, "run")

    def forget(self, project, name):
        for kind in ("view", "table"):
            try:
                project.run_sql(f"drop {kind} if exists {project.test_schema}.`{name}`")
            except Exception:
                continue
        shutil.rmtree(self.root / name, ignore_errors=True)
        shutil.rmtree(self.root / "_renamed", ignore_errors=True)

    def write(self, project, name, text):
        write_file(text, project.project_root, "models", f"{name}.sql")

    def readers(self, project, name):
        self.write(project, "copies", TASK.format(name, name))
        self.write(project, "hourly", DAILY.format(name))

    def git_mv(self, project):
        models = Path(project.project_root) / "models"
        (models / "before.sql").rename(models / "after.sql")
        self.readers(project, "after")

    def dbt(self, project, *arguments, passes=True):
        return run_dbt_and_capture([*arguments, *self.place(project)], expect_pass=passes)[1]

    def place(self, project):
        return ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]

    def rows(self, project, name):
        return sorted(map(tuple, project.run_sql(f"select * from {project.test_schema}.{name}", fetch="all")))

    def command(self, project, *arguments, code=0):
        done = CliRunner().invoke(cli, [*arguments, *self.place(project)])
        assert done.exit_code == code, done.output
        return done

    def shard(self, project, name="before"):
        with ShardClient().open_reader(str(self.root / name)) as reader:
            return reader.state()

    def test_everything_goes_on(self, project):
        """Also the subscriber and the history from before it."""
        position = Path(project.project_root) / "position.json"
        subscribed = ["subscribe", "{}", "--position", str(position)]
        self.command(project, *(each.format("before") for each in subscribed), "--snapshot")
        before, effects = self.shard(project), self.rows(project, "copies")
        self.git_mv(project)
        message = self.dbt(project, "run", "--threads", "4", passes=False)
        assert (
            "`mvsink rename before after`" in message
            and "before, which is no longer in the project" in message
        )
        dry = self.command(project, "rename", "before", "after", "--dry-run")
        assert "dry run: nothing was changed" in dry.output and self.shard(project) == before
        done = self.command(project, "rename", "before", "after", "--yes")
        schema = project.test_schema
        assert (
            f"renamed to {schema}.after" in done.output and f"{schema}.before stays as a view" in done.output
        )
        assert self.rows(project, "after") == self.rows(project, "before") == [(1, "a"), (2, "b")]
        self.set_source(project, values("a", "b", "c"))
        self.dbt(project, "run")
        assert self.rows(project, "after") == self.rows(project, "before") == [(1, "a"), (2, "b"), (3, "c")]
        effect = [row[:2] for row in self.rows(project, "copies") if row not in effects]
        assert effect == [(3, "c")]  # only what came since
        after = self.shard(project)
        assert (after.shard_id, after.generation, after.since) == (
            before.shard_id,
            before.generation,
            before.since,
        )
        assert before.holds.keys() == after.holds.keys() and len(after.holds) == 2
        assert not (self.root / "after").exists()
        stream = self.command(project, *(each.format("after") for each in subscribed)).stdout
        assert '"c"' in stream and '"b"' not in stream
        listed = json.loads(self.command(project, "status", "--output", "json").stdout)["shards"]
        assert [(each["model"], each["relation"]) for each in listed if "after" in each["model"]] == [
            ("after", f"{schema}.after")
        ]
        listed = json.loads(self.command(project, "history", "after", "--output", "json").stdout)["commits"]
        assert any(
            f"renamed from {schema}.before to {schema}.after" in str(each["message"]) for each in listed
        )
        assert listed[-1]["way"] == "first load"
        assert "after" in self.command(project, "diff", "after", "-1").stdout

    def test_a_model_of_the_old_name_has_a_shard_of_its_own(self, project):
        self.git_mv(project)
        self.command(project, "rename", "before", "after", "--yes", "--no-view")
        self.write(project, "before", MV + "select 7 seven from {{ ref('source_rows') }}")
        self.dbt(project, "run")
        assert self.rows(project, "before") == [(7,), (7,)]
        assert self.rows(project, "after") == [(1, "a"), (2, "b")]
        for name in ("before", "after"):  # both are distinguished without their views, too
            project.run_sql(f"drop view {project.test_schema}.{name}")
        self.dbt(project, "run")
        assert self.rows(project, "before") == [(7,), (7,)]
        assert self.rows(project, "after") == [(1, "a"), (2, "b")]
        assert self.shard(project, "before.2").generation == self.shard(project).generation == 0

    def test_a_file_that_leads_nowhere_makes_no_second_shard(self, project):
        self.git_mv(project)
        self.command(project, "rename", "before", "after", "--yes", "--no-view")
        project.run_sql(f"drop view {project.test_schema}.after")
        pointer = self.root / "_renamed" / "after.json"
        for text in ("{", '{"shard": "nowhere/x"}'):
            kept = pointer.read_text()
            pointer.write_text(text)
            output = self.dbt(project, "run", "--select", "after", passes=False)
            assert "leads to the shard of a renamed model" in output and "mvsink rename OLD NEW" in output
            assert not (self.root / "after").exists()
            pointer.write_text(kept)
        self.dbt(project, "run", "--select", "after")
        assert self.rows(project, "after") == [(1, "a"), (2, "b")]

    def test_a_model_with_another_alias(self, project):
        self.write(project, "before", MV.replace(") }}", ", alias='after') }}") + QUERY)
        self.command(project, "rename", "before", "before", "--yes")
        self.set_source(project, values("a", "b", "c"))
        self.dbt(project, "run")
        assert self.rows(project, "after") == self.rows(project, "before") == [(1, "a"), (2, "b"), (3, "c")]
        assert len(self.rows(project, "copies")) == 3 and not (self.root / "after").exists()

    @pytest.mark.parametrize("number", often([1, 2, 3, 4], 2))
    def test_one_that_died_is_completed_by_the_next_call(self, project, number):
        self.git_mv(project)
        deadly = Deadly(number)
        failpoints.install(deadly.reach)
        try:
            died = CliRunner().invoke(cli, ["rename", "before", "after", "--yes", *self.place(project)])
        finally:
            failpoints.install(None)
        if number > len(deadly.reached):
            return  # it has fewer points
        assert died.exit_code != 0, died.output
        for name in ("before", "after") if number >= 3 else ("before",):
            assert self.rows(project, name) == [(1, "a"), (2, "b")]
        self.command(project, "rename", "before", "after", "--yes")
        self.dbt(project, "run")
        assert self.rows(project, "before") == self.rows(project, "after") == [(1, "a"), (2, "b")]

    REFUSED = {
        "still in the project": ("hourly", "copies", "its model hourly is still in the project"),
        "another kind": ("before", "copies", "is a view, and copies is a task"),
        "a table": ("before", "source_rows", "source_rows: is materialized as view"),
        "an unknown model": ("before", "nothing", "there is no model 'nothing'"),
        "an unknown shard": ("nothing", "after", "no shard of a model 'nothing'"),
        "a name that is taken": ("before", "taken", "exists and does not show this shard"),
    }

    def test_what_is_refused_changes_nothing(self, project):
        self.git_mv(project)
        project.run_sql(f"create table {project.test_schema}.taken as select 1 one")
        self.write(project, "taken", MV + "select 1 one")
        state = self.shard(project)
        for case, (old, new, words) in self.REFUSED.items():
            done = CliRunner().invoke(cli, ["rename", old, new, "--yes", *self.place(project)])
            assert done.exit_code in (1, 2) and words in done.output, (case, done.output)
            assert self.shard(project) == state, case
        assert self.rows(project, "before") == [(1, "a"), (2, "b")] and self.rows(project, "taken") == [(1,)]
