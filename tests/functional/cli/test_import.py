"""`mvsink import` of tables in which rows are missing, too many and stale: what it says is what was
planted, and the old table stays.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from dbt.tests.util import run_dbt_and_capture, write_file
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.cli.main import cli
from dbt.adapters.mvsink.shard import ShardClient
from tests.functional.materialization.base import Base
from tests.support.seldom import often_of

pytestmark = pytest.mark.usefixtures("small_data")
COLUMNS = "id, amount, status, placed"
QUERY = f"select {COLUMNS} from {{{{ ref('source_rows') }}}}"
VIEW = "{{{{ config(materialized='self_correcting_mv'{}) }}}} "


def order(number, amount, status="new"):
    return f"({number}, {amount}, '{status}', date '2026-{number % 3 + 1:02d}-05')"


def source(*rows):
    typed = "id, cast(amount as decimal(10,2)) amount, status, placed"
    return f"select {typed} from values {', '.join(rows)} as t({COLUMNS})"


RIGHT = source(*(order(number, number * 1.5) for number in range(1, 31)))
# in the table: 1 to 3 are missing, 90 and 91 too many, and 10 to 13 are stale
WRONG = source(
    *(order(number, number * 1.5) for number in range(4, 31) if not 10 <= number <= 13),
    *(order(number, 7.25, "old") for number in range(10, 14)),
    *(order(number, 1) for number in (90, 91)),
)
PLANTED = {"rows": 29, "missing": 3, "too_many": 2, "stale": 4}


class Died(Exception):
    """As if the run had died here. (An interrupt in one of dbt's threads would not end it.)"""


class Deadly:
    """Ends a run at the point that it reaches as the ``number``th."""

    def __init__(self, number):
        self.number, self.reached = number, []

    def reach(self, point):
        self.reached.append(point)
        if len(self.reached) == self.number:
            raise Died(point)


class TestImport(Base):
    @pytest.fixture(scope="class")
    def models(self):
        return {"source_rows.sql": RIGHT, "orders.sql": "{{ config(materialized='table') }} " + QUERY}

    @pytest.fixture(autouse=True)
    def fresh(self, project):
        self.begin(project)

    def begin(self, project):
        """The table as it is before an import, of which nothing is left."""
        for name in ("orders", "orders_before_import"):
            for kind in ("view", "table"):
                try:
                    project.run_sql(f"drop {kind} if exists {project.test_schema}.{name}")
                except Exception:
                    continue
        shutil.rmtree(self.shard(project), ignore_errors=True)
        self.set_orders(project, "{{ config(materialized='table') }} " + QUERY)
        write_file(WRONG, project.project_root, "models", "source_rows.sql")
        self.dbt(project, "run")
        write_file(RIGHT, project.project_root, "models", "source_rows.sql")
        self.dbt(project, "run", "--select", "source_rows")

    def dbt(self, project, *arguments, passes=True):
        """What dbt printed. After a dry run, `run_dbt` would look where that was."""
        return run_dbt_and_capture([*arguments, *self.place(project)], expect_pass=passes)[1]

    def place(self, project):
        return ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]

    def rows(self, project, name="mv"):
        """Likewise, `project.adapter` is that of the dry run."""
        return sorted(map(tuple, project.run_sql(f"select * from {project.test_schema}.{name}", fetch="all")))

    def set_orders(self, project, text):
        write_file(text, project.project_root, "models", "orders.sql")

    def set_view(self, project, configs="", query=QUERY):
        self.set_orders(project, VIEW.format(configs) + query)

    def command(self, project, *arguments, code=0):
        result = CliRunner().invoke(cli, [*arguments, *self.place(project)])
        assert result.exit_code == code, result.output
        return result

    def imported(self, project, *arguments):
        result = self.command(project, "import", "orders", "--key", "id", "--output", "json", *arguments)
        return json.loads(result.stdout)

    def shard(self, project):
        profile = yaml.safe_load(Path(str(project.profiles_dir), "profiles.yml").read_text())["test"]
        root = profile["outputs"]["default"].get("shard_root") or Path(
            project.project_root, ".mvsink", "shards"
        )
        return Path(root, project.test_schema, "orders")

    def kinds(self, project):
        listed = project.run_sql(f"show table extended in {project.test_schema} like 'orders*'", fetch="all")
        return {row[1]: "view" if "Type: VIEW" in row[3] else "table" for row in listed}

    def check(self, result):
        assert {name: result[name] for name in PLANTED} == PLANTED
        assert result["changed_values"] == {"amount": 4, "status": 4}
        assert (result["by"], result["key"]) == ("placed", ["id"])
        months = {each["month"]: tuple(each.values())[1:] for each in result["months"]}
        # 90 and 91; 1 to 3; 10 to 13
        assert months == {"2026-01": (1, 1, 1), "2026-02": (1, 1, 2), "2026-03": (0, 1, 1)}

    def test_what_was_planted_is_what_it_says_and_the_old_table_stays(self, project):
        old = self.rows(project, "orders")
        self.set_view(project)
        root = self.shard(project).parent
        before = sorted(root.rglob("*"))
        result = self.imported(project, "--dry-run")
        self.check(result)
        assert result["dry_run"] and sorted(root.rglob("*")) == before
        assert self.kinds(project) == {"orders": "table"} and self.rows(project, "orders") == old

        result = self.imported(project)
        self.check(result)
        assert result["kept_as"] == f"{project.test_schema}.orders_before_import"
        assert self.kinds(project) == {"orders": "view", "orders_before_import": "table"}
        assert self.rows(project, "orders") == self.rows(project, "source_rows")
        assert self.rows(project, "orders_before_import") == old
        with ShardClient().open_reader(str(self.shard(project))) as reader:
            purposes = [commit.note.purpose for commit in reader.history()]
        assert any("imported from" in purpose for purpose in purposes)
        shown = self.command(project, "history", f"{project.test_schema}.orders").stdout
        assert "imported from" in shown and " 7  6 " in shown

        for more in ([], ["--dry-run"]):
            assert "maintained already" in self.command(project, "import", "orders", *more, code=1).output
        assert "+0 -0" in self.dbt(project, "run", "--select", "orders")
        name = f"{project.test_schema}.orders"
        assert self.command(project, "import", name, "--drop-old", "--yes").exit_code == 0
        assert self.kinds(project) == {"orders": "view"}
        again = self.command(project, "import", name, "--drop-old", "--yes", code=1)
        assert "has been dropped" in again.output

    def test_for_people(self, project):
        self.set_view(project)
        lines = self.command(project, "import", "orders", "--sample", "1", "--key", "id").stdout.splitlines()
        text = "\n".join(lines)
        assert "29 rows of" in lines[0]
        assert lines[1] == "  3 rows are missing in it, 2 too many, 4 stale (amount in 4, status in 4)"
        assert "by month of placed" in text and "missing" in text and "stale" in text
        assert "--drop-old" in lines[-1] and "orders_before_import" in lines[-1]

    def test_it_becomes_a_table_again_and_a_view_again(self, project):
        self.set_view(project)
        old = self.rows(project, "orders")
        self.command(project, "import", "orders")
        self.set_orders(project, "{{ config(materialized='table') }} " + QUERY)
        self.dbt(project, "run", "--select", "orders")
        self.set_view(project)
        self.dbt(project, "run", "--select", "orders")
        assert self.kinds(project) == {"orders": "view", "orders_before_import": "table"}
        assert self.rows(project, "orders_before_import") == old
        assert self.rows(project, "orders") == self.rows(project, "source_rows")

    def test_a_history_is_not_ended_by_another_import(self, project):
        self.set_view(project)
        self.command(project, "import", "orders")
        self.dbt(project, "run", "--select", "orders")
        project.run_sql(f"drop view {project.test_schema}.orders")
        with ShardClient().open_reader(str(self.shard(project))) as reader:
            before = reader.state()
        refused = self.command(project, "import", "orders", code=1).output
        assert "a history, which an import would end" in refused and "`dbt run` goes on with it" in refused
        with ShardClient().open_reader(str(self.shard(project))) as reader:
            assert reader.state() == before
        self.dbt(project, "run", "--select", "orders")
        assert self.rows(project, "orders") == self.rows(project, "source_rows")

    def test_a_table_that_is_right(self, project):
        self.dbt(project, "run")
        self.set_view(project)
        assert "nothing is wrong in it" in self.command(project, "import", "orders").stdout
        assert self.rows(project, "orders") == self.rows(project, "source_rows")

    def test_a_column_more_and_one_less_and_a_wider_one(self, project):
        query = "select id, cast(amount as decimal(12,3)) amount, placed, 1 as version from {{ ref('source_rows') }}"
        self.set_view(project, query=query)
        result = self.imported(project)
        assert (result["missing"], result["too_many"], result["stale"]) == (3, 2, 27)
        assert result["changed_values"] == {"amount": 4, "version": 27}
        assert len(self.rows(project, "orders")) == 30

    REFUSED = {
        "a type that does not fit": (
            "",
            QUERY.replace("amount,", "cast(amount as int) amount,"),
            "amount is decimal",
        ),
        "a schedule": (", refresh='every 1 hour'", QUERY, "it has a schedule"),
        "no column in common": ("", "select 1 as x", "has none of its columns"),
    }

    @pytest.mark.parametrize(("configs", "query", "words"), REFUSED.values(), ids=REFUSED)
    def test_what_does_not_fit_is_refused_and_nothing_is_made(self, project, configs, query, words):
        old = self.rows(project, "orders")
        before = sorted(self.shard(project).rglob("*"))
        self.set_view(project, configs, query)
        for arguments in ([], ["--dry-run"]):
            assert words in self.command(project, "import", "orders", *arguments, code=1).output
        assert self.kinds(project) == {"orders": "table"} and self.rows(project, "orders") == old
        assert sorted(self.shard(project).rglob("*")) == before

    def test_wrong_usage(self, project):
        assert "materialized as table" in self.command(project, "import", "orders", code=1).output
        assert "no model 'nosuch'" in self.command(project, "import", "nosuch", code=2).output
        self.set_view(project)
        wrong = {
            "--by": ("amount", "expected one of placed"),
            "--key": ("nosuch", "expected any of id, amount"),
        }
        for option, (name, words) in wrong.items():
            for more in ([], ["--dry-run"]):
                result = self.command(project, "import", "orders", option, name, *more, code=2)
                assert words in result.output
        assert self.kinds(project) == {"orders": "table"}
        project.run_sql(f"create table {project.test_schema}.orders_before_import as select 1 x")
        assert "which is taken" in self.command(project, "import", "orders", code=1).output
        project.run_sql(f"drop table {project.test_schema}.orders_before_import")
        read_only = ["--vars", "{mvsink_read_only: true}"]
        assert "read-only" in self.command(project, "import", "orders", *read_only, code=1).output
        project.run_sql(f"drop table {project.test_schema}.orders")
        assert "there is no table of this name" in self.command(project, "import", "orders", code=1).output
        assert "there is no table" in self.command(project, "import", "orders", "--dry-run", code=1).output

    FORMATS = {
        "Delta": "{{ config(materialized='table', file_format='delta') }} ",
        "an incremental model": "{{ config(materialized='incremental', file_format='parquet') }} ",
        "CSV": "{{ config(materialized='table', file_format='csv') }} ",
    }

    @pytest.mark.parametrize("config", **often_of(FORMATS, "Delta"))
    def test_tables_of_other_formats(self, project, config):
        project.run_sql(f"drop table {project.test_schema}.orders")
        self.set_orders(project, config + QUERY)
        write_file(WRONG, project.project_root, "models", "source_rows.sql")
        self.dbt(project, "run")
        write_file(RIGHT, project.project_root, "models", "source_rows.sql")
        self.dbt(project, "run", "--select", "source_rows")
        old = self.rows(project, "orders")
        self.set_view(project)
        self.check(self.imported(project))
        assert self.rows(project, "orders") == self.rows(project, "source_rows")
        assert self.rows(project, "orders_before_import") == old

    def test_killed_anywhere_the_old_table_is_there_or_the_new_one(self, project):
        """Each time one point further, until one is not reached."""
        right = self.rows(project, "source_rows")
        reached = []
        for number in range(1, 30):
            self.begin(project)
            old = self.rows(project, "orders")
            self.set_view(project)
            points = Deadly(number)
            failpoints.install(points.reach)
            try:
                done = CliRunner().invoke(cli, ["import", "orders", *self.place(project)])
            finally:
                failpoints.install(None)
            if len(points.reached) < number:
                assert done.exit_code == 0
                break
            reached.append(points.reached[-1])
            assert done.exit_code != 0, reached
            existing = self.kinds(project)
            if existing.get("orders") == "view":
                assert self.rows(project, "orders") == right
            else:
                kept = "orders" if "orders" in existing else "orders_before_import"
                assert existing[kept] == "table" and self.rows(project, kept) == old
                result = self.imported(project)
                self.check(result)
            assert self.rows(project, "orders") == right, reached
            assert self.rows(project, "orders_before_import") == old, reached
        assert {"imported", "staged", "appended", "to be published", "view published"} <= set(reached)

    def test_the_variable_itself(self, project):
        self.set_view(project)
        with pytest.raises(DbtRuntimeError, match="a model's name, or a list of them"):
            self.dbt(project, "run", "--vars", "{mvsink_import: 7}", passes=False)
        self.dbt(project, "run", "--vars", "{mvsink_import: orders}")
        assert self.kinds(project)["orders_before_import"] == "table"
