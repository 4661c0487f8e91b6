"""Unchanged inputs are not evaluated: no Spark job, and the next verification proves it."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dbt.tests.util import run_dbt

from dbt.adapters.mvsink.adapter.dbt_engine import AdapterEngine
from dbt.adapters.mvsink.connection.factory import EMBEDDED
from dbt.adapters.mvsink.materialization.evidence import COLUMNS
from tests.functional.materialization.base import Base, responses

pytestmark = pytest.mark.usefixtures("small_data")
MV = "{{ config(materialized='self_correcting_mv') }} "
FILES = "{{ source('raw', 'files') }}"
ALL_COLUMNS = (
    "{{ config(materialized='self_correcting_mv', on_schema_change='append_new_columns') }} "
    f"select * from {FILES}"
)
MODELS = {
    "over_files.sql": "select id, id * 2 d from {{ source('raw', 'files') }}",
    "through_a_view.sql": "select id from {{ ref('seen') }}",
    "over_a_shard.sql": "select count(*) c from {{ ref('over_files') }}",
    "through_a_refused_view.sql": "select id from {{ ref('with_its_catalog') }}",
    "over_both.sql": "select id, c from {{ ref('seen') }} cross join {{ ref('over_a_shard') }}",
}
NEVER = {
    "clock.sql": "select id, current_date() d from {{ source('raw', 'files') }}",
    "run_time.sql": "select id, {{ mv_now() }} d from {{ source('raw', 'files') }}",
    "clock_of_a_view.sql": "select id, d from {{ ref('dated') }}",
    "a_variable.sql": "{{ config(pre_hook='declare or replace variable one int default 1') }}"
    f"select {', '.join(f'id + {n} c{n}' for n in range(40))}, one from {FILES}",
    "a_path.sql": "select id from parquet.`{{ var('place') }}`",
}
VIEWS = ("seen", "dated", "with_its_catalog")


@pytest.mark.embedded("files on a disk are known to be unchanged only where Spark runs on the same machine")
class TestUnchanged:
    @pytest.fixture(scope="class")
    def place(self, tmp_path_factory):
        return tmp_path_factory.mktemp("files")

    @pytest.fixture(scope="class")
    def project_config_update(self, place):
        return {"vars": {"place": str(place)}}

    @pytest.fixture(scope="class")
    def models(self):
        return {
            "raw.yml": "sources: [{name: raw, schema: \"{{ target.schema }}\", tables: [{name: files}]}]",
            "seen.sql": "{{ config(materialized='view') }} select * from {{ source('raw', 'files') }} where id > 0",
            "dated.sql": "{{ config(materialized='view') }} select id, current_date() d from {{ source('raw', 'files') }}",
            "with_its_catalog.sql": "{{ config(materialized='view') }} select id from spark_catalog.{{ target.schema }}.files",
            **{name: MV + query for name, query in {**MODELS, **NEVER}.items()},
        }  # fmt: skip

    def run(self, project, *args):
        """Each model's response."""
        run_dbt(["run", *args])
        return responses(project)

    def rows(self, project, model):
        return sorted(
            map(tuple, project.run_sql(f"select * from {project.test_schema}.{model}", fetch="all"))
        )

    def test_what_is_evaluated_and_what_is_not(self, project, place, mode):
        def arrive(*ids):
            pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), place / f"{ids[0]}.parquet")

        names = [name.removesuffix(".sql") for name in MODELS]
        arrive(1, 2)
        project.run_sql(
            f"create table {project.test_schema}.files (id bigint) using parquet location '{place}'"
        )
        first = self.run(project)
        assert all(response["evaluated"] for name, response in first.items() if name not in VIEWS)
        second = self.run(project)
        assert [name for name in names if second[name]["evaluated"]] == []
        assert all(second[name.removesuffix(".sql")]["evaluated"] for name in NEVER)
        assert "(inputs unchanged)" in second["over_both"]["_message"]
        arrive(3)
        third = self.run(project)
        assert all(third[name]["evaluated"] for name in names)
        if mode != "never":
            why = third["through_a_refused_view"]["not_incremental"]
            assert "read through the view spark_catalog" in why and why.endswith(".files with its catalog")
            assert "changed: 1 new file: 3.parquet: it is read" in why
            assert "(full: 1 new file)" in third["through_a_refused_view"]["_message"]
            assert "in spark_catalog" in third["clock_of_a_view"]["not_incremental"]
        assert self.rows(project, "over_both") == [(1, 3), (2, 3), (3, 3)]
        fourth = self.run(project, "--select", *names)
        assert [name for name in names if fourth[name]["evaluated"]] == []

    def test_explain(self, project):
        explained = self.run(project, "--vars", "{mvsink_read_only: true, mvsink_explain: true}")
        unchanged, clock = explained["over_both"]["explanation"], explained["clock"]["explanation"]
        assert unchanged["evaluates"] == ""
        assert {each["state"] for each in unchanged["inputs"]} == {"unchanged"}
        assert "current_date" in clock["evaluates"]
        assert "dated: current_date() differs" in explained["clock_of_a_view"]["explanation"]["evaluates"]
        [table] = clock["inputs"]
        assert (table["state"], table["reason"]) == ("cannot be known", "no earlier position is recorded")

    def test_no_spark_job_runs(self, project):
        def jobs():
            return EMBEDDED.running().sparkContext._jsc.sc().dagScheduler().numTotalJobs()

        self.run(project, "--select", *(name.removesuffix(".sql") for name in MODELS))
        before = jobs()
        self.run(project, "--select", *(name.removesuffix(".sql") for name in MODELS))
        assert jobs() == before

    def test_a_tampered_file_is_found_by_the_next_verification(self, project, place):
        assert not self.run(project, "--select", "over_files")["over_files"]["evaluated"]
        file = place / "1.parquet"
        before = file.stat()
        pq.write_table(pa.table({"id": pa.array((1, 7), pa.int64())}), file)
        assert file.stat().st_size == before.st_size
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert not self.run(project, "--select", "over_files")["over_files"]["evaluated"]
        verified = self.run(project, "--select", "over_files", "--vars", "{mvsink_verify: true}")[
            "over_files"
        ]
        assert (verified["verified"], verified["rows_inserted"], verified["rows_deleted"]) == (True, 1, 1)
        [warning] = verified["warnings"]
        assert "verification found drift: +1 -1 rows" in warning and "+1 (7, 14)" in warning
        assert self.rows(project, "over_files") == [(1, 2), (3, 6), (7, 14)]
        again = self.run(project, "--select", "over_files", "--vars", "{mvsink_verify: true}")["over_files"]
        assert again["verified"] and not again["warnings"]


@pytest.mark.embedded("only there the columns of tables of files are recalled")
class TestColumns(Base):
    """A run that evaluates its query knows its columns without Spark, unless they changed."""

    @pytest.fixture(scope="class")
    def models(self):
        raw = 'sources: [{name: raw, schema: "{{ target.schema }}", tables: [{name: files}]}]'
        return {
            "raw.yml": raw,
            "mv.sql": ALL_COLUMNS,
            "above.sql": ALL_COLUMNS.replace(FILES, "{{ ref('mv') }}"),
        }

    @pytest.fixture(scope="class", autouse=True)
    def table(self, project, tmp_path_factory):
        table = f"{project.test_schema}.files"
        project.run_sql(
            f"create table {table} (id bigint) using parquet location '{tmp_path_factory.mktemp('files')}'"
        )
        return table

    @pytest.fixture(autouse=True)
    def fresh(self):
        """The files are those of the test before."""

    @pytest.fixture
    def analyzed(self, monkeypatch):
        """The models whose query Spark was asked about."""
        asked, analyze = [], AdapterEngine.analyzed

        def analyzed(engine, query, what):
            asked.append(engine.model.split(".")[1])
            return analyze(engine, query, what)

        monkeypatch.setattr(AdapterEngine, "analyzed", analyzed)
        return asked

    def after(self, project, values):
        """Run once these rows have arrived."""
        project.run_sql(f"insert into {project.test_schema}.files values {values}")
        run_dbt(["run"])

    @pytest.mark.seldom
    def test_a_new_column_with_new_rows(self, project, table, analyzed):
        self.after(project, "(1)")
        assert sorted(analyzed) == ["above", "mv"]
        self.after(project, "(2)")
        assert sorted(analyzed) == ["above", "above", "mv"]  # a shard's columns are not in the plan
        project.run_sql(f"alter table {table} add columns (name string)")
        self.after(project, "(3, 'c')")
        assert self.rows(project) == self.rows(project, "above") == [(1, None), (2, None), (3, "c")]

    @pytest.mark.seldom
    def test_a_column_that_only_the_shard_has(self, project, analyzed):
        """`append_new_columns` keeps it; the query's columns are not the shard's, run after run."""
        self.set_model(project, ALL_COLUMNS.replace("*", "id"))
        for new in (4, 5, 6):
            self.after(project, f"({new}, 'd')")
        assert analyzed.count("mv") == 3
        assert self.rows(project)[3:] == [(4, None), (5, None), (6, None)]

    @pytest.mark.seldom
    def test_after_a_run_that_was_killed_before_it_recorded_its_columns(self, project, analyzed):
        self.set_model(project, ALL_COLUMNS)
        self.after(project, "(7, 'e')")
        of_all = self.state(project).properties[COLUMNS]
        self.set_model(project, ALL_COLUMNS.replace("*", "id"))
        self.after(project, "(8, 'e')")
        with self.writer(project) as handle:
            handle.set_properties({COLUMNS: of_all})
        self.after(project, "(9, 'e')")
        assert (9, None) in self.rows(project)


@pytest.mark.embedded("files on a disk are known to be unchanged only where Spark runs on the same machine")
@pytest.mark.seldom
class TestSourceThatAHookMoves:
    @pytest.fixture(scope="class")
    def models(self):
        raw = 'sources: [{name: raw, schema: "{{ target.schema }}", tables: [{name: files}]}]'
        hook = "{{ config(pre_hook=var('hook', 'select 1')) }} "
        return {"raw.yml": raw, "first.sql": ALL_COLUMNS, "second.sql": hook + ALL_COLUMNS}

    def test_the_next_model_sees_it_at_once(self, project, tmp_path):
        """Whatever the catalog said to the first model a moment ago."""
        places = [tmp_path / name for name in ("here", "there")]
        for id, place in enumerate(places):
            place.mkdir()
            pq.write_table(pa.table({"id": pa.array((id,), pa.int64())}), place / "part.parquet")
        table = f"{project.test_schema}.files"
        project.run_sql(f"create table {table} (id bigint) using parquet location '{places[0]}'")
        run = ["run", "--threads", "1", "--vars"]
        run_dbt([*run, "{}"])
        run_dbt([*run, f"{{hook: \"alter table {table} set location '{places[1]}'\"}}"])
        ran = responses(project)
        assert [ran[name]["evaluated"] for name in ("first", "second")] == [False, True]
        assert project.run_sql(f"select id from {project.test_schema}.second", fetch="one")[0] == 1


@pytest.mark.skipif(
    "iceberg" in os.environ.get("MVSINK_FORMATS", ""), reason="with Iceberg Spark creates no SQL functions"
)
class TestFunctions(Base):
    """A run that names an SQL function of the user's."""

    @pytest.fixture(scope="class")
    def models(self):
        own = MV.replace("_mv')", "_mv', deterministic_functions='raised')")
        return {"mv.sql": f"{own} select raised(1) n"}

    @pytest.fixture(autouse=True)
    def fresh(self):
        """The function is all that changes."""

    def made(self, project, body):
        """The function is created again with this body; how a run then computes the contents."""
        project.run_sql(f"create or replace function default.raised(x int) returns int return {body}")
        run_dbt(["run"])
        return self.last(project)["mode"]

    def test_row_m_a_function_that_is_redefined(self, project):
        try:
            assert self.made(project, "x + 1") == "verified"
            self.made(project, "x + 1")  # a function has the settings of the session, which a run may add to
            assert self.made(project, "x + 1") == "unchanged"
            assert self.made(project, "x + 2") == "evaluated" and self.rows(project) == [(3,)]
        finally:
            project.run_sql("drop function default.raised")
