"""A relation is found by its name in dbt's cache, without a look at all others."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.usefixtures("small_data")


class TestGetRelation:
    def relation(self, project, schema, identifier):
        relation = project.adapter.get_relation(None, schema, identifier)
        return relation and (relation.schema, relation.identifier, str(relation.type))

    def test_by_name(self, project, monkeypatch):
        schema, adapter = project.test_schema, project.adapter
        project.run_sql(f"create view {schema}.seen as select 1 id")
        project.run_sql(f"create table {schema}.kept (id int) using parquet")
        view, table = (schema, "seen", "view"), (schema, "kept", "table")
        with adapter.connection_named("_test"):
            adapter.cache.clear()
            asked = self.relation(project, schema, "seen")
            compared, match = [], adapter._make_match
            monkeypatch.setattr(
                adapter, "_make_match", lambda them, *names: compared.append(len(them)) or match(them, *names)
            )
            cached = [self.relation(project, schema, name) for name in ("seen", "kept", "SEEN", "gone")]
            other = self.relation(project, f"{schema}_other", "seen")
        assert asked == view
        assert cached == [view, table, view, None] and other is None
        assert compared == [1, 1, 1, 2, 0]  # a name that is not there is compared with all
