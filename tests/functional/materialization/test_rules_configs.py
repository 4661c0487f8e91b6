"""docs/configuration.md, the rows of the table of a `self_correcting_mv`; docs/design/dbt.md,
*Contracts*, *Hooks*, inherited configs. Through dbt, where no test was.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from tests.functional.materialization.base import MV, SOURCE, Base, configured
from tests.support.seldom import often, often_rows

T = 1_795_186_800_000
DAY = 86_400_000
WITH_NULL = "select * from values (1, 'a'), (null, 'b') as t(id, name)"


def at(time):
    return ["--vars", f"{{mvsink_run_time: {time}}}"]


class TestTable(Base):
    RETAIN = {
        "the default, 1 day": ({}, 2 * DAY, DAY + 1),
        "2 seconds": ({"retain_history": "2 seconds"}, DAY, DAY - 1999),
    }

    @pytest.mark.parametrize(("config", "later", "since"), **often_rows(RETAIN, "2 seconds"))
    def test_retain_history(self, project, config, later, since):
        self.set_model(project, configured(**config))
        run_dbt(["run", "--full-refresh", *at(T)])
        assert self.state(project).since.as_option() == T
        run_dbt(["run", *at(T + later)])
        assert self.state(project).since.as_option() == T + since

    @pytest.mark.parametrize("refresh", often(["on_commit", ["on_commit"]], ["on_commit"]))
    def test_refresh_on_commit(self, project, refresh):
        self.set_model(project, configured(refresh=refresh))
        run_dbt(["run", "--full-refresh"])
        self.set_source(project, WITH_NULL)
        run_dbt(["run"])
        assert len(self.rows(project)) == 2

    def test_assert_not_null_with_on_error_fail(self, project):
        run_dbt(["run", "--full-refresh"])
        before = self.state(project)
        self.set_source(project, WITH_NULL)
        self.set_model(project, configured(assert_not_null=["id"], on_error="fail"))
        results = run_dbt(["run"], expect_pass=False)
        assert 'column "id" must not be null' in results[-1].message
        assert self.state(project).files == before.files and len(self.rows(project)) == 3

    @pytest.mark.parametrize("shown", ["view", "delta"])
    def test_a_recorded_error_is_a_warning_and_goes_with_its_cause(self, project, shown):
        self.set_model(project, configured(file_format=shown))
        run_dbt(["run", "--full-refresh"])
        failing = "select cast(id div (id - 2) as int) as id"
        self.set_model(
            project, configured(on_error="record", file_format=shown).replace("select id", failing)
        )
        _, out = run_dbt_and_capture(["run"])
        if shown == "view":
            with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
                self.rows(project)
        else:
            assert "the table shows an earlier version, without errors: " in out
            assert self.rows(project) == [(1, "a"), (2, "b"), (3, "c")]
        self.set_model(project, configured(file_format=shown))
        _, out = run_dbt_and_capture(["run"])
        assert "+0 -0 (errors +0 -1) at" in out and len(self.rows(project)) == 3

    def test_an_analysis_error_is_never_recorded(self, project):
        run_dbt(["run", "--full-refresh"])
        self.set_model(project, configured(on_error="record").replace("select id", "select nope as id"))
        results = run_dbt(["run", "--select", "mv"], expect_pass=False)
        assert "UNRESOLVED_COLUMN" in results[0].message and len(self.rows(project)) == 3

    @pytest.mark.seldom
    def test_on_schema_change_a_narrower_type_is_a_new_generation(self, project):
        self.set_model(project, MV.replace("select id", "select cast(id as bigint) as id"))
        run_dbt(["run", "--full-refresh"])
        before = self.state(project).generation
        self.set_model(project, MV.replace("select id", "select cast(id as smallint) as id"))
        _, out = run_dbt_and_capture(["run"])
        assert "rebuilt: columns changed (`id` was bigint, is smallint)" in out
        assert self.state(project).generation == before + 1 and len(self.rows(project)) == 3

    @pytest.mark.seldom
    def test_on_schema_change_ignore_means_the_default(self, project):
        run_dbt(["run", "--full-refresh"])
        self.set_model(project, configured(on_schema_change="ignore").replace("select id,", "select"))
        run_dbt(["run"])
        assert self.rows(project) == [("a",), ("b",), ("c",)]
        run_dbt(["run", "--full-refresh"])


class TestRefused(Base):
    REFUSED = {
        "refresh_interval": ({"refresh_interval": "1 hour"}, "`refresh`"),
        "schedule": ({"schedule": "1 hour"}, "`refresh`"),
        "target_lag": ({"target_lag": "1 hour"}, "`refresh`"),
        "two letters off": ({"retain_histroy": "1 day"}, "did you mean `retain_history`"),
        "one letter off": ({"assert_not_nul": ["id"]}, "did you mean `assert_not_null`"),
        "up_to": ({"up_to": 5}, "up_to"),
        "read_only as text": ({"read_only": "yes"}, "true or false"),
    }

    @pytest.mark.parametrize(("config", "message"), REFUSED.values(), ids=REFUSED)
    def test_configs_that_are_refused_by_name(self, project, config, message):
        self.set_model(project, configured(**config))
        run_dbt(["run", "--select", "source_rows"])
        results = run_dbt(["run", "--select", "mv"], expect_pass=False)
        [key] = config
        assert (
            ".mv" in results[0].message and f"`{key}`" in results[0].message and message in results[0].message
        )

    @pytest.mark.seldom
    def test_configs_of_spark_tables_are_ignored_quietly(self, project):
        quiet = configured(
            file_format="delta", location_root="/nowhere", options={"a": "b"}, tblproperties={"c": "d"}
        )
        self.set_model(project, quiet)
        _, out = run_dbt_and_capture(["run", "--full-refresh"])
        assert "are ignored" not in out and len(self.rows(project)) == 3

    def test_or_with_one_warning(self, project):
        loud = configured(
            partition_by="id", clustered_by="id", buckets=2, unique_key="id", incremental_strategy="append"
        )
        self.set_model(project, loud)
        _, out = run_dbt_and_capture(["run", "--full-refresh"])
        assert out.count("are ignored:") == 1
        assert "mv (partition_by, clustered_by, buckets, unique_key, incremental_strategy)" in out


class TestContracts(Base):
    CONTRACT = """
models:
  - name: mv
    config: {contract: {enforced: true}%s}
    constraints: [%s]
    columns:
      - {name: id, data_type: int, constraints: [{type: not_null}]}
      - {name: name, data_type: string}
"""

    @pytest.fixture(autouse=True)
    def no_contract(self, project):
        yield
        Path(project.project_root, "models", "schema.yml").unlink(missing_ok=True)

    def contract(self, project, constraints="", more=""):
        write_file(self.CONTRACT % (more, constraints), project.project_root, "models", "schema.yml")

    @pytest.mark.seldom
    def test_a_violation_may_be_recorded_where_the_model_says_so(self, project):
        self.contract(project, more=", on_error: record, file_format: view")
        run_dbt(["run", "--full-refresh"])
        self.set_source(project, WITH_NULL)
        _, out = run_dbt_and_capture(["run"])
        assert "1 rows break an assertion" in out
        with pytest.raises(Exception, match='column "id" must not be null'):
            self.rows(project)
        self.set_source(project, SOURCE)
        run_dbt(["run"])
        assert len(self.rows(project)) == 3

    def test_a_violation_on_first_load_leaves_no_view(self, project):
        self.contract(project)
        self.set_source(project, WITH_NULL)
        self.set_model(project, configured(alias="first"))
        run_dbt(["run"], expect_pass=False)
        assert "first" not in [
            row[1] for row in project.run_sql(f"show tables in {project.test_schema}", fetch="all")
        ]

    def test_another_type_than_the_contracts_fails_before_anything_runs(self, project):
        run_dbt(["run", "--full-refresh"])
        before = self.state(project)
        self.contract(project)
        self.set_model(
            project, configured(pre_hook="no SQL").replace("select id", "select cast(id as string) as id")
        )
        results = run_dbt(["run", "--select", "mv"], expect_pass=False)
        assert "enforced contract" in results[0].message and self.state(project) == before

    NOT_ENFORCED = {
        "unique": "{type: unique, columns: [id]}",
        "primary_key": "{type: primary_key, columns: [id]}",
        "foreign_key": "{type: foreign_key, columns: [id], to: source_rows, to_columns: [id]}",
    }

    @pytest.mark.parametrize("kind", often(NOT_ENFORCED, "primary_key"))
    def test_unique_and_keys_are_not_enforced(self, project, kind):
        self.set_source(project, "select * from values (1, 'a'), (1, 'b') as t(id, name)")
        self.contract(project, self.NOT_ENFORCED[kind].replace("source_rows", "ref('source_rows')"))
        run_dbt(["run", "--full-refresh"])
        assert len(self.rows(project)) == 2

    def test_unique_and_keys_give_a_warning_of_ours(self, project):
        self.contract(project, self.NOT_ENFORCED["unique"])
        _, out = run_dbt_and_capture(["run", "--full-refresh", "--select", "mv", "source_rows"])
        warnings = [
            line for line in out.splitlines() if "unique" in line and "not enforced" in line and "mv" in line
        ]
        assert [line for line in warnings if "While constructing" not in line]


FED = "create or replace view {{ this.schema }}.fed as select %s as id"
HOOKED = """{{ config(materialized='self_correcting_mv',
  pre_hook=[{'sql': "%(first)s", 'transaction': true}, {'sql': "%(second)s", 'transaction': false}],
  post_hook=[
    {'sql': "insert into {{ this.schema }}.hook_log select concat('in ', sum(id)) from {{ this }}", 'transaction': true},
    {'sql': "insert into {{ this.schema }}.hook_log select concat('after ', sum(id)) from {{ this }}", 'transaction': false}]) }}
select id from {{ target.schema }}.fed"""


class TestHooks(Base):
    def hooked(self, project, first, second):
        self.set_model(project, HOOKED % {"first": FED % first, "second": FED % second})

    def hook_log(self, project):
        return sorted(
            row[0] for row in project.run_sql(f"select * from {project.test_schema}.hook_log", fetch="all")
        )

    def test_all_pre_hooks_before_reading_and_all_post_hooks_after_publishing(self, project):
        """Whatever their `transaction`; also when nothing changed."""
        project.run_sql(f"create table {project.test_schema}.hook_log (what string)")
        self.hooked(project, 1, 2)
        run_dbt(["run", "--select", "mv", "--full-refresh"])
        assert (self.rows(project), self.hook_log(project)) == ([(2,)], ["after 2", "in 2"])
        self.hooked(project, 3, 4)
        run_dbt(["run", "--select", "mv"])
        assert (self.rows(project), self.hook_log(project)) == (
            [(4,)],
            ["after 2", "after 4", "in 2", "in 4"],
        )
        _, out = run_dbt_and_capture(["run", "--select", "mv"])
        assert "+0 -0 at" in out and len(self.hook_log(project)) == 6

    def test_a_failing_pre_hook_leaves_the_shard(self, project):
        run_dbt(["run", "--full-refresh"])
        before = self.state(project)
        self.set_model(project, configured(pre_hook="no SQL"))
        results = run_dbt(["run", "--select", "mv"], expect_pass=False)
        assert "PARSE_SYNTAX_ERROR" in results[0].message and self.state(project) == before

    GRANTED = {"select": ["a_user"]}

    def test_grants_that_spark_does_not_have_are_refused_before_anything_is_written(self, project):
        run_dbt(["run", "--full-refresh"])
        before = self.state(project)
        self.set_source(project, "select * from values (7, 'new') as t(id, name)")
        self.set_model(project, configured(grants=self.GRANTED, pre_hook="no SQL"))
        write_file(configured(grants=self.GRANTED), project.project_root, "models", "granted.sql")
        results = run_dbt(["run", "--select", "source_rows", "mv", "granted"], expect_pass=False)
        Path(project.project_root, "models", "granted.sql").unlink()
        for each in results[1:]:
            assert "config `grants`" in each.message and "unsupported_grants: skip" in each.message
            assert "42601" in each.message and "got {'select': ['a_user']}" in each.message
        assert self.state(project) == before
        shards = project.adapter.config.credentials.shards
        assert not Path(shards, project.test_schema, "granted").exists()

    def test_grants_are_skipped_with_one_warning_if_the_profile_says_so(self, project):
        profiles = Path(project.profiles_dir, "profiles.yml")
        text = profiles.read_text()
        write_file(
            "{{ config(materialized='table', grants={'select': ['a_user']}) }} select 1 as x",
            project.project_root,
            "models",
            "built.sql",
        )
        self.set_source(project, SOURCE)
        self.set_model(project, configured(grants=self.GRANTED))
        try:
            profiles.write_text(text.replace("type: mvsink", "type: mvsink\n      unsupported_grants: skip"))
            _, out = run_dbt_and_capture(["run", "--select", "source_rows", "mv", "built"])
            run_dbt(["--warn-error", "run", "--select", "mv"], expect_pass=False)
        finally:
            profiles.write_text(text)
            Path(project.project_root, "models", "built.sql").unlink()
        assert out.count("grants are skipped, because this Spark has none") == 1
        assert len(self.rows(project)) == 3
        assert project.run_sql(f"select x from {project.test_schema}.built", fetch="one")[0] == 1


class TestPackages(Base):
    START = {"mv.sql": MV.replace("select id", "select '{{ target.type }}' as kind, id")}

    def test_target_type_is_mvsink(self, project):
        run_dbt(["run", "--full-refresh"])
        assert {row[0] for row in self.rows(project)} == {"mvsink"}
