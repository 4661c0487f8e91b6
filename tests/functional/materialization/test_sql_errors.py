"""Errors of Spark about models' SQL, as dbt prints them: the place in the files, none of ours."""

from __future__ import annotations

import pytest
from dbt.tests.util import run_dbt

from tests.support.first_day import agrees, printed

MV = "{{ config(materialized='self_correcting_mv') }}\n"
TABLE = "{{ config(materialized='table') }}\n"
TASK = "{{ config(materialized='continual_task') }}\non input {{ ref('rows_of_errors') }} as (\n"
SQL = {
    "rows_of_errors": MV + "select id, cast(null as string) as note from values (1), (2) as t(id)\n",
    "misspelt": MV + "{% set a = 1 %}\nselect\n    id,\n    amuont\nfrom {{ ref('rows_of_errors') }}\n",
    "syntax": MV + "select\n    id\nform {{ ref('rows_of_errors') }}\nwhere id = 1\n",
    "ungrouped": MV + "select id, count(*) as n from {{ ref('rows_of_errors') }}\n",
    "division": MV + "select\n  id,\n  1 div (id - id) as x\nfrom {{ ref('rows_of_errors') }}\n",
    "plain": TABLE + "select\n  id,\n  amuont\nfrom {{ ref('rows_of_errors') }}\n",
    "task": TASK + "  insert into {{ this }}\n  select id,\n    amuont from {{ ref('rows_of_errors') }}\n)\n",
    "lines": MV + "select * from {{ source('raw', 'lines_of_errors') }}\n",
    "absent": MV + "select * from {{ source('raw', 'nowhere') }}\n",
    "rounded": MV + "select roundd(id) as x from {{ ref('rows_of_errors') }}\n",
    "contracted": MV + "select id from {{ ref('rows_of_errors') }}\n",
    "itself": MV + "select * from {{ this }}\n",
    "twice": MV + "select id, id as ID from {{ ref('rows_of_errors') }}\n",
}
SOURCES = """
sources:
  - {name: raw, schema: "{{ target.schema }}", tables: [{name: lines_of_errors}, {name: nowhere}]}
models:
  - name: contracted
    config: {contract: {enforced: true}}
    columns: [{name: id, data_type: string}]
"""
PRINTED = {  # the first line of dbt's message, and what is in it
    "misspelt": ("Database Error MVS-602", ".sql, line 5, column 5 (models/misspelt.sql, line 5):\n        amuont\n        ^"),
    "syntax": ("Database Error MVS-601", "syntax.sql, line 4, column 6:\n    form "),
    "ungrouped": ("Database Error MVS-603", "ungrouped.sql, line 2, column 1:\n    select id, count(*) as n from "),
    "division": ("Database Error MVS-604", ".sql, line 4, column 3 (models/division.sql, line 4):\n      1 div (id - id) as x\n      ^"),
    "plain": ("Database Error MVS-602", ".sql, line 4, column 3 (models/plain.sql, line 4):\n      amuont\n      ^"),
    "task": ("Runtime Error MVS-602", "line 5:\n        amuont from "),
    "lines": ("Database Error MVS-605", "that is a file of raw.lines_of_errors"),
}  # fmt: skip
# docs/first-day.md, by the name of the row
MISTAKES = {
    "a misspelt column": "misspelt",
    "a misspelt keyword": "syntax",
    "no GROUP BY": "ungrouped",
    "a division by zero": "division",
    "a malformed file": "lines",
    "a source without its table": "absent",
    "a misspelt function": "rounded",
    "a broken contract": "contracted",
    "a model that reads itself": "itself",
    "a column with two names": "twice",
}
NEVER = ("_mv_", "Project [", "+- ", "\tat ", "JVM stacktrace", "Job aborted")


@pytest.mark.usefixtures("small_data")
class TestSqlErrors:
    @pytest.fixture(scope="class")
    def models(self):
        return {"schema.yml": SOURCES, **{f"{name}.sql": text for name, text in SQL.items()}}

    @pytest.fixture(scope="class")
    def messages(self, project, tmp_path_factory):
        place = tmp_path_factory.mktemp("lake") / "lines_of_errors"
        place.mkdir()
        (place / "a.csv").write_text("1,2\nx,y\n")
        project.run_sql(
            f"create table {project.test_schema}.lines_of_errors (id int, v int) "
            f"using csv options (mode 'FAILFAST') location '{place}'"
        )
        return {result.node.name: str(result.message) for result in run_dbt(["run"], expect_pass=False)}

    @pytest.mark.parametrize("model", PRINTED)
    def test_the_place_is_shown(self, messages, model):
        first, part = PRINTED[model]
        message = messages[model]
        assert message.startswith(f"{first} in model {model} (models/{model}.sql)") and part in message
        assert [text for text in NEVER if text in message] == []

    def test_an_error_of_ansi_mode_names_the_setting(self, messages):
        assert 'server_side_parameters: {spark.sql.ansi.enabled: "false"}' in messages["division"]
        assert "ansi" not in messages["misspelt"]

    def test_a_malformed_file_is_named_with_what_is_wrong(self, messages, method):
        assert "lines_of_errors/a.csv" in messages["lines"]
        assert "alformed" in messages["lines"] or method in (
            "thrift",
            "warm",
        )  # whose answers have one condition

    @pytest.mark.parametrize("name", MISTAKES)
    def test_it_is_as_the_page_of_the_first_day_shows_it(self, messages, name, method):
        if method != "session":
            pytest.skip("a server's messages differ in details")
        assert agrees(name, messages[MISTAKES[name]]), printed(messages[MISTAKES[name]])
