"""`self_correcting_mv` against what dbt expects of materialized views.

In the catalog ours is a view: what makes it one of ours is the shard that its properties name.
"""

from __future__ import annotations

import pytest
from dbt.tests.adapter.materialized_view import files
from dbt.tests.adapter.materialized_view.basic import MaterializedViewBasic
from dbt.tests.util import get_connection, get_model_file, run_dbt, run_dbt_and_capture, set_model_file


def swap(project, relation, before, after):
    """Another materialization for a model."""
    text = get_model_file(project, relation)
    assert f"materialized='{before}'" in text
    set_model_file(project, relation, text.replace(f"materialized='{before}'", f"materialized='{after}'"))


class TestMaterializedViewBasic(MaterializedViewBasic):
    @pytest.fixture(scope="class", autouse=True)
    def models(self):
        """Our materialization in place of `materialized_view`."""
        return {
            "my_table.sql": files.MY_TABLE,
            "my_view.sql": files.MY_VIEW,
            "my_materialized_view.sql": files.MY_MATERIALIZED_VIEW.replace(
                "'materialized_view'", "'self_correcting_mv'"
            ),
        }

    (
        test_materialized_view_create_idempotent,
        test_materialized_view_replaces_table,
        test_materialized_view_replaces_view,
        test_table_replaces_materialized_view,
        test_view_replaces_materialized_view,
    ) = map(
        pytest.mark.seldom,
        (
            MaterializedViewBasic.test_materialized_view_create_idempotent,
            MaterializedViewBasic.test_materialized_view_replaces_table,
            MaterializedViewBasic.test_materialized_view_replaces_view,
            MaterializedViewBasic.test_table_replaces_materialized_view,
            MaterializedViewBasic.test_view_replaces_materialized_view,
        ),
    )

    @staticmethod
    def swap_table_to_materialized_view(project, table):
        swap(project, table, "table", "self_correcting_mv")

    @staticmethod
    def swap_view_to_materialized_view(project, view):
        swap(project, view, "view", "self_correcting_mv")

    @staticmethod
    def swap_materialized_view_to_table(project, materialized_view):
        swap(project, materialized_view, "self_correcting_mv", "table")

    @staticmethod
    def swap_materialized_view_to_view(project, materialized_view):
        swap(project, materialized_view, "self_correcting_mv", "view")

    @staticmethod
    def insert_record(project, table, record):
        project.run_sql(f"insert into {table} values {record}")

    @staticmethod
    def refresh_materialized_view(project, materialized_view):
        """A run is the refresh."""
        run_dbt(["run", "--models", materialized_view.identifier])

    @staticmethod
    def query_row_count(project, relation):
        return project.run_sql(f"select count(*) from {relation}", fetch="one")[0]

    @staticmethod
    def query_relation_type(project, relation):
        """From the catalog, past dbt's cache: a view that names a shard is ours."""
        adapter = project.adapter
        with get_connection(adapter):
            schema = adapter.Relation.create(schema=relation.schema).without_identifier()
            current = {r.identifier: r for r in adapter.list_relations_without_caching(schema)}.get(
                relation.identifier
            )
            if current is None:
                return None
            return "materialized_view" if adapter.mv_is_shard(current) else str(current.type)

    def test_materialized_view_full_refresh(self, project, my_materialized_view):
        """Our line of the log for a replacement: the shard's new generation."""
        _, logs = run_dbt_and_capture(
            ["--debug", "run", "--models", my_materialized_view.identifier, "--full-refresh"]
        )
        assert self.query_relation_type(project, my_materialized_view) == "materialized_view"
        assert "rebuilt: full refresh" in logs
