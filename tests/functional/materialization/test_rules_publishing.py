"""docs/design/dbt.md, *Publishing the view*, and what docs/design/sink.md says of the view and
of `run_results.json`: the lines that had no test.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from dbt.adapters.mvsink.shard import Antichain, ShardClient
from dbt.adapters.mvsink.shard_sql.published_view import read_marker
from tests.functional.materialization.base import MV, Base, configured

CHANGED = "select * from values (1, 'a'), (9, 'z') as t(id, name)"
KEYS = {"rows_affected", "rows_inserted", "rows_deleted", "lower", "upper", "version", "kind"}


class TestRunResults(Base):
    """`adapter_response`, one kind after the other."""

    def run(self, project, *flags):
        run_dbt(["run", "--select", "source_rows"])
        run_dbt(["run", "--select", "mv", *flags])
        response = self.last(project)
        # dbt leaves out what is None
        absent = {"lower", "upper"} if response["kind"] == "final" else set()
        assert set(response) >= KEYS - absent
        return tuple(
            response[key] for key in ("kind", "rows_inserted", "rows_deleted", "rows_affected")
        ), response

    def test_append(self, project):
        counts, response = self.run(project, "--full-refresh")
        assert counts == ("append", 3, 0, 3)
        assert (
            response["version"] <= self.state(project).version
            and response["upper"] == self.state(project).upper.as_option()
        )

    def test_none(self, project):
        run_dbt(["run", "--full-refresh"])
        before = self.state(project)
        counts, response = self.run(project)
        assert counts == ("none", 0, 0, 0)
        assert response["lower"] == before.upper.as_option() < response["upper"]

    @pytest.mark.seldom
    def test_read_only(self, project):
        run_dbt(["run", "--full-refresh"])
        before = self.state(project)
        self.set_source(project, CHANGED)
        counts, response = self.run(project, "--vars", "{mvsink_read_only: true}")
        assert counts == ("read-only", 1, 2, 3)
        assert response["version"] == before.version and response["lower"] == before.upper.as_option()

    @pytest.mark.seldom
    def test_final(self, project):
        run_dbt(["run", "--full-refresh"])
        with self.writer(project) as handle:
            handle.compare_and_append_batch([], handle.upper, Antichain.empty())
        self.set_source(project, CHANGED)
        counts, response = self.run(project)
        assert counts == ("final", 0, 0, 0) and (response.get("lower"), response.get("upper")) == (None, None)
        assert len(self.rows(project)) == 3  # readable when finished


class TestComments(Base):
    START = {
        "mv.sql": configured(persist_docs={"relation": True, "columns": True}),
        "schema.yml": "models: [{name: mv, description: the view, columns: [{name: id, description: the key}]}]",
    }

    def described(self, project):
        rows = [
            tuple(row) for row in project.run_sql(f"describe extended {project.test_schema}.mv", fetch="all")
        ]
        return ("id", "int", "the key") in rows, ("Comment", "the view", "") in rows

    @pytest.mark.seldom
    def test_comments_that_dbt_gives_no_more_stay(self, project):
        run_dbt(["run", "--full-refresh"])
        assert self.described(project) == (True, True)
        self.set_model(project, MV)
        self.set_source(project, CHANGED)
        run_dbt(["run"])
        assert self.described(project) == (True, True) and len(self.rows(project)) == 2

    @pytest.mark.parametrize("shown", ["view", "delta"])
    def test_changed_docs_are_published_though_no_row_changed(self, project, shown):
        self.set_model(project, self.START["mv.sql"].replace("_mv'", f"_mv', file_format='{shown}'"))
        run_dbt(["run", "--full-refresh"])
        write_file(
            self.START["schema.yml"].replace("the key", "a key"), project.project_root, "models", "schema.yml"
        )
        _, out = run_dbt_and_capture(["run"])
        assert "+0 -0" in out and ("view republished" in out) is (shown == "view")
        assert self.described(project) == (False, True)


class TestPlace(Base):
    START = {"mv.sql": configured(file_format="view")}

    def test_a_shards_place_is_found_in_the_views_properties(self, project, tmp_path):
        """Moved by hand: the next run follows the view, not the configured root."""
        run_dbt(["run", "--full-refresh"])
        old, new = self.uri(project), str(tmp_path / "moved")
        shutil.copytree(old, new)
        project.run_sql(
            f"alter view {project.test_schema}.mv set tblproperties ('mvsink.shard_uri' = '{new}')"
        )
        self.set_source(project, CHANGED)
        with ShardClient().open_reader(old) as reader:
            before = reader.state()
            run_dbt(["run"])
            assert reader.state() == before
        assert self.uri(project) == new and self.rows(project) == [(1, "a"), (9, "z")]
        shutil.rmtree(new)

    def test_the_view_carries_shard_version_and_place(self, project):
        run_dbt(["run", "--full-refresh"])
        properties, state = self.properties(project), self.state(project)
        assert properties["mvsink.shard_id"] == str(state.shard_id)
        text = project.run_sql(f"show create table {project.test_schema}.mv", fetch="one")[0]
        marker = read_marker(text.rpartition("\nAS ")[2])
        assert marker.uri == self.uri(project) and marker.version <= state.version
        # directories, never single files
        assert "/table/" in text and ".parquet`" not in text.split("/table/")[1]

    def test_the_view_shows_no_columns_of_ours(self, project):
        run_dbt(["run", "--full-refresh"])
        columns = [row[0] for row in project.run_sql(f"describe {project.test_schema}.mv", fetch="all")]
        assert columns == ["id", "name"]


class TestNames(Base):
    START = {"mv.sql": configured(alias="other_name", schema="sub", tags=["daily"])}

    def test_alias_custom_schema_and_tags(self, project):
        results = run_dbt(["run", "--select", "source_rows", "tag:daily"])
        assert len(results) == 2
        schema = f"{project.test_schema}_sub"
        rows = project.run_sql(f"select count(*) from {schema}.other_name", fetch="one")
        properties = dict(map(tuple, project.run_sql(f"show tblproperties {schema}.other_name", fetch="all")))
        assert rows[0] == 3 and properties["mvsink.shard_uri"].endswith(f"/{schema}/other_name")
        project.run_sql(f"drop schema {schema} cascade")


class TestGone(Base):
    def test_a_shard_whose_model_is_gone_is_never_deleted_silently(self, project):
        run_dbt(["run", "--full-refresh"])
        before = self.state(project)
        Path(project.project_root, "models", "mv.sql").unlink()
        run_dbt(["run"])
        assert self.state(project) == before and len(self.rows(project)) == 3


class TestClone(Base):
    START = {"mv.sql": configured().replace("_mv')", "_mv', schema=var('sub', none))")}

    @pytest.mark.usefixtures("manifest_json")
    def test_a_clone_shows_the_other_shard_and_its_first_run_makes_its_own(self, project):
        run_dbt(["run", "--full-refresh"])
        shutil.copytree(Path(project.project_root) / "target", Path(project.project_root) / "state")
        before = self.state(project)
        dev, schema = ["--vars", "{sub: dev}"], f"{project.test_schema}_dev"
        run_dbt(["clone", "--state", "state", "--select", "mv", *dev])
        count = f"select count(*) from {schema}.mv"
        assert project.run_sql(count, fetch="one")[0] == 3
        self.set_source(project, CHANGED)
        run_dbt(["run", *dev])
        assert project.run_sql(count, fetch="one")[0] == 2
        own = dict(map(tuple, project.run_sql(f"show tblproperties {schema}.mv", fetch="all")))[
            "mvsink.shard_uri"
        ]
        assert (
            own.endswith(f"/{schema}/mv") and self.state(project) == before and len(self.rows(project)) == 3
        )
        project.run_sql(f"drop schema {schema} cascade")


class TestUnnamedColumns(Base):
    """Spark keeps with the columns of files that it gave them their names itself, and accepts no
    such column in a view.
    """

    START = {
        "mv.sql": MV.split("}}")[0]
        + "}} select name, count(*), 'abc' from {{ ref('source_rows') }} group by name having count(*) > 0"
    }

    def test_a_column_that_the_query_does_not_name(self, project):
        run_dbt(["run", "--full-refresh"])
        assert self.rows(project) == [("a", 1, "abc"), ("b", 1, "abc"), ("c", 1, "abc")]
        self.set_source(project, CHANGED)
        run_dbt(["run"])
        assert self.rows(project) == [("a", 1, "abc"), ("z", 1, "abc")]
        names = project.run_sql(f"describe {project.test_schema}.mv", fetch="all")
        assert [row[0] for row in names] == ["name", "count(1)", "abc"]
