"""What docs/design/dbt.md says of flags, configs and publishing, line by line."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from dbt.adapters.mvsink.shard import ShardClient
from tests.functional.materialization.base import MV, SOURCE, Base, configured
from tests.support.seldom import often

HOUR = 3_600_000


class TestDefinition(Base):
    @pytest.mark.seldom
    def test_a_changed_query_corrects_by_default(self, project):
        run_dbt(["run", "--full-refresh"])
        self.set_model(project, MV.replace("select id, name", "select id, upper(name) as name"))
        _, out = run_dbt_and_capture(["run"])
        assert "+3 -3 at " in out and "changed" not in out
        assert self.rows(project)[0] == (1, "A")

    @pytest.mark.seldom
    def test_continue_warns(self, project):
        run_dbt(["run", "--full-refresh"])
        self.set_model(
            project,
            configured(on_configuration_change="continue").replace("name from", "lower(name) as name from"),
        )
        _, out = run_dbt_and_capture(["run"])
        assert "query changed; takes effect at this run" in out

    @pytest.mark.seldom
    def test_fail_names_what_changed(self, project):
        run_dbt(["run", "--full-refresh"])
        before = self.state(project)
        self.set_model(
            project, configured(on_configuration_change="fail").replace("name from", "'x' as name from")
        )
        results = run_dbt(["run", "--select", "mv"], expect_pass=False)
        assert "its query differs from what the shard records" in results[0].message
        assert self.state(project).files == before.files

    @pytest.mark.embedded("each connection to a server has settings of its own")
    def test_ansi_mode_is_part_of_the_definition(self, project):
        run_dbt(["run", "--full-refresh"])
        self.set_model(project, configured(on_configuration_change="continue"))
        project.run_sql("set spark.sql.ansi.enabled = false")
        try:
            _, out = run_dbt_and_capture(["run", "--select", "mv"])
        finally:
            project.run_sql("set spark.sql.ansi.enabled = true")
        assert "ANSI mode changed" in out

    @pytest.mark.embedded("each connection to a server has settings of its own")
    def test_a_session_that_reads_names_as_patterns_is_refused(self, project):
        project.run_sql("set spark.sql.parser.quotedRegexColumnNames = true")
        try:
            [result] = run_dbt(["run", "--select", "mv"], expect_pass=False)
        finally:
            project.run_sql("reset spark.sql.parser.quotedRegexColumnNames")
        assert "Got: spark.sql.parser.quotedRegexColumnNames = true" in result.message

    def test_mv_now_and_references_are_no_change(self, project):
        self.set_model(
            project,
            configured(on_configuration_change="fail").replace(
                "name from", "{{ mv_now() }} > timestamp'2020-01-01' as new from"
            ),
        )
        run_dbt(["run", "--full-refresh"])
        run_dbt(["run"])
        kept = json.loads(self.state(project).properties["definition"])["sql"]
        assert "mv_now() > " in kept and "{model.test.source_rows}" in kept


class TestFlags(Base):
    def test_empty_creates_a_missing_shard_that_is_not_readable_yet(self, project):
        run_dbt(["run", "--empty"])
        assert self.state(project).files == ()
        with pytest.raises(Exception, match="not refreshed yet"):
            self.rows(project)
        run_dbt(["run"])
        assert len(self.rows(project)) == 3

    def test_a_sample_works_only_on_a_shard_that_a_sample_made(self, project):
        sampled = ["run", "--sample", "1 day", "--select", "mv"]
        run_dbt(["run", "--full-refresh"])
        results = run_dbt(sampled, expect_pass=False)
        assert "--sample works only on a shard that a sampled run created" in results[0].message
        run_dbt(["run", "--select", "mv"])
        self.writer(project).set_properties({"sampled": "true"})
        run_dbt(sampled)
        assert self.state(project).properties["sampled"] == "true"
        run_dbt(["run", "--select", "mv"])
        assert self.state(project).properties["sampled"] == "false"

    def test_full_refresh_false_on_the_model_is_obeyed(self, project):
        run_dbt(["run", "--full-refresh"])
        before = self.state(project)
        self.set_model(project, configured(full_refresh=False))
        run_dbt(["run", "--full-refresh", "--select", "mv"])
        assert self.state(project).generation == before.generation

    def test_read_only_on_a_model_concerns_that_model(self, project):
        run_dbt(["run", "--full-refresh"])
        before = self.state(project)
        self.set_source(project, "select * from values (9, 'z') as t(id, name)")
        self.set_model(project, configured(read_only=True, post_hook="this is not SQL"))
        _, out = run_dbt_and_capture(["run"])
        assert "read-only: would write +1 -3" in out and self.state(project) == before

    def test_read_only_refuses_seeds_and_incremental_models(self, project):
        write_file("a\n1\n", project.project_root, "seeds", "numbers.csv")
        write_file(
            "{{ config(materialized='incremental') }} select 1 as a",
            project.project_root,
            "models",
            "inc.sql",
        )
        results = run_dbt(
            ["build", "--select", "numbers", "inc", "--vars", "{mvsink_read_only: true}"], expect_pass=False
        )
        assert sorted(r.message.split("(")[-1].split(")")[0] for r in results) == ["incremental", "seed"]

    def test_a_run_time_ahead_of_the_clock_warns_and_the_next_run_names_it(self, project):
        ahead = int(time.time() * 1000) + HOUR
        _, out = run_dbt_and_capture(["run", "--full-refresh", "--vars", f"{{mvsink_run_time: {ahead}}}"])
        assert "ahead of the clock" in out
        _, out = run_dbt_and_capture(["run", "--select", "mv"])
        assert (
            "is ahead of the clock" in out
            and "Remedy: `mvsink rewind`" in out
            and "run " in out
            and " on " in out
        )
        run_dbt(["run", "--full-refresh", "--select", "mv"])
        assert self.last(project)["upper"] < ahead

    def test_run_time_by_environment(self, project, monkeypatch):
        monkeypatch.setenv("MVSINK_RUN_TIME", "2026-11-20 15:00")
        run_dbt(["run", "--full-refresh"])
        assert self.last(project)["upper"] == 1795186800001


class TestConfigs(Base):
    def test_ignored_configs_give_one_warning_that_lists_the_models(self, project):
        write_file(configured(unique_key="id"), project.project_root, "models", "other.sql")
        self.set_model(project, configured(partition_by=["id"], file_format="delta"))
        _, out = run_dbt_and_capture(["run"])
        assert out.count("are ignored:") == 1
        assert "mv (partition_by)" in out and "other (unique_key)" in out

    def test_is_incremental_is_false_and_sql_header_runs_first(self, project):
        self.set_model(
            project,
            "{% call set_sql_header(config) %}create or replace temporary function twice(x int) returns int return 2 * x;{% endcall %}"
            + MV.replace("select id", "select twice(id) as id, {{ is_incremental() | lower }} as inc"),
        )
        run_dbt(["run", "--full-refresh"])
        assert self.rows(project)[0] == (2, False, "a")

    def test_assert_not_null_records_by_default_and_readers_fail_until_it_is_corrected(self, project):
        self.set_source(project, "select * from values (1, 'a'), (null, 'b') as t(id, name)")
        self.set_model(project, configured(assert_not_null=["id"], file_format="view"))
        _, out = run_dbt_and_capture(["run", "--full-refresh"])
        assert "1 rows break an assertion" in out
        with pytest.raises(Exception, match='column "id" must not be null'):
            self.rows(project)
        self.set_source(project, "select * from values (1, 'a'), (2, 'b') as t(id, name)")
        run_dbt(["run"])
        assert self.rows(project) == [(1, "a"), (2, "b")]

    @pytest.mark.seldom
    def test_a_failing_query_may_be_recorded(self, project):
        run_dbt(["run", "--full-refresh"])
        self.set_model(
            project,
            configured(on_error="record").replace("select id", "select cast(id div (id - 2) as int) as id"),
        )
        _, out = run_dbt_and_capture(["run"])
        assert "the query failed and its error is recorded" in out

    def test_an_unknown_column_of_assert_not_null(self, project):
        self.set_model(project, configured(assert_not_null=["idd"]))
        results = run_dbt(["run", "--select", "mv"], expect_pass=False)
        assert "got 'idd', expected columns of the query: id, name" in results[0].message

    def test_a_reserved_column_is_refused(self, project):
        self.set_model(project, MV.replace("select id", "select 1 as _mv_x, id"))
        results = run_dbt(["run", "--select", "mv"], expect_pass=False)
        assert "`_mv_x`: names that start with `_mv_` are reserved" in results[0].message


class TestPublishing(Base):
    @pytest.mark.seldom
    def test_drop_relation_and_drop_schema_mark_the_shard_dropped(self, project):
        run_dbt(["run", "--full-refresh"])
        uri = self.uri(project)
        with project.adapter.connection_named("drop"):
            relation = project.adapter.get_relation(None, project.test_schema, "mv")
            assert project.adapter.mv_is_shard(relation)
            project.adapter.drop_relation(relation)
        with ShardClient().open_reader(uri) as reader:
            # they live on for the grace period
            assert reader.state().dropped and reader.state().files
        run_dbt(["run"])
        with project.adapter.connection_named("drop"):
            project.adapter.drop_schema(project.adapter.Relation.create(schema=project.test_schema))
        with ShardClient().open_reader(uri) as reader:
            assert reader.state().dropped
        run_dbt(["run"])
        assert len(self.rows(project)) == 3

    @pytest.mark.parametrize("materialized", often(["table", "incremental", "view"], "table"))
    def test_back_to_dbts_own_materializations_and_here_again(self, project, materialized):
        run_dbt(["run"])
        uri = self.uri(project)
        self.set_model(project, MV.replace("self_correcting_mv", materialized))
        run_dbt(["run"])
        assert self.rows(project) == [(1, "a"), (2, "b"), (3, "c")]
        with ShardClient().open_reader(uri) as reader:
            assert reader.state().dropped
        self.set_model(project, MV)
        run_dbt(["run"])
        assert self.rows(project) == [(1, "a"), (2, "b"), (3, "c")]

    def test_a_shard_stays_readable_while_its_table_is_built_and_if_that_fails(self, project):
        run_dbt(["run"])
        self.set_model(
            project,
            "{{ config(materialized='table') }} select id / 0 as id, name from {{ ref('source_rows') }}",
        )
        run_dbt(["run", "--select", "mv"], expect_pass=False)
        assert self.rows(project) == [(1, "a"), (2, "b"), (3, "c")]

    def test_a_table_stays_readable_if_its_shard_cannot_be_made(self, project):
        self.set_model(project, MV.replace("self_correcting_mv", "table"))
        run_dbt(["run"])
        self.set_model(project, MV.replace("select id", "select id / 0 as id"))
        run_dbt(["run", "--select", "mv"], expect_pass=False)
        assert self.rows(project) == [(1, "a"), (2, "b"), (3, "c")]

    @pytest.mark.seldom
    def test_the_view_is_published_when_another_run_left_it_behind(self, project):
        self.set_model(project, configured(file_format="view"))
        run_dbt(["run", "--full-refresh"])
        view = project.run_sql(f"show create table {project.test_schema}.mv", fetch="one")[0]
        self.set_source(project, "select * from values (7, 'g') as t(id, name)")
        run_dbt(["run"])
        replaced = (
            view.replace("CREATE VIEW", "CREATE OR REPLACE VIEW").replace("{", "{{").replace("}", "}}")
        )  # dbt formats the text
        project.run_sql(replaced)  # as a slower run would have
        assert len(self.rows(project)) == 3
        run_dbt(["run"])
        assert self.rows(project) == [(7, "g")]

    def test_docs_show_statistics(self, project):
        run_dbt(["run", "--full-refresh"])
        run_dbt(["docs", "generate"])
        catalog = json.loads((Path(project.project_root) / "target" / "catalog.json").read_text())
        stats = {name: entry["value"] for name, entry in catalog["nodes"]["model.test.mv"]["stats"].items()}
        assert (
            stats["rows"] == 3
            and stats["bytes"] > 0
            and stats["upper"].startswith("20")
            and stats["since"].startswith("20")
        )

    def test_dbt_show_reads_the_shard(self, project):
        run_dbt(["run", "--full-refresh"])
        _, out = run_dbt_and_capture(["show", "--inline", "select count(*) as n from {{ ref('mv') }}"])
        assert "| 3 |" in out

    def test_a_unit_test_of_a_maintained_model(self, project):
        write_file(
            """
unit_tests:
  - name: keeps_rows
    model: mv
    given: [{input: ref('source_rows'), rows: [{id: 1, name: x}]}]
    expect: {rows: [{id: 1, name: x}]}
""",
            project.project_root, "models", "unit.yml",
        )  # fmt: skip
        run_dbt(["run"])
        assert [r.status for r in run_dbt(["test", "--select", "test_type:unit"])] == ["pass"]


class TestOrphans(Base):
    def test_a_shard_whose_model_is_gone_is_reported_and_stays(self, project):
        write_file(MV, project.project_root, "models", "gone.sql")
        run_dbt(["run"])
        Path(project.project_root, "models", "gone.sql").unlink()
        _, out = run_dbt_and_capture(["run-operation", "mvsink_orphans"])
        assert "gone (model.test.gone is gone; shard " in out and "1 orphaned shards" in out
        assert len(self.rows(project, "gone")) == 3


class TestDefer(Base):
    @pytest.mark.usefixtures("manifest_json")
    def test_a_deferred_reference_is_no_change_of_the_definition(self, project):
        run_dbt(["run", "--full-refresh"])
        kept = self.state(project).properties["definition"]
        state = Path(project.project_root) / "state"
        state.mkdir()
        manifest = (Path(project.project_root) / "target" / "manifest.json").read_text()
        project.run_sql("create schema if not exists elsewhere")
        project.run_sql(f"create or replace view elsewhere.source_rows as {SOURCE}")
        (state / "manifest.json").write_text(manifest.replace(f'"{project.test_schema}', '"elsewhere'))
        run_dbt(["run", "--select", "mv", "--defer", "--favor-state", "--state", "state"])
        assert self.state(project).properties["definition"] == kept
        compiled = Path(project.project_root, "target/compiled/test/models/mv.sql")
        assert "elsewhere.source_rows" in compiled.read_text()
        project.run_sql("drop schema elsewhere cascade")
