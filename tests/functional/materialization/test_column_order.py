"""A model whose columns change their places: what it shows follows the query, nothing is rewritten,
and what reads it goes by the new order or by names, as it is written.
"""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from dbt.tests.util import relation_from_name, run_dbt_and_capture, write_file
from dbt_common.exceptions import DbtRuntimeError
from deltalake import DeltaTable

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.cli.main import cli
from dbt.adapters.mvsink.shard import ShardClient
from tests.functional.materialization.base import MV, Base
from tests.functional.materialization.test_time import AT, MINUTE, T
from tests.support.table_readers import READERS

pytestmark = pytest.mark.usefixtures("small_data")
TABLE = MV.replace("_mv')", "_mv', file_format='delta')")
OTHER = "name, id"
STAR = "{{ config(materialized='self_correcting_mv') }} select * from {{ ref('mv') }}"
POSITIONS = STAR.replace("select *", "select 'x' a, 'y' b union all select *")
TASK = """{{ config(materialized='continual_task', column_types={'id': 'string', 'name': 'string'}) }}
on input {{ ref('mv') }} as (insert into {{ this }} select * from {{ ref('mv') }})"""
PAST = "select * from {{ mv_as_of(ref('mv'), '" + AT.format(0) + "') }}"
SOURCE = "select * from values ('1', 'a'), ('2', 'b'), ('3', 'c') as t(id, name)"
START = {
    "source_rows.sql": SOURCE,
    "mv.sql": MV,
    "tabled.sql": TABLE,
    "star.sql": STAR,
    "positions.sql": POSITIONS,
    "effects.sql": TASK,
}
ROWS = [("a", "1"), ("b", "2"), ("c", "3")]


class TestColumnsChangeTheirPlaces(Base):
    START = {**START, "past.sql": "select 1 a"}

    @pytest.fixture(scope="class")
    def models(self):
        return self.START

    def run(self, project, minute, *arguments):
        variables = json.dumps({"mvsink_run_time": T + minute * MINUTE})
        out = run_dbt_and_capture(["run", "--vars", variables, *arguments], expect_pass=None)[1]
        assert "ERROR=0" in out, out
        return out

    def names(self, project, name):
        relation = relation_from_name(project.adapter, name)
        return [row[0] for row in project.run_sql(f"describe {relation}", fetch="all")]

    def write(self, project, columns):
        for name, text in (("mv", MV), ("tabled", TABLE)):
            self.write_model(project, name, text.replace("id, name", columns))

    def write_model(self, project, name, text):
        write_file(text, project.project_root, "models", f"{name}.sql")

    def state_of(self, project, name):
        with ShardClient().open_reader(self.uri(project, name)) as reader:
            return reader.state()

    def test_row_l_what_is_shown_follows_the_query_and_nothing_is_rewritten(self, project, shard_root):
        self.run(project, 0)
        before = {name: self.state_of(project, name) for name in ("mv", "tabled")}
        assert self.names(project, "star") == ["id", "name"]
        self.write(project, OTHER)
        self.write_model(project, "past", PAST)
        out = self.run(project, 1)
        assert "new generation" not in out
        for name, state in before.items():
            after = self.state_of(project, name)
            assert (after.generation, after.files, after.schema) == (
                state.generation,
                state.files,
                state.schema,
            )
            assert self.names(project, name) == ["name", "id"]
            assert self.rows(project, name) == ROWS
        # other engines read the published table
        place = shard_root / project.test_schema / "tabled" / "table"
        assert [field.name for field in DeltaTable(place).schema().fields] == ["name", "id"]
        for reader in READERS.values():
            assert sorted(reader(place).elements()) == ROWS
        # what reads by position follows, as in Spark; what reads by name is unchanged
        assert self.names(project, "star") == ["name", "id"] and self.rows(project, "star") == ROWS
        assert self.rows(project, "positions") == [*ROWS, ("x", "y")]
        assert self.rows(project, "effects") == [("1", "a"), ("2", "b"), ("3", "c")]
        assert self.rows(project, "past") == ROWS  # of the time before, in the view's order
        place = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        commands = {
            command: CliRunner().invoke(cli, [command, f"{project.test_schema}.mv", *points, *place])
            for command, points in (("diff", [AT.format(0), AT.format(1)]), ("history", []))
        }
        assert not any(each.exit_code for each in commands.values()), commands
        assert "new query" in commands["history"].output
        assert "no differences" in commands["diff"].output, commands["diff"].output
        again = self.run(project, 2, "--select", "mv", "tabled", "star")
        assert again.count("inputs unchanged") == 3 and "republished" not in again
        assert self.names(project, "mv") == ["name", "id"]

    def test_row_l_a_run_that_was_killed_before_it_published_is_completed(self, project):
        self.run(project, 3)
        order = self.names(project, "mv")

        def killed(point):
            if point == "to be published":
                raise DbtRuntimeError("killed")

        self.write(project, ", ".join(reversed(order)))
        failpoints.install(killed)
        try:
            with pytest.raises(AssertionError, match="killed"):
                self.run(project, 4, "--select", "mv")
        finally:
            failpoints.install(None)
        assert self.names(project, "mv") == order
        self.run(project, 5, "--select", "mv")
        assert self.names(project, "mv") == order[::-1]
