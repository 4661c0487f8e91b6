"""Documentation that is kept in the database, and the catalog.

Comments are read with DESCRIBE: dbt-spark's catalog has none. It writes a table's column comments
on Delta only.
"""

from __future__ import annotations

import pytest
import yaml
from dbt.tests.adapter.catalog.relation_types import CatalogRelationTypes
from dbt.tests.adapter.persist_docs.fixtures import _PROPERTIES__QUOTE_MODEL
from dbt.tests.adapter.persist_docs.test_persist_docs import (
    BasePersistDocs,
    BasePersistDocsAllColumnsMissing,
    BasePersistDocsColumnMissing,
    BasePersistDocsCommentOnQuotedColumn,
    BasePersistDocsQuotedColumnCaseSensitive,
    BasePersistDocsQuotedDescriptionNotAppliedOnMismatch,
)
from dbt.tests.util import run_dbt

from tests.functional.adapter.spelling import Delta


def described(project, name):
    """A relation as the base's assertions want it: with its comment, and its columns' comments."""
    rows = [
        tuple(row) for row in project.run_sql(f"describe extended {project.test_schema}.{name}", fetch="all")
    ]
    end = next(i for i, row in enumerate(rows) if not row[0] or row[0].startswith("#"))
    return {
        "metadata": {"comment": dict(row[:2] for row in rows[end:]).get("Comment") or None},
        "columns": {column: {"comment": comment} for column, _, comment in rows[:end]},
    }


class TestPersistDocs(Delta, BasePersistDocs):
    def test_has_comments_pglike(self, project):
        """As the base, from DESCRIBE."""
        self._assert_has_table_comments(described(project, "table_model"))
        self._assert_has_view_comments(described(project, "view_model"))
        self._assert_has_view_comments(described(project, "no_docs_model"), False, False)


class TestPersistDocsColumnMissing(Delta, BasePersistDocsColumnMissing):
    def test_missing_column(self, project):
        """As the base, from DESCRIBE."""
        comment = described(project, "missing_column")["columns"]["id"]["comment"]
        assert comment.startswith("test id column description")


class TestPersistDocsAllColumnsMissing(Delta, BasePersistDocsAllColumnsMissing):
    pass


class TestPersistDocsQuotedColumnCaseSensitive(Delta, BasePersistDocsQuotedColumnCaseSensitive):
    pass


class TestPersistDocsQuotedDescriptionNotAppliedOnMismatch(
    Delta, BasePersistDocsQuotedDescriptionNotAppliedOnMismatch
):
    pass


class TestPersistDocsCommentOnQuotedColumn(Delta, BasePersistDocsCommentOnQuotedColumn):
    @pytest.fixture(scope="class")
    def run_has_comments(self, project):
        """As the base, from DESCRIBE."""

        def run():
            run_dbt()
            [model] = yaml.safe_load(_PROPERTIES__QUOTE_MODEL)["models"]
            [column] = model["columns"]
            assert (
                described(project, "quote_model")["columns"][column["name"]]["comment"]
                == column["description"]
            )

        return run


class TestCatalogRelationTypes(CatalogRelationTypes):
    @pytest.fixture(scope="class", autouse=True)
    def models(self, request):
        """Our materialization in place of `materialized_view`."""
        from dbt.tests.adapter.catalog import files

        return {
            "my_table.sql": files.MY_TABLE,
            "my_view.sql": files.MY_VIEW,
            "my_materialized_view.sql": files.MY_MATERIALIZED_VIEW.replace(
                "materialized_view", "self_correcting_mv"
            ),
        }

    @pytest.mark.parametrize(
        ("node_name", "relation_type"),
        [
            ("seed.test.my_seed", "table"),
            ("model.test.my_table", "table"),
            ("model.test.my_view", "view"),
            ("model.test.my_materialized_view", "view"),
        ],
    )
    def test_relation_types_populate_correctly(self, docs, node_name, relation_type):
        """dbt-spark's words for the types; a published shard is a view."""
        super().test_relation_types_populate_correctly(docs, node_name, relation_type)
