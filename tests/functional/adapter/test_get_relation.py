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
            compared = []
            monkeypatch.setattr(
                adapter, "_make_match", lambda relations, *names: compared.append(names) or []
            )
            cached = [self.relation(project, schema, name) for name in ("seen", "kept", "gone")]
            other = self.relation(project, f"{schema}_other", "seen")
        assert asked == view
        assert cached == [view, table, None] and other is None
        assert [name for *_, name in compared] == ["gone", "seen"]
