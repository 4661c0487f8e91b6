"""A run that finds nothing to do: what it asks Spark, how often it reads a log, and what it still
notices of the catalog.
"""

from __future__ import annotations

from collections import Counter

import pytest
from dbt.tests.util import run_dbt

from dbt.adapters.mvsink.adapter import dbt_engine
from dbt.adapters.mvsink.connection.frames import FrameConnection
from dbt.adapters.mvsink.shard import delta
from tests.functional.materialization.base import responses

pytestmark = [
    pytest.mark.usefixtures("small_data"),
    pytest.mark.embedded("only there Spark's catalog is read without statements"),
]
CONFIG = "{{ config(materialized='self_correcting_mv', file_format='view') }} "
MODELS = {
    "base.sql": CONFIG + "select id, id * 2 d from {{ source('raw', 'files') }}",
    **{f"over{n}.sql": CONFIG + f"select id + {n} id from {{{{ ref('base') }}}}" for n in range(4)},
    "top.sql": CONFIG + "select a.id from {{ ref('over0') }} a join {{ ref('over1') }} b on a.id = b.id",
}
NAMES = [name.removesuffix(".sql") for name in MODELS]


class TestNothingToDo:
    @pytest.fixture(scope="class")
    def models(self):
        raw = 'sources: [{name: raw, schema: "{{ target.schema }}", tables: [{name: files}]}]'
        return {"raw.yml": raw, **MODELS}

    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"on-run-start": "{{ var('first', 'select 1') }}"}

    @pytest.fixture(scope="class", autouse=True)
    def loaded(self, project, tmp_path_factory):
        place = tmp_path_factory.mktemp("files")
        files = f"{project.test_schema}.files"
        project.run_sql(f"create table {files} (id bigint) using parquet location '{place}'")
        project.run_sql(f"insert into {files} values (1), (2), (3)")
        run_dbt(["run"])
        run_dbt(["run"])

    def shown(self, project, name):
        rows = project.run_sql(f"select * from {project.test_schema}.{name}", fetch="all")
        return sorted(map(tuple, rows))

    @pytest.mark.parametrize("threads", [1, 4])
    def test_a_model_sends_no_statement_and_its_log_is_read_once(self, project, monkeypatch, threads):
        """The source is described once, by whichever model is first."""
        sent, opened, execute, table = [], [], FrameConnection.execute, delta.DeltaTable

        def recorded(connection, sql, bindings=None):
            sent.append(sql)
            return execute(connection, sql, bindings)

        def read(uri, *arguments, **options):
            opened.append(uri.rpartition("/")[2])
            return table(uri, *arguments, **options)

        monkeypatch.setattr(FrameConnection, "execute", recorded)
        monkeypatch.setattr(delta, "DeltaTable", read)
        monkeypatch.setattr(dbt_engine, "RECENT", 600.0)  # however slow this machine is
        run_dbt(["run", "--threads", str(threads)])
        assert {responses(project)[name]["mode"] for name in NAMES} == {"unchanged"}
        of_models = [text for text in sent if '"model.test.' in text and "files" not in text]
        assert of_models == []
        assert Counter(opened) == Counter(NAMES)

    def test_a_view_that_a_hook_drops_is_published_again(self, project):
        before = self.shown(project, "over0")
        first = f"drop view {project.test_schema}.over0"
        run_dbt(["run", "--vars", f"{{first: '{first}'}}"])
        assert "view republished" in responses(project)["over0"]["_message"]
        assert responses(project)["over1"]["mode"] == "unchanged"
        assert self.shown(project, "over0") == before

    def test_a_text_that_others_put_in_its_place_is_replaced(self, project):
        schema = project.test_schema
        before = self.shown(project, "over2")
        project.run_sql(f"alter view {schema}.over2 as select 7 id")
        run_dbt(["run", "--select", "over2"])
        assert self.shown(project, "over2") == before

    def test_what_is_on_the_view_survives_a_change_of_rows(self, project):
        """A listing shows neither comments nor properties: they are looked up before."""
        schema = project.test_schema
        project.run_sql(f"alter view {schema}.over3 set tblproperties ('team' = 'sales', 'comment' = 'mine')")
        run_dbt(["run"])
        assert responses(project)["over3"]["mode"] == "unchanged"
        project.run_sql(f"insert into {schema}.files values (4)")
        run_dbt(["run"])
        assert len(self.shown(project, "over3")) == 4
        properties = dict(map(tuple, project.run_sql(f"show tblproperties {schema}.over3", fetch="all")))
        assert properties["team"] == "sales"
        described = project.run_sql(f"describe extended {schema}.over3", fetch="all")
        assert ("Comment", "mine") in [(name, kind) for name, kind, _ in map(tuple, described)]
