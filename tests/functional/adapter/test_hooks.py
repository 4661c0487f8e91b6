"""Hooks of runs, models, seeds and snapshots."""

from __future__ import annotations

import os

import pytest
from dbt.tests.adapter.hooks.test_model_hooks import (
    MODEL_POST_HOOK,
    MODEL_PRE_HOOK,
    BaseDuplicateHooksInConfigs,
    BaseHookRefs,
    BaseHooksRefsOnSeeds,
    BasePrePostModelHooks,
    BasePrePostModelHooksInConfig,
    BasePrePostModelHooksInConfigKwargs,
    BasePrePostModelHooksInConfigWithCount,
    BasePrePostModelHooksOnSeeds,
    BasePrePostModelHooksOnSeedsPlusPrefixed,
    BasePrePostModelHooksOnSeedsPlusPrefixedWhitespace,
    BasePrePostModelHooksOnSnapshots,
    BasePrePostSnapshotHooksInConfigKwargs,
)
from dbt.tests.adapter.hooks.test_run_hooks import BaseAfterRunHooks, BasePrePostRunHooks

from tests.functional.adapter.spelling import Delta

FIELDS = (
    "test_state",
    "target_dbname",
    "target_host",
    "target_name",
    "target_schema",
    "target_type",
    "target_user",
    "target_pass",
    "target_threads",
    "run_started_at",
    "invocation_id",
    "thread_id",
)
EXPECTED = {
    "target_dbname": "",
    "target_name": "default",
    "target_type": "mvsink",
    "target_user": "",
    "target_pass": "",
    "target_threads": 1,
}


def create(project, table):
    """The table that hooks write to."""
    columns = ", ".join(f"{field} {'int' if field == 'target_threads' else 'string'}" for field in FIELDS)
    project.run_sql(f"drop table if exists {project.test_schema}.{table}")
    project.run_sql(f"create table {project.test_schema}.{table} ({columns})")


def rows(project, table, state):
    """What the hooks wrote, a dictionary a row."""
    query = f"select {', '.join(FIELDS)} from {project.test_schema}.{table} where test_state = '{state}'"
    return [dict(zip(FIELDS, row)) for row in project.run_sql(query, fetch="all")]


def check(hooks, project, state):
    """This profile's values, where the base has those of its Postgres profile."""
    for row in hooks:
        assert {field: row[field] for field in EXPECTED} == EXPECTED
        assert (row["test_state"], row["target_schema"]) == (state, project.test_schema)
        assert row["target_host"] in ("", "None")  # the embedded session has none
        assert row["run_started_at"] and row["invocation_id"]
        assert row["thread_id"].startswith("Thread-") or row["thread_id"] == "MainThread"


class ModelHooks:
    @pytest.fixture(scope="class", autouse=True)
    def setUp(self, project):
        """The base reads a Postgres script from a file of its own repository."""
        create(project, "on_model_hook")

    def check_hooks(self, state, project, host, count=1):
        """See `check`."""
        hooks = rows(project, "on_model_hook", state)
        assert len(hooks) == count
        check(hooks, project, state)


class TestPrePostModelHooks(ModelHooks, BasePrePostModelHooks):
    pass


class TestPrePostModelHooksUnderscores(ModelHooks, BasePrePostModelHooks):
    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"models": {"test": {"pre_hook": [MODEL_PRE_HOOK], "post_hook": [MODEL_POST_HOOK]}}}


class TestHookRefs(ModelHooks, BaseHookRefs):
    pass


class TestPrePostModelHooksInConfig(ModelHooks, BasePrePostModelHooksInConfig):
    pass


class TestPrePostModelHooksInConfigWithCount(ModelHooks, BasePrePostModelHooksInConfigWithCount):
    pass


class TestPrePostModelHooksInConfigKwargs(ModelHooks, BasePrePostModelHooksInConfigKwargs):
    pass


class TestDuplicateHooksInConfigs(BaseDuplicateHooksInConfigs):
    pass


class TestHooksRefsOnSeeds(BaseHooksRefsOnSeeds):
    pass


class TestPrePostModelHooksOnSeeds(Delta, BasePrePostModelHooksOnSeeds):
    pass


class TestPrePostModelHooksOnSeedsPlusPrefixed(Delta, BasePrePostModelHooksOnSeedsPlusPrefixed):
    pass


class TestPrePostModelHooksOnSeedsPlusPrefixedWhitespace(
    Delta, BasePrePostModelHooksOnSeedsPlusPrefixedWhitespace
):
    pass


class TestPrePostModelHooksOnSnapshots(Delta, BasePrePostModelHooksOnSnapshots):
    pass


class TestPrePostSnapshotHooksInConfigKwargs(Delta, BasePrePostSnapshotHooksInConfigKwargs):
    pass


class TestAfterRunHooks(BaseAfterRunHooks):
    pass


class TestPrePostRunHooks(BasePrePostRunHooks):
    @pytest.fixture(scope="function")
    def setUp(self, project):
        """The base reads a Postgres script from a file of its own repository."""
        create(project, "on_run_hook")
        for table in ("schemas", "db_schemas"):
            project.run_sql(f"drop table if exists {project.test_schema}.{table}")
        os.environ["TERM_TEST"] = "TESTING"

    @pytest.fixture(scope="class")
    def project_config_update(self):
        """The base's hooks, with STRING for TEXT, and NULL where a Spark schema has no database."""
        hooks = {
            point: [
                f"{{{{ custom_run_hook('{point}', target, run_started_at, invocation_id) }}}}",
                f"create table {{{{ target.schema }}}}.{point}_hook_order_test (id int)",
                f"drop table {{{{ target.schema }}}}.{point}_hook_order_test",
            ]
            for point in ("start", "end")
        }
        values = "{% for db, schema in database_schemas %}({{ 'null' if db is none else db }}, '{{ schema }}'){{ ',' if not loop.last }}{% endfor %}"
        return {
            "on-run-start": [*hooks["start"], "{{ log(env_var('TERM_TEST'), info=True) }}"],
            "on-run-end": [
                *hooks["end"],
                "create table {{ target.schema }}.schemas (schema string)",
                "insert into {{ target.schema }}.schemas values {% for schema in schemas %}('{{ schema }}'){{ ',' if not loop.last }}{% endfor %}",
                "create table {{ target.schema }}.db_schemas (db string, schema string)",
                "insert into {{ target.schema }}.db_schemas values " + values,
            ],
        }

    def check_hooks(self, state, project, host):
        """See `check`."""
        hooks = rows(project, "on_run_hook", state)
        assert len(hooks) == 1
        check(hooks, project, state)
