"""Maps that models pass on or look keys up in, from files, a Delta table and another model."""

from __future__ import annotations

import pytest
from dbt.tests.util import run_dbt

from dbt.adapters.mvsink import limits
from tests.functional.materialization.base import responses

pytestmark = pytest.mark.embedded("changes are read into this process")
MV = "{{ config(materialized='self_correcting_mv', file_format='view', verify='never') }} "
ALWAYS = MV.replace("verify", "incremental='always', verify")
FILES, CHANGES = "{{ source('raw', 'map_files') }}", "{{ source('raw', 'map_changes') }}"
MODELS = {
    "maps_of_files": f"select id, m, m['a'] a, nested from {FILES}",
    "maps_of_delta": f"select m, d from {CHANGES} where m is null or not map_contains_key(m, 'gone')",
    "maps_joined": "select f.id, f.m, d.m other, f.m.a x, element_at(d.m, 'b') y, f.nested[0].m as deep "
    f"from {{{{ ref('maps_of_files') }}}} f left join {CHANGES} d on f.id = d.id and d.m['a'] is not null",
    "maps_grouped": f"select m['a'] a, count(*) n, max(try_element_at(m, 'b')) b from {CHANGES} group by m['a']",
}
COLUMNS = "id bigint, m map<string,int>, d map<int,double>, nested array<struct<m: map<string,int>>>"
A_B, B_A = "map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)"
NONE, NULLS, GONE = "null", "map('a', null, 'b', 0)", "map('gone', 1)"
FIRST = {1: A_B, 2: NONE, 3: NULLS, 4: GONE, 5: "map()", 6: "map('a', 7)"}


def row(id, m):
    nested = f"array(named_struct('m', {m}), null)"
    return f"select {id}L, cast({m} as map<string,int>), map(1, -0.0D, 2, double('NaN')), {nested}"


class TestMaps:
    @pytest.fixture(scope="class")
    def models(self):
        raw = 'sources: [{name: raw, schema: "{{ target.schema }}", tables: [{name: map_files}, {name: map_changes}]}]'
        return {
            "raw.yml": raw,
            **{
                f"{name}.sql": (MV if name == "maps_of_files" else ALWAYS) + text
                for name, text in MODELS.items()
            },
        }

    @pytest.fixture(autouse=True)
    def nothing_is_tiny(self, monkeypatch):
        monkeypatch.setattr(limits, "TINY_ROWS", 0)

    def shown(self, project, query, columns):
        """The rows, with the entries of maps in order."""
        items = ", ".join(
            f"to_json(transform({each}, x -> sort_array(map_entries(x.m))))" if each == "nested"
            else f"to_json(sort_array(map_entries({each})))" if each in ("m", "d", "other", "deep")
            else each
            for each in columns
        )  # fmt: skip
        return sorted(
            map(repr, map(tuple, project.run_sql(f"select {items} from ({query}) shown", fetch="all")))
        )

    def refreshed(self, project):
        run_dbt(["run"])
        schema, answers = project.test_schema, responses(project)
        for name, text in MODELS.items():
            query = text.replace(FILES, f"{schema}.map_files").replace(CHANGES, f"{schema}.map_changes")
            query = query.replace("{{ ref('maps_of_files') }}", f"{schema}.maps_of_files")
            columns = [row[0] for row in project.run_sql(f"show columns in {schema}.{name}", fetch="all")]
            model = f"select * from {schema}.{name}"
            assert self.shown(project, model, columns) == self.shown(project, query, columns), name
        return {name: answers[name] for name in MODELS}

    def test_every_refresh_gives_what_evaluating_the_query_gives(self, project):
        files, changes = (f"{project.test_schema}.{name}" for name in ("map_files", "map_changes"))
        project.run_sql(f"create table {files} ({COLUMNS}) using parquet")
        project.run_sql(f"create table {changes} ({COLUMNS}) using delta")

        def arrive(rows):
            every = " union all ".join(row(*each) for each in rows.items())
            project.run_sql(f"insert overwrite {files} {every}")

        arrive(FIRST)
        project.run_sql(f"insert into {changes} table {files}")
        self.refreshed(project)

        # equal maps whose entries are in another order, and a new row
        arrive({**FIRST, 1: B_A, 7: B_A})
        project.run_sql(f"update {changes} set m = {B_A} where id = 1")
        ran = self.refreshed(project)
        assert ran["maps_of_files"]["rows_inserted"] == 1 and ran["maps_of_files"]["rows_deleted"] == 0
        assert ran["maps_joined"]["rows_inserted"] == 1
        assert ran["maps_of_delta"]["rows_inserted"] == ran["maps_of_delta"]["rows_deleted"] == 0

        # NULL and 0, NULL and no map, no map and an empty one
        arrive({1: B_A, 2: "map()", 3: "map('a', 0, 'b', null)", 4: GONE, 5: NONE, 7: A_B})
        project.run_sql(f"update {changes} set m = map('a', 0, 'b', null) where id = 3")
        project.run_sql(f"update {changes} set m = map() where id = 2")
        project.run_sql(f"delete from {changes} where id = 6")
        project.run_sql(f"insert into {changes} {row(8, A_B)}")
        ran = self.refreshed(project)
        assert all(each["incremental"] for name, each in ran.items() if name != "maps_of_files"), ran
        assert ran["maps_of_files"]["rows_inserted"] == 3 and ran["maps_of_files"]["rows_deleted"] == 4
