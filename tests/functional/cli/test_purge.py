"""`mvsink purge`: afterwards no file of a model has the rows, and everything else goes on."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt_and_capture, write_file

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.cli.main import cli
from dbt.adapters.mvsink.shard import ShardClient
from tests.functional.materialization.base import Base
from tests.support.decoded_files import files_with
from tests.support.iceberg_readers import ICEBERG_READERS
from tests.support.package_edges import ROOT
from tests.support.seldom import often
from tests.support.table_readers import READERS

pytestmark = pytest.mark.usefixtures("small_data")
MV = "{{{{ config(materialized='self_correcting_mv', retain_history='30 days'{}) }}}} "
PEOPLE = "select id, name from {{{{ ref('{}') }}}}"
TASK = (
    "{{{{ config(materialized='continual_task') }}}} on input {{{{ ref('{0}') }}}} as "
    "(insert into {{{{ this }}}} select id, name from {{{{ ref('{0}') }}}})"
)
DAILY = "{{ config(materialized='self_correcting_mv', refresh='every 1 day') }} select count(*) n from {{ ref('people') }}"
MARK = "marked-"
POINTS = (
    "purge staged",
    "rows purged",
    "history given up",
    "history compacted",
    "purge shown",
    "purge collected",
)


def source(marked, suffix="", plain=5):
    """A table of so many marked and plain rows; the first of each is there twice."""
    rows = [
        f"select cast(id as int) id, concat('{name}', lpad(id, 4, '0'), '{end}') name from range({count})"
        for name, end, count in ((MARK, suffix, marked), ("plain-", "", plain))
    ]
    again = [f"select * from ({row}) where id = 0" for row in rows]
    return "{{ config(materialized='table') }} " + " union all ".join([*rows, *again])


class TestPurge(Base):
    @pytest.fixture(scope="class")
    def models(self):
        return {"source_rows.sql": source(2)}

    @pytest.fixture(autouse=True)
    def fresh(self, project, shard_root):
        self.root = shard_root / project.test_schema
        for file in (Path(project.project_root) / "models").glob("*.sql"):
            file.unlink()
        for name in ("people", "lake", "copies", "daily"):
            for kind in ("view", "table"):
                try:
                    project.run_sql(f"drop {kind} if exists {project.test_schema}.`{name}`")
                except Exception:
                    continue
            shutil.rmtree(self.root / name, ignore_errors=True)
        self.write(project, "people", MV.format("") + PEOPLE.format("source_rows"))

    def write(self, project, name, text):
        write_file(text, project.project_root, "models", f"{name}.sql")

    def place(self, project):
        return ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]

    def run(self, project, *arguments):
        results, output = run_dbt_and_capture(["run", *arguments, *self.place(project)], expect_pass=None)
        if not all(str(each.status) == "success" for each in results):
            pytest.fail(output)
        return output

    def years(self, project, marked):
        """Runs in which the marked rows come, change, and mostly go."""
        for text in (source(marked), source(marked, "-b"), source(marked // 2, "-b")):
            self.set_source(project, text)
            self.run(project)

    def purge(self, project, *arguments, code=0):
        done = CliRunner().invoke(cli, ["purge", *arguments, *self.place(project)])
        if done.exit_code != code:
            pytest.fail(f"{done.exit_code}: {done.exception}\n{done.output}")
        return done.output

    def marked(self, project, *names):
        return [f"{name}/{each}" for name in names for each in files_with(self.root / name, MARK)]

    def shard(self, name="people"):
        with ShardClient().open_reader(str(self.root / name)) as reader:
            return reader.state()

    def test_a_thousand_values_are_in_no_file(self, project):
        """Of a Delta table, an Iceberg table, a task and its history, and dbt's own files."""
        self.write(project, "people", MV.format(", file_format='delta'") + PEOPLE.format("source_rows"))
        self.write(project, "lake", MV.format(", file_format='iceberg'") + PEOPLE.format("people"))
        self.write(project, "copies", TASK.format("people"))
        self.years(project, 1000)
        everything = ("people", "lake", "copies")
        assert len(self.marked(project, *everything)) > 10
        before = self.shard().upper
        condition = ("people", "--where", f"name like '{MARK}%'")
        dry = self.purge(project, *condition, "--dry-run")
        schema = project.test_schema
        assert f"{schema}.people: 501 rows of its contents" in dry and "nothing was changed" in dry
        assert f"a copy in {schema}.lake: 501 rows (--downstream)" in dry
        assert f"still in {schema}.source_rows, which it reads: 501 rows" in dry
        assert self.shard().upper == before
        first = self.purge(project, *condition, "--yes", code=1)  # the task has not processed it yet
        assert f"{schema}.copies holds it" in first and self.marked(project, "people") != []
        assert len(self.rows(project, "people")) == 6
        self.set_source(project, source(0))
        self.run(project)
        assert len(self.rows(project, "copies")) > 1000
        done = self.purge(project, *condition, "--downstream", "--yes")
        assert "left in" not in done and self.marked(project, *everything) == []
        plain = sorted([(number, f"plain-000{number}") for number in (0, 0, 1, 2, 3, 4)])
        assert self.rows(project, "people") == self.rows(project, "lake") == plain
        for read in READERS.values():
            assert sorted(read(self.root / "people/table").elements()) == plain
        for read in ICEBERG_READERS.values():
            assert sorted(read(self.root / "lake/table").elements()) == plain
        target = Path(project.project_root) / "target"
        assert files_with(target, MARK + "%") == []
        assert self.run(project).count("+0 -0") >= 2
        assert self.rows(project, "people") == plain
        self.set_source(project, source(0, plain=6))
        self.run(project)
        assert (5, "plain-0005") in self.rows(project, "lake") and (5, "plain-0005") in self.rows(
            project, "copies"
        )
        assert "0 rows of its contents, 0 change(s)" in self.purge(project, *condition, "--yes")

    def test_what_holds_history_is_named_and_finished_later(self, project):
        self.write(project, "copies", TASK.format("people"))
        self.years(project, 4)
        self.set_source(project, source(0))
        self.run(project, "--select", "source_rows", "people")
        condition = ("people", "--where", f"name like '{MARK}%'", "--yes")
        first = self.purge(project, *condition, code=1)
        assert f"{project.test_schema}.copies holds it from" in first and "call it again" in first
        assert self.marked(project, "people") != []
        assert len(self.rows(project, "people")) == 6
        self.run(project, "--select", "copies")
        assert "purged" in self.purge(project, *condition)
        assert self.marked(project, "people") == []
        assert [row for row in self.rows(project, "copies") if MARK in row[1]] != []

    def test_now_does_not_wait_for_a_schedule_nor_for_a_reader(self, project):
        self.write(project, "daily", DAILY)
        self.years(project, 4)
        self.set_source(project, source(0))
        self.run(project)
        with ShardClient().open_reader(str(self.root / "people")) as reader:
            reader.snapshot(reader.state().since.stored())
            condition = ("people", "--where", f"name like '{MARK}%'", "--yes")
            waiting = self.purge(project, *condition, code=1)
            assert "a reader is reading it" in waiting and "call it again" in waiting
            assert "purged" in self.purge(project, *condition, "--now")
        assert self.marked(project, "people") == [] and len(self.rows(project, "people")) == 6
        self.run(project)
        assert len(self.rows(project, "daily")) == 1

    def test_what_lies_below_a_shard_goes_too(self, project):
        """The rows that a task keeps of files, and a view's sums."""
        self.write(project, "copies", TASK.format("source_rows"))
        sums = "select name, count(*) n from {{{{ ref('people') }}}} group by name"
        options = ", incremental='always', state='always', verify='never'"
        self.write(project, "lake", MV.format(options) + sums.format())
        self.years(project, 4)
        self.set_source(project, source(0))
        self.run(project)
        below = [each.split("/")[1] for each in self.marked(project, "copies", "lake")]
        assert {"_inputs", "_sums"} <= set(below)
        for model in ("copies", "lake"):
            self.purge(project, model, "--where", f"name like '{MARK}%'", "--yes")
        assert self.marked(project, "copies", "lake") == []
        self.set_source(project, source(0, plain=6))
        self.run(project)
        assert ("plain-0005", 1) in self.rows(project, "lake") and (5, "plain-0005") in self.rows(
            project, "copies"
        )

    def test_the_page(self, project):
        """docs/privacy.md: its commands, as they stand there."""
        model = "select id, concat(name, '@example.com') email from {{{{ ref('source_rows') }}}}"
        self.write(project, "customers", MV.format("") + model.format())
        rows = "select 1 id, 'ada' name union all select 2, 'bob'"
        for text in (rows, rows.partition(" union")[0].replace("1", "2").replace("ada", "bob")):
            self.set_source(project, "{{ config(materialized='table') }} " + text)
            self.run(project)
        page = (ROOT / "docs" / "privacy.md").read_text()
        [commands] = re.findall(r"<!-- run: purge -->\n```bash\n(.*?)```", page, re.DOTALL)
        dbt, mvsink = (shlex.split(line) for line in commands.splitlines())
        run_dbt_and_capture([*dbt[1:], *self.place(project)])
        assert files_with(self.root / "customers", "ada@") != []
        self.purge(project, *mvsink[2:])
        assert files_with(self.root / "customers", "ada@") == []
        assert self.rows(project, "customers") == [(2, "bob@example.com")]

    def test_history_by_age(self, project):
        self.years(project, 4)
        self.set_source(project, source(0))
        self.run(project)
        assert "its contents stay" in self.purge(project, "people", "--older-than", "1 day", "--yes")
        assert self.marked(project, "people") != []
        self.purge(project, "people", "--older-than", "0 ms", "--yes")
        assert self.marked(project, "people") == [] and len(self.rows(project, "people")) == 6

    @pytest.mark.parametrize("point", often(POINTS, "rows purged"))
    def test_one_that_died_is_finished_by_the_next_call(self, project, point):
        self.write(project, "people", MV.format(", file_format='delta'") + PEOPLE.format("source_rows"))
        self.years(project, 4)
        self.set_source(project, source(0))
        self.run(project, "--select", "source_rows")
        arguments = ["purge", "people", "--where", f"name like '{MARK}%'", "--now", "--yes"]

        def die(reached):
            if reached == point:
                raise RuntimeError("killed here")

        failpoints.install(die)
        try:
            died = CliRunner().invoke(cli, [*arguments, *self.place(project)])
        finally:
            failpoints.install(None)
        assert died.exit_code == 1 and "killed here" in died.output + str(died.exception)
        assert len(self.rows(project, "people")) in (6, 9)
        self.purge(project, *arguments[1:])
        assert self.marked(project, "people") == [] and len(self.rows(project, "people")) == 6
        self.run(project)
        assert len(self.rows(project, "people")) == 6

    REFUSED = {
        "neither": ((), "either --where or --older-than"),
        "both": (("--where", "id = 1", "--older-than", "1 day"), "either --where or --older-than"),
        "no interval": (("--older-than", "soon"), "expected an interval such as '30 days'"),
        "no such column": (("--where", "nam = 1"), "nam"),
        "no condition": (("--where", "id +"), "it ends with `+`"),
        "an open quote": (("--where", "name = 'a"), "MVS-642"),
        "no boolean": (("--where", "id"), "BOOLEAN"),
    }

    def test_what_is_refused_changes_nothing(self, project):
        self.years(project, 4)
        state = self.shard()
        for case, (options, words) in self.REFUSED.items():
            done = CliRunner().invoke(cli, ["purge", "people", *options, "--yes", *self.place(project)])
            assert done.exit_code in (1, 2) and words in done.output, (case, done.output)
            assert self.shard() == state, case
        listed = json.loads(
            self.purge(project, "people", "--where", "id < 0", "--dry-run", "--output", "json")
        )
        assert listed["models"][0]["rows"] == 0
