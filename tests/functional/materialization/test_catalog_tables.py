"""Where the session knows Delta, the catalog's entry of a published model is the table itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from dbt.tests.util import relation_from_name, run_dbt, write_file

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.cli.main import cli
from tests.functional.materialization.base import configured
from tests.functional.materialization.test_published_tables import MODEL, Published, values

VIEW = configured(file_format="view")
FIRST, SECOND = (1, "a"), (2, "b")
BY_TEXT = "{{ config(materialized='self_correcting_mv', incremental='always', verify='never') }} "
TASK = (
    "{{ config(materialized='continual_task') }} on input {{ ref('mv') }} as "
    "(insert into {{ this }} select id, name from {{ ref('mv') }})"
)


class Entries(Published):
    def entry(self, project, name="mv"):
        """What the catalog says of a relation: its type and its provider."""
        described = project.run_sql(f"describe extended {project.test_schema}.{name}", fetch="all")
        facts = {str(row[0]): str(row[1]) for row in described}
        return facts.get("Type"), facts.get("Provider")

    def is_table(self, project, name="mv"):
        return self.entry(project, name) == ("EXTERNAL", "delta")

    def mvsink(self, project, *arguments):
        place = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        result = CliRunner().invoke(cli, [*arguments, *place])
        assert result.exit_code == 0, result.output
        return result.stdout


class TestEntry(Entries):
    START = {"mv.sql": MODEL}

    def test_from_view_to_table_and_back_in_one_session(self, project):
        self.set_model(project, VIEW)
        self.run(project, "--full-refresh")
        assert not self.is_table(project)
        for rows in (("(1, 'a')", "(2, 'b')"), ("(2, 'B')",)):
            self.set_model(project, MODEL)
            self.set_source(project, values(*rows))
            assert "published as a Delta table (file_format), no longer a view" in self.run(project)
            assert self.is_table(project)
            self.check(project)
            self.set_source(project, values(*rows, "(3, null)"))
            assert "published as" not in self.run(project)
            self.check(project)
            assert (3, None) in self.rows(project)
            self.set_model(project, VIEW)
            assert "no longer published as a Delta table" in self.run(project)
            assert self.entry(project)[0] == "VIEW" and (3, None) in self.rows(project)

    def test_a_run_that_is_killed_between_two_statements(self, project):
        self.set_model(project, VIEW)
        self.run(project, "--full-refresh")

        def die(point):
            if point == "entry dropped":
                raise RuntimeError("killed")

        self.set_model(project, MODEL)
        failpoints.install(die)
        try:
            run_dbt(["run"], expect_pass=False)
        finally:
            failpoints.install(None)
        self.run(project)
        assert self.is_table(project)
        self.check(project, (1, "a"), (2, "b"), (3, "c"))

    def test_commands_know_it(self, project):
        self.run(project, "--full-refresh")
        self.set_source(project, values("(1, 'a')"))
        self.run(project)
        name = f"{project.test_schema}.mv"
        [shown] = json.loads(self.mvsink(project, "status", name, "--output", "json"))["shards"]
        assert (shown["file_format"], shown["table_lag"], shown["table_foreign"]) == ("delta", 0, 0)
        assert shown["table_version"] == shown["version"]
        assert "delta" in self.mvsink(project, "status", name)
        undone = self.mvsink(project, "undo", name, "-1", "--yes", "--output", "json")
        assert json.loads(undone)["committed"]
        self.check(project, (1, "a"), (2, "b"), (3, "c"))
        out = self.mvsink(project, "drop", name, "--yes")
        assert f"dropped the table {name}" in out
        assert project.run_sql(f"show tables in {project.test_schema} like 'mv'", fetch="all") == []

    def test_a_copy_of_the_table_is_not_the_model(self, project):
        """Spark copies its properties, the marker too."""
        self.run(project, "--full-refresh")
        schema = project.test_schema
        project.run_sql(f"create table {schema}.copied shallow clone {schema}.mv")
        copied = relation_from_name(project.adapter, "copied").incorporate(type="table")
        with project.adapter.connection_named("test"):
            assert project.adapter.published(copied) is None
            project.adapter.drop_relation(copied)
        assert self.state(project).dropped is None
        assert "+0 -0" in self.run(project)
        self.check(project, (1, "a"), (2, "b"), (3, "c"))

    def test_it_becomes_another_kind_of_model(self, project):
        for kind in ("table", "view"):
            self.set_model(project, MODEL)
            self.run(project, "--full-refresh")
            place = self.table(project)
            self.set_model(project, MODEL.replace("self_correcting_mv", kind).replace("delta", "parquet"))
            self.run(project)
            assert self.entry(project) == (("MANAGED", "parquet") if kind == "table" else ("VIEW", None))
            assert len(self.rows(project)) == 3
            assert not (place / "_delta_log").exists()

    def test_docs_show_it(self, project):
        self.set_model(
            project, MODEL.replace("'delta'", "'delta', persist_docs={'columns': true, 'relation': true}")
        )
        docs = "models: [{name: mv, description: what it is, columns: [{name: ID, description: the key}]}]"
        write_file(docs, project.project_root, "models", "docs.yml")
        self.run(project, "--full-refresh")
        described = project.run_sql(f"describe extended {project.test_schema}.mv", fetch="all")
        assert tuple(described[0]) == ("id", "int", "the key")
        assert ("Comment", "what it is") in {(row[0], row[1]) for row in described}
        run_dbt(["docs", "generate"])
        catalog = json.loads((Path(project.project_root) / "target" / "catalog.json").read_text())
        node = catalog["nodes"]["model.test.mv"]
        assert list(node["columns"]) == ["id", "name"] and node["stats"]["rows"]["value"] == 3
        (Path(project.project_root) / "models" / "docs.yml").unlink()


class TestReaders(Entries):
    @pytest.fixture(scope="class")
    def models(self):
        return {
            "source_rows.sql": values("(1, 'a')"),
            "mv.sql": MODEL,
            "over.sql": "{{ config(materialized='view') }} select id, upper(name) as name from {{ ref('mv') }}",
            "by_ref.sql": BY_TEXT + "select name, count(*) as many from {{ ref('mv') }} group by name",
            "by_view.sql": BY_TEXT + "select name, count(*) as many from {{ ref('over') }} group by name",
            "task.sql": TASK,
            "plain.sql": "{{ config(materialized='table', file_format='parquet') }} select * from {{ ref('mv') }}",
        }

    @pytest.fixture(autouse=True)
    def fresh(self, project):
        """The class's test is one story."""

    def test_models_over_it_read_the_shard(self, project):
        self.run(project)
        assert self.is_table(project)
        self.set_source(project, values("(1, 'a')", "(2, 'b')"))
        self.run(project)
        for name, wanted in {
            "by_ref": [("a", 1), ("b", 1)],
            "by_view": [("A", 1), ("B", 1)],
            "task": [FIRST, SECOND],
            "plain": [FIRST, SECOND],
        }.items():
            assert self.rows(project, name) == wanted, name
        for name in ("by_ref", "by_view"):
            response = self.last(project, name)
            assert response["incremental"] and response["rows_inserted"] == 1, name
        assert self.last(project, "task")["rows_inserted"] == 1
