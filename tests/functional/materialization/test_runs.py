"""A `self_correcting_mv` through dbt: what each run says and does."""

from __future__ import annotations

import json
from typing import ClassVar

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.shard import ShardClient
from dbt.adapters.mvsink.sink.run_history import BUCKETS
from tests.functional.materialization.base import MV, SOURCE, Base, configured


class TestRuns(Base):
    def test_first_second_and_changed_run(self, project):
        run_dbt(["run"])
        assert self.rows(project) == [(1, "a"), (2, "b"), (3, "c")]
        before = self.state(project)
        _, out = run_dbt_and_capture(["run"])
        after = self.state(project)
        assert "+0 -0 at " in out
        assert (after.files, after.version) == (before.files, before.version + 1)
        self.set_source(project, "select * from values (1, 'a'), (2, 'B'), (4, 'd') as t(id, name)")
        run_dbt(["run"])
        response = self.last(project)
        assert (
            response["rows_inserted"],
            response["rows_deleted"],
            response["rows_affected"],
            response["kind"],
        ) == (
            2,
            2,
            4,
            "append",
        )
        assert response["lower"] == after.upper.as_option() and response["upper"] > response["lower"]
        assert self.rows(project) == [(1, "a"), (2, "B"), (4, "d")]

    def test_the_log_line(self, project):
        run_dbt(["run", "--full-refresh"])
        self.set_source(project, "select * from values (1, 'a'), (2, 'B') as t(id, name)")
        _, out = run_dbt_and_capture(["run"])
        assert "+1 -2 at 20" in out

    def test_run_time_is_given_and_mv_now_is_it(self, project):
        self.set_model(
            project,
            "{{ config(materialized='self_correcting_mv') }} select unix_millis({{ mv_now() }}) as now",
        )
        run_dbt(["run", "--full-refresh", "--vars", "{mvsink_run_time: '2026-11-20T15:00:00Z'}"])
        assert self.rows(project) == [(1795186800000,)]
        assert self.last(project)["upper"] == 1795186800001
        _, out = run_dbt_and_capture(["run", "--vars", "{mvsink_run_time: '2026-11-20T14:00:00Z'}"])
        assert "up to date until 2026-11-20T15:00:00.001Z" in out
        with pytest.raises(DbtRuntimeError, match="noon'\n.*ISO 8601"):
            run_dbt(["run", "--vars", "{mvsink_run_time: noon}"])
        run_dbt(["ls"])

    def test_a_variable_that_is_nearly_ours_is_refused_before_anything_runs(self, project):
        run_dbt(["run", "--full-refresh"])
        before = self.state(project)
        with pytest.raises(DbtRuntimeError, match="Did you mean `mvsink_read_only`"):
            run_dbt(["run", "--vars", "{read_only: true}"])
        run_dbt(["ls"])  # dbt has an adapter again
        assert self.state(project) == before

    def test_read_only_by_var_writes_nothing(self, project):
        run_dbt(["run", "--full-refresh"])
        before = self.state(project)
        self.set_source(project, "select * from values (9, 'z') as t(id, name)")
        run_dbt(["run", "--select", "source_rows"])
        _, out = run_dbt_and_capture(["run", "--select", "mv", "--vars", "{mvsink_read_only: true}"])
        assert "read-only: would write +1 -3" in out
        assert self.state(project) == before and len(self.rows(project)) == 3

    def test_read_only_refuses_what_would_be_rebuilt(self, project):
        run_dbt(["run", "--full-refresh"])
        self.set_source(project, "{{ config(materialized='table') }}" + SOURCE)
        results = run_dbt(
            ["run", "--select", "source_rows", "--vars", "{mvsink_read_only: true}"], expect_pass=False
        )
        assert "read-only: would rebuild" in results[0].message and "(table)" in results[0].message

    def test_full_refresh_is_a_new_generation(self, project):
        run_dbt(["run", "--full-refresh"])
        before = self.state(project)
        _, out = run_dbt_and_capture(["run", "--full-refresh", "--select", "mv"])
        assert "rebuilt: full refresh" in out
        assert self.state(project).generation == before.generation + 1
        assert len(self.rows(project)) == 3

    @pytest.mark.seldom
    def test_a_failing_query_leaves_the_table(self, project):
        run_dbt(["run", "--full-refresh"])
        before = self.state(project)
        self.set_model(
            project,
            "{{ config(materialized='self_correcting_mv') }} select id / (id - 1) as id, name from {{ ref('source_rows') }}",
        )
        results = run_dbt(["run", "--select", "mv", "--full-refresh"], expect_pass=False)
        assert "DIVIDE_BY_ZERO" in results[0].message
        assert self.state(project).files == before.files and len(self.rows(project)) == 3

    @pytest.mark.seldom
    def test_columns_may_change(self, project):
        run_dbt(["run", "--full-refresh"])
        self.set_model(
            project,
            "{{ config(materialized='self_correcting_mv') }} select name, id, id * 2 as twice from {{ ref('source_rows') }}",
        )
        _, out = run_dbt_and_capture(["run"])
        assert "+3 -3 at" in out and "; columns added: twice int" in out
        assert self.rows(project)[0] == ("a", 1, 2)

    def test_columns_must_not_change(self, project):
        run_dbt(["run", "--full-refresh"])
        self.set_model(
            project,
            "{{ config(materialized='self_correcting_mv', on_schema_change='fail') }} select id from {{ ref('source_rows') }}",
        )
        results = run_dbt(["run", "--select", "mv"], expect_pass=False)
        assert "`name` is gone" in results[0].message and "mv" in results[0].message

    @pytest.mark.seldom
    def test_append_new_columns_keeps_the_old_ones(self, project):
        run_dbt(["run", "--full-refresh"])
        self.set_model(
            project,
            "{{ config(materialized='self_correcting_mv', on_schema_change='append_new_columns') }} select id, 1 as one from {{ ref('source_rows') }}",
        )
        run_dbt(["run", "--select", "mv"])
        # new columns come last
        assert self.rows(project) == [(1, None, 1), (2, None, 1), (3, None, 1)]
        self.set_model(project, MV)
        run_dbt(["run", "--select", "mv", "--full-refresh"])

    @pytest.mark.seldom
    def test_a_table_becomes_a_shard_and_back(self, project):
        run_dbt(["run", "--full-refresh"])
        self.set_model(project, MV.replace("self_correcting_mv", "table"))
        run_dbt(["run"])
        assert len(self.rows(project)) == 3
        self.set_model(project, MV)
        _, out = run_dbt_and_capture(["run"])
        assert "rebuilt: dropped before" in out and len(self.rows(project)) == 3

    def test_a_view_dropped_by_hand_is_published_again(self, project):
        self.set_model(project, configured(file_format="view"))
        run_dbt(["run", "--full-refresh"])
        project.run_sql(f"drop view {project.test_schema}.mv")
        _, out = run_dbt_and_capture(["run"])
        assert "view republished" in out and len(self.rows(project)) == 3

    def test_empty_checks_and_does_not_write(self, project):
        run_dbt(["run", "--full-refresh"])
        before = self.state(project)
        _, out = run_dbt_and_capture(["run", "--empty"])
        assert "empty: checked, nothing written" in out
        assert self.state(project) == before
        run_dbt(["run"])
        assert len(self.rows(project)) == 3

    def test_it_cannot_read_itself(self, project):
        self.set_model(project, "{{ config(materialized='self_correcting_mv') }} select * from {{ this }}")
        results = run_dbt(["run", "--select", "mv"], expect_pass=False)
        assert "cannot read itself" in results[0].message

    def test_row_h_nor_through_a_view_of_the_catalog(self, project):
        run_dbt(["run"])
        view, over = f"{project.test_schema}.own_rows", f"{project.test_schema}.rows_below"
        project.run_sql(f"create view {over} as select * from {project.test_schema}.mv")
        project.run_sql(f"create view {view} as select id from {over} where id > 1")
        before = self.state(project)
        self.set_model(project, f"{MV} where id in (select id from {view})")
        results = run_dbt(["run", "--select", "mv"], expect_pass=False)
        assert "cannot read itself, which it does through the view" in results[0].message
        assert f"{view} and then spark_catalog.{over};" in results[0].message
        assert self.state(project) == before
        self.set_model(project, MV)
        run_dbt(["run", "--select", "mv"])
        for each in (view, over):
            project.run_sql(f"drop view {each}")

    def test_a_wrong_config_names_model_option_given_and_allowed(self, project):
        self.set_model(project, MV.replace("_mv'", "_mv', retain_history='1 month'"))
        results = run_dbt(["run", "--select", "mv"], expect_pass=False)
        for part in (".mv", "`retain_history`", "'1 month'", "ms, seconds, minutes"):
            assert part in results[0].message

    def test_a_nondeterministic_function_is_a_warning(self, project):
        self.set_model(project, MV.replace("select id", "select rand() as r, id"))
        _, out = run_dbt_and_capture(["run", "--full-refresh"])
        assert "rand()" in out and "mv_now()" in out

    def test_an_unsupported_type_is_refused_by_name(self, project):
        self.set_model(
            project, "{{ config(materialized='self_correcting_mv') }} select parse_json('1') as payload"
        )
        results = run_dbt(["run", "--select", "mv"], expect_pass=False)
        assert "`payload` has type variant" in results[0].message


class TestInputChanges(Base):
    """What a run knows of its inputs before it evaluates the query."""

    START: ClassVar[dict[str, str]] = {
        "base.sql": MV,
        "mv.sql": "{{ config(materialized='self_correcting_mv', incremental='never') }} select * from {{ ref('base') }}",
    }

    def test_a_large_table_is_compared_by_how_many_rows_of_its_inputs_changed(self, project, monkeypatch):
        monkeypatch.setattr(limits, "COMPARED_WHOLE", 0)
        run_dbt(["run", "--full-refresh"])
        self.set_source(project, SOURCE.replace("'c'", "'x'"))
        run_dbt(["run"])
        with ShardClient().open_reader(self.uri(project)) as reader:
            note = next(commit.note for commit in reversed(reader.history(9)) if commit.note.mode)
        assert (note.input_changes, note.way, note.why) == (2, BUCKETS, "never")
        assert self.rows(project) == [(1, "a"), (2, "b"), (3, "x")]


class TestOwner(Base):
    def test_another_owner_is_refused_unless_it_adopts(self, project):
        run_dbt(["run", "--full-refresh"])
        owner = {"project": "other", "target": "prod", "unique_id": "model.other.mv"}
        self.writer(project).set_properties({"owner": json.dumps(owner, sort_keys=True)})
        results = run_dbt(["run", "--select", "mv"], expect_pass=False)
        assert (
            "model.other.mv of project other, target prod" in results[0].message
            and "adopt: true" in results[0].message
        )
        self.set_model(project, MV.replace("_mv'", "_mv', adopt=true"))
        run_dbt(["run", "--select", "mv"])
        assert len(self.rows(project)) == 3


class TestDocsAndHooks(Base):
    START = {
        "mv.sql": MV.replace(
            "_mv'",
            "_mv', persist_docs={'relation': true, 'columns': true}, "
            "pre_hook={'sql': \"create table if not exists {{ this.schema }}.log as select 'pre' as what\", 'transaction': false}, "
            "post_hook=\"insert into {{ this.schema }}.log select concat(count(*), ' rows') from {{ this }}\"",
        ),
        "schema.yml": "models: [{name: mv, description: \"it's 'the' view\", columns: [{name: id, description: the key}]}]",
    }

    @pytest.mark.seldom
    def test_hooks_run_before_reading_and_after_publishing(self, project):
        run_dbt(["run", "--full-refresh"])
        run_dbt(["run"])
        assert self.rows(project, "log") == [("3 rows",), ("3 rows",), ("pre",)]

    def test_comments_are_written_and_what_people_add_survives(self, project):
        self.set_model(project, self.START["mv.sql"].replace("_mv'", "_mv', file_format='view'"))
        run_dbt(["run", "--full-refresh"])
        project.run_sql(f"alter view {project.test_schema}.mv set tblproperties ('team' = 'blue')")
        self.set_source(project, "select * from values (5, 'e') as t(id, name)")
        run_dbt(["run"])
        described = [
            tuple(r) for r in project.run_sql(f"describe extended {project.test_schema}.mv", fetch="all")
        ]
        assert ("id", "int", "the key") in described and ("Comment", "it's 'the' view", "") in described
        properties = dict(
            map(tuple, project.run_sql(f"show tblproperties {project.test_schema}.mv", fetch="all"))
        )
        assert properties["team"] == "blue"


class TestContract(Base):
    START = {
        "mv.sql": MV,
        "schema.yml": """
models:
  - name: mv
    config: {contract: {enforced: true}}
    constraints: [{type: check, name: positive, expression: "id > 0"}]
    columns:
      - {name: name, data_type: string}
      - {name: id, data_type: int, constraints: [{type: not_null}]}
""",
    }

    @pytest.mark.parametrize(
        ("bad", "message"),
        [
            ("null", 'column "id" must not be null'),
            pytest.param("-1", "check constraint positive is violated", marks=pytest.mark.seldom),
        ],
    )
    def test_constraints_fail_the_model_and_the_old_contents_stay(self, project, bad, message):
        run_dbt(["run", "--full-refresh"])
        assert self.rows(project)[0] == ("a", 1)  # in the contract's order
        self.set_source(project, f"select * from values (1, 'a'), ({bad}, 'x') as t(id, name)")
        run_dbt(["run", "--select", "source_rows"])
        results = run_dbt(["run", "--select", "mv"], expect_pass=False)
        assert message in results[0].message
        assert len(self.rows(project)) == 3
