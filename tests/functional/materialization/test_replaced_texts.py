"""A view whose columns stay the same: the embedded session replaces its text in the catalog, and
what is on the view stays.
"""

from __future__ import annotations

import re

import pytest
from dbt.tests.util import run_dbt
from py4j.protocol import Py4JError

from dbt.adapters.mvsink.adapter.dbt_engine import AdapterEngine
from dbt.adapters.mvsink.connection.cursor import SessionConnection
from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.shard_sql.published_view import read_published
from tests.functional.materialization.base import responses

QUERY = "select id as `an id`, count(*) from {{ source('raw', 'rows') }} group by id"
MODEL = "{{ config(materialized='self_correcting_mv', persist_docs={'relation': true}) }} " + QUERY
RAW = 'sources: [{name: raw, schema: "{{ target.schema }}", tables: [{name: rows}]}]'
WRITTEN = re.compile(r", transient_lastDdlTime=\d+")
DOCS = "models: [{name: counted, description: 'how many'}]"


@pytest.mark.embedded("servers execute ALTER VIEW")
class TestReplacedTexts:
    @pytest.fixture(scope="class")
    def models(self):
        above = "{{ config(materialized='view') }} select * from {{ ref('counted') }}"
        return {"raw.yml": f"{RAW}\n{DOCS}", "counted.sql": MODEL, "above.sql": above}

    @pytest.fixture
    def replaced(self, monkeypatch):
        """Whether each publication replaced the text."""
        outcomes, replace = [], SessionConnection.replace_view_text

        def recorded(connection, view, text, replaceable):
            outcomes.append(replace(connection, view, text, replaceable))
            return outcomes[-1]

        monkeypatch.setattr(SessionConnection, "replace_view_text", recorded)
        return outcomes

    def run(self, project, *ids):
        """Add rows, run, and compare what a reader sees with the query; what the view has on it."""
        schema = project.test_schema
        for each in ids:
            project.run_sql(f"insert into {schema}.rows values ({each})")
        run_dbt(["run"])
        queries = (
            f"select id, count(*) from {schema}.rows group by id",
            f"select * from {schema}.counted",
            f"select * from {schema}.above",
        )
        wanted, *shown = (sorted(map(tuple, project.run_sql(query, fetch="all"))) for query in queries)
        assert shown == [wanted, wanted]
        rows = project.run_sql(f"describe extended {schema}.counted", fetch="all")
        files = ("View Text", "View Original Text", "Created Time", "Last Access")
        return [(row[0], WRITTEN.sub("", str(row[1])), row[2]) for row in rows if row[0] not in files]

    def test_the_text_is_replaced_and_nothing_else(self, project, replaced):
        project.run_sql(f"create table {project.test_schema}.rows (id int) using parquet")
        self.run(project, 1, 2)
        project.run_sql(f"alter view {project.test_schema}.counted set tblproperties ('team' = 'blue')")
        before = self.run(project, 2)
        for ids in ((3,), (1, 3), (7,)):
            assert self.run(project, *ids) == before
        assert replaced == [True] * 4
        assert any("team=blue" in str(row) for row in before) and ("Comment", "how many", "") in before

    def test_rows_of_views_that_are_cached_are_dropped_as_by_alter_view(self, project, replaced):
        project.run_sql(f"cache table {project.test_schema}.counted")
        try:
            self.run(project, 8)
            assert replaced == [False]
        finally:
            project.run_sql(f"uncache table if exists {project.test_schema}.counted")

    def test_a_catalog_that_refuses_leads_to_alter_view(self, project, replaced, monkeypatch):
        def refused(connection, relation):
            raise Py4JError("no such method")

        monkeypatch.setattr(SessionConnection, "_entry", refused)
        self.run(project, 8)
        assert replaced == [False]

    def test_a_view_that_was_replaced_by_hand_is_written_again(self, project, replaced):
        schema = project.test_schema
        project.run_sql(f"create or replace view {schema}.counted as select 1 as one")
        self.run(project, 9)
        assert replaced == [] and responses(project)["counted"]["rows_inserted"] == 1

    def test_the_catalog_shows_the_view_as_statements_do(self, project, monkeypatch):
        """All but what DESCRIBE hides, as the property whose name looks like a secret."""
        view = f"{project.test_schema}.counted"
        project.run_sql(f"alter view {view} set tblproperties ('a ''key''' = 'x\\n\"y\"', 'my_token' = 's')")
        with project.adapter.connection_named("shown"):
            engine = AdapterEngine(project.adapter, "m")
            known = read_published(engine, view)
            for other in ("nothing", "rows", "above"):  # none, a table, and another's view
                shown = engine.view_here(f"{project.test_schema}.{other}")
                assert (shown is None) is (other != "above")
            monkeypatch.setattr(SessionConnection, "describe_view", lambda connection, view: None)
            asked = read_published(engine, view)
            with pytest.raises(EngineError):
                read_published(engine, f"{project.test_schema}.nothing")
            assert not engine.replace_view_text(
                f"{project.test_schema}.nothing", "select 1", lambda text: True
            )
            assert not engine.replace_view_text(f"{project.test_schema}.rows", "select 1", lambda text: True)
        assert known is not None and known == asked
        assert known.properties["my_token"] == "s" and known.comment == "how many"
