"""Inputs that change only where a query does not look: the contents stay, and the run says so."""

from __future__ import annotations

import pytest
from dbt.tests.util import run_dbt

from dbt.adapters.mvsink import limits
from tests.functional.materialization.base import responses

pytestmark = pytest.mark.embedded("changes are read into this process")
CONFIG = "{{ config(materialized='self_correcting_mv', file_format='view', verify='never'%s) }} "
ALWAYS = CONFIG % ", incremental='always'"
NARROW = "select region, count(*) n, sum(amount) s from {{ ref('wide') }} group by region"
MODELS = {
    "wide.sql": CONFIG % "" + "select id, region, amount, seen from {{ source('raw', 'items') }}",
    "narrow.sql": ALWAYS + NARROW,
    "by_default.sql": CONFIG % "" + NARROW,
    "joined.sql": ALWAYS
    + "select a.id, b.amount from {{ ref('wide') }} a join {{ ref('wide') }} b on a.id = b.id + 1",
    "north.sql": ALWAYS + "select id, seen from {{ ref('wide') }} where region = 'north'",
    "summed.sql": CONFIG % ", incremental='always', state='always'"
    + "select region, avg(amount) a from {{ ref('wide') }} group by region",
    "counted.sql": ALWAYS + "select count(*) n from {{ ref('wide') }}",
    "once.sql": CONFIG % ", incremental='never'" + NARROW,
    "whole.sql": ALWAYS + "select * from {{ ref('wide') }}",
}
NAMES = [name.removesuffix(".sql") for name in MODELS]
FIRST = [(i, "north" if i % 2 else "south", i * 10, "monday") for i in range(1, 7)]


class TestUnreadChanges:
    @pytest.fixture(scope="class")
    def models(self):
        raw = 'sources: [{name: raw, schema: "{{ target.schema }}", tables: [{name: items}]}]'
        return {"raw.yml": raw, **MODELS}

    @pytest.fixture(autouse=True)
    def nothing_is_tiny(self, monkeypatch):
        """Of tiny data only the query is evaluated, and how it is read is not confirmed."""
        monkeypatch.setattr(limits, "TINY_ROWS", 0)

    @pytest.fixture(scope="class")
    def table(self, project, tmp_path_factory):
        table = f"{project.test_schema}.items"
        place = tmp_path_factory.mktemp("items")
        columns = "id bigint, region string, amount bigint, seen string"
        project.run_sql(f"create table {table} ({columns}) using parquet location '{place}'")
        return table

    def run(self, project, table, rows):
        """The mode of each model's run after the table has ``rows``; all are checked by Spark."""
        project.run_sql(f"insert overwrite {table} values {', '.join(map(str, rows))}")
        run_dbt(["run"])
        schema = project.test_schema
        for name, text in MODELS.items():
            query = text.partition("}} ")[2]
            for reference in ("{{ ref('wide') }}", "{{ source('raw', 'items') }}"):
                query = query.replace(reference, table)
            model = f"{schema}.{name.removesuffix('.sql')}"
            for one, other in ((query, f"select * from {model}"), (f"select * from {model}", query)):
                assert project.run_sql(f"({one}) except all ({other})", fetch="all") == []
        return {name: responses(project)[name] for name in NAMES}

    def test_the_contents_stay(self, project, table):
        self.run(project, table, FIRST)

        # every row was seen again
        later = [(*row[:3], "tuesday") for row in FIRST]
        ran = self.run(project, table, later)
        unread = {"narrow", "by_default", "summed", "joined", "counted"}
        assert {name for name, each in ran.items() if each["mode"] == "unchanged"} == unread
        assert all("(inputs unchanged)" in ran[name]["_message"] for name in unread)

        # rows that `north` does not show are new
        more = [*later, (7, "south", 70, "tuesday")]
        ran = self.run(project, table, more)
        assert {name for name, each in ran.items() if each["mode"] == "unchanged"} == {"north"}

        # what is read changes together with what is not
        changed = [(*row[:2], row[2] + (row[0] == 3), "wednesday") for row in more]
        ran = self.run(project, table, changed)
        assert {name for name, each in ran.items() if each["mode"] == "unchanged"} == {"counted"}

        # a verification, and a repair, do not rest on it
        again = [(*row[:3], "thursday") for row in changed]
        project.run_sql(f"insert overwrite {table} values {', '.join(map(str, again))}")
        run_dbt(["run", "--select", "wide"])
        run_dbt(["run", "--select", "narrow", "--vars", "{mvsink_verify: true}"])
        assert "(verified, no drift)" in responses(project)["narrow"]["_message"]

    def test_explain(self, project, table):
        last = [(*row[:3], "friday") for row in FIRST]
        self.run(project, table, FIRST)
        project.run_sql(f"insert overwrite {table} values {', '.join(map(str, last))}")
        run_dbt(["run", "--select", "wide"])
        run_dbt(
            ["run", "--select", "narrow north", "--vars", "{mvsink_read_only: true, mvsink_explain: true}"]
        )
        messages = responses(project)
        assert "nothing that its query uses of its inputs has changed" in messages["narrow"]["_message"]
        assert "nothing that" not in messages["north"]["_message"]
