"""`dbt clone` (Delta's shallow clones), `dbt show` and `dbt debug`."""

from __future__ import annotations

from collections import Counter

import pytest
from dbt.tests.adapter.dbt_clone.test_dbt_clone import (
    BaseCloneNotPossible,
    BaseClonePossible,
    BaseCloneSameTargetAndState,
)
from dbt.tests.adapter.dbt_debug.test_dbt_debug import (
    BaseDebugInvalidProjectPostgres,
    BaseDebugPostgres,
    BaseDebugProfileVariable,
)
from dbt.tests.adapter.dbt_show.test_dbt_show import (
    BaseShowDoesNotHandleDoubleLimit,
    BaseShowLimit,
    BaseShowSqlHeader,
)
from dbt.tests.util import run_dbt

from tests.functional.adapter.spelling import Delta

ARTIFACTS = True


class CleanUp:
    @pytest.fixture(autouse=True)
    def clean_up(self, project, other_schema):
        """The schemas that a test makes beside its own."""
        yield
        for schema in (other_schema, f"{project.test_schema}_seeds", project.test_schema):
            project.run_sql(f"drop schema if exists {schema} cascade")


class TestClonePossible(CleanUp, Delta, BaseClonePossible):
    def test_can_clone_true(self, project, unique_schema, other_schema):
        """Without the base's second clone onto the same tables: open-source Delta refuses to clone
        onto rows.
        """
        project.create_test_schema(other_schema)
        self.run_and_save_state(project.project_root, with_snapshot=True)
        clone = ["clone", "--state", "state", "--target", "otherschema"]
        assert len(run_dbt(clone)) == 4
        relations = project.adapter.list_relations(database=project.database, schema=other_schema)
        assert Counter(relation.type for relation in relations) == Counter({"table": 3, "view": 1})
        assert ["no-op" in result.message.lower() for result in run_dbt(clone)] == [True] * 4
        again = run_dbt([*clone, "--resource-type", "model"])
        assert ["no-op" in result.message.lower() for result in again] == [True] * 2


class TestCloneNotPossible(CleanUp, Delta, BaseCloneNotPossible):
    def test_can_clone_false(self, project, unique_schema, other_schema):
        super().test_can_clone_false(project, unique_schema, other_schema)


class TestCloneSameTargetAndState(CleanUp, Delta, BaseCloneSameTargetAndState):
    pass


class TestShowLimit(BaseShowLimit):
    pass


class TestShowSqlHeader(BaseShowSqlHeader):
    pass


class TestShowDoesNotHandleDoubleLimit(BaseShowDoesNotHandleDoubleLimit):
    DATABASE_ERROR_MESSAGE = "PARSE_SYNTAX_ERROR"  # Spark's name of it


class TestDebug(BaseDebugPostgres):
    pass


class TestDebugProfileVariable(BaseDebugProfileVariable):
    pass


class TestDebugInvalidProject(BaseDebugInvalidProjectPostgres):
    pass
