"""dbt's own parts around models: hooks that fail, contracts, microbatches, and texts with any
characters in rows of unit tests and in comments.
"""

from __future__ import annotations

import json

import pytest
import yaml
from dbt.tests.util import run_dbt, run_dbt_and_capture

from tests.functional.adapter.test_docs import described

pytestmark = pytest.mark.usefixtures("small_data")

ODD = [
    "a\\b",
    "\\",
    "\\'",
    "it's",
    "''",
    "'",
    'say "x"',
    '\\"',
    "new\nline",
    "\\n",
    "tab\there",
    "${env:HOME} $ {}",
    "100 % %s",
    "é ☃ 😀",
    "-- no comment",
    "/* x",
    "; select 1",
    "`tick`",
    "{a: 1}",
    "[1]",
    "null",
    "",
    "ends with \\",
]
LONG = "a text " * 60
HOOKS = {
    "second_of_two": (
        f"post_hook=['select 1', \"insert into nowhere_at_all values (1, '{LONG}')\"]",
        [
            "second_of_two: post-hook 2 of 2 failed: ",
            "nowhere_at_all",
            "The hook: insert into nowhere_at_all values (1, 'a text a text ",
            "...",
            "The contents are committed",
        ],
    ),
    "two_in_one": (
        "post_hook='select 1; select 2'",
        ["two_in_one: post-hook failed: ", "The hook: select 1; select 2", "`post_hook: [first, second]`"],
    ),
    "before": (
        "pre_hook='select * from nowhere_before'",
        ["before: pre-hook failed: ", "The hook: select * from nowhere_before", "Nothing was written"],
    ),
    "rendered": (
        "post_hook=\"{{ run_query('select * from nowhere_rendered') }}\"",
        ["rendered: post-hook failed: ", "nowhere_rendered", "The contents are committed"],
    ),
}
CONTRACT = [{"name": "ID", "data_type": "int"}, {"name": "Name", "data_type": "string"}]
CONTRACTED = {
    "contracted_mv": "{{ config(materialized='self_correcting_mv', assert_not_null='iD') }} select 1 id, 'a' name",
    "contracted_table": "{{ config(materialized='table') }} select 1 id, 'a' name",
    "contracted_task": "{{ config(materialized='continual_task') }} on input {{ ref('one') }} as ("
    "insert into {{ this }} select name, id from {{ ref('one') }})",
}
DESCRIBED = {
    "described_view": "{{ config(materialized='view') }} select 1 id, 2 other",
    "described_table": "{{ config(materialized='table', file_format='delta') }} select 1 id, 2 other",
    "described_mv": "{{ config(materialized='self_correcting_mv') }} select 1 id, 2 other",
}
DESCRIPTION = " ".join(ODD)
MODELS = {
    "one.sql": "{{ config(materialized='self_correcting_mv') }} select 1 id, 'a' name",
    "texts.sql": "select 1 n, '' s, named_struct('a', '', 'B', array('')) st, map('k', '') m",
    "hexes.sql": "select n, hex(s) s, hex(st.a) a, hex(st.b[0]) b, hex(m['k']) m from {{ ref('texts') }}",
    "codes.sql": "select 1 n, '' s",
    "decoded.sql": "select n, decode(unhex(s), 'UTF-8') s, named_struct('a', decode(unhex(s), 'UTF-8'), 'b', array(1.5D)) st "
    "from {{ ref('codes') }}",
    "events.sql": "{{ config(event_time='at') }} select 1 id, timestamp'2020-01-01 23:30:00' at",
    "batches.sql": "{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='at', partition_by='day', "
    "batch_size='day', begin=modules.datetime.datetime(2020, 1, 1)) }} "
    "select id, at, cast(at as date) as day from {{ ref('events') }}",
}


def hexed(text):
    return text.encode().hex().upper()


def unit_tests():
    nested = [{"a": text, "b": [text]} for text in ODD]
    as_yaml = [
        {"n": n, "s": text, "st": nested[n], "m": {"k": text, "other": None}} for n, text in enumerate(ODD)
    ]
    as_json = [
        {"n": n, "s": text, "st": json.dumps(nested[n]), "m": json.dumps({"k": text})}
        for n, text in enumerate(ODD)
    ]
    as_sql = [
        {"n": 1, "s": None, "st": "named_struct('a', 'it\\'s', 'b', array('\"'))", "m": "map('k', '}')"}
    ]
    hexes = [{"n": n, **dict.fromkeys(("s", "a", "b", "m"), hexed(text))} for n, text in enumerate(ODD)]
    of_sql = [{"n": 1, "s": None, "a": hexed("it's"), "b": hexed('"'), "m": hexed("}")}]
    codes = [{"n": n, "s": hexed(text)} for n, text in enumerate(ODD)]
    decoded = [{"n": n, "s": text, "st": {"A": text, "b": [1.5]}} for n, text in enumerate(ODD)]
    cases = {
        "as_yaml": ("hexes", "texts", as_yaml, hexes),
        "as_json": ("hexes", "texts", as_json, hexes),
        "as_sql": ("hexes", "texts", as_sql, of_sql),
        "expected": ("decoded", "codes", codes, decoded),
        "wrong": ("decoded", "codes", codes[:1], [{**decoded[0], "st": {"a": "b", "b": []}}]),
    }
    return [
        {
            "name": name,
            "model": model,
            "given": [{"input": f"ref('{of}')", "rows": rows}],
            "expect": {"rows": expected},
        }
        for name, (model, of, rows, expected) in cases.items()
    ]


class TestDbtParts:
    @pytest.fixture(scope="class")
    def models(self):
        hooked = {
            f"{name}.sql": f"{{{{ config(materialized='self_correcting_mv', {hook}) }}}} select 1 id"
            for name, (hook, _) in HOOKS.items()
        }
        others = {f"{name}.sql": text for name, text in {**CONTRACTED, **DESCRIBED}.items()}
        properties = [
            *(
                {"name": name, "config": {"contract": {"enforced": True}}, "columns": CONTRACT}
                for name in CONTRACTED
            ),
            *(
                {
                    "name": name,
                    "description": DESCRIPTION,
                    "config": {"persist_docs": {"relation": True, "columns": True}},
                    "columns": [{"name": "id", "description": DESCRIPTION}, {"name": "other"}],
                }
                for name in DESCRIBED
            ),
        ]
        schema = yaml.safe_dump({"models": properties, "unit_tests": unit_tests()}, allow_unicode=True)
        return {**MODELS, **hooked, **others, "schema.yml": schema}

    @pytest.fixture(scope="class")
    def project_config_update(self):
        """Row k: an option of views for all models; `contracted_task` has others in a file."""
        return {"models": {"+max_change": {"rows": 1000}}}

    def rows(self, project, name):
        return [
            tuple(row) for row in project.run_sql(f"select * from {project.test_schema}.{name}", fetch="all")
        ]

    def test_row_j_a_hook_that_fails_is_named_with_what_became_of_the_contents(self, project):
        out = run_dbt_and_capture(["run", "--select", *HOOKS], expect_pass=False)[1]
        for name, (_, parts) in HOOKS.items():
            message = out[out.index(f"Failure in model {name} ") :].split("Failure in model", 2)[1]
            assert all(part in message for part in parts), message
            assert len(message) < 2000
            if name != "before":
                assert self.rows(project, name) == [(1,)]
        assert out.count("a list") == 1

    def test_row_m_the_case_of_a_contracts_names_does_not_count(self, project):
        run_dbt(["run", "--select", "one", *CONTRACTED])
        for name in CONTRACTED:
            assert self.rows(project, name) == [(1, "a")]
            described = project.run_sql(f"describe {project.test_schema}.{name}", fetch="all")
            assert [row[0].lower() for row in described[:2]] == ["id", "name"]

    def test_row_i_values_of_unit_tests_are_what_they_are(self, project):
        run_dbt(["run", "--select", "texts", "hexes", "codes", "decoded"])
        results = run_dbt(["test", "--select", "test_type:unit"], expect_pass=False)
        statuses = {result.node.name: (str(result.status), result.message) for result in results}
        for name, (status, message) in statuses.items():
            assert status == ("fail" if name == "wrong" else "pass"), message

    def test_row_i_comments_are_what_the_descriptions_are(self, project):
        run_dbt(["run", "--select", *DESCRIBED])
        for name in DESCRIBED:
            shown = described(project, name)
            assert shown["metadata"]["comment"] == DESCRIPTION
            comments = {column: each["comment"] or "" for column, each in shown["columns"].items()}
            assert comments == {"id": DESCRIPTION, "other": ""}

    def test_row_n_microbatches_in_another_zone_than_utc_are_refused(self, project, method):
        if method != "session":
            pytest.skip("each connection to a server has a session of its own")
        run_dbt(["run", "--select", "events"])
        batches = [
            "run",
            "--select",
            "batches",
            "--event-time-start",
            "2020-01-01",
            "--event-time-end",
            "2020-01-03",
        ]
        project.run_sql("set time zone 'Europe/Berlin'")
        out = run_dbt_and_capture(batches, expect_pass=False)[1]
        assert "would lose rows" in out and "Got: Europe/Berlin" in out
        assert "server_side_parameters: {spark.sql.session.timeZone: UTC}" in out
        assert project.run_sql("select current_timezone()", fetch="all")[0][0] == "Europe/Berlin"
        project.run_sql("set time zone 'Etc/UTC'")
        run_dbt(batches)
        assert len(self.rows(project, "batches")) == 1
