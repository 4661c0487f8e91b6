"""dbt's unit tests of a `continual_task`: the fixtures are the change at one time. Those of other
models are as before.
"""

from __future__ import annotations

import pytest
from dbt.tests.util import run_dbt

from tests.functional.continual_task.test_dbt import COPY, EVENTS, FIRST, UPSERT, task

pytestmark = pytest.mark.usefixtures("small_data")

UNIT_TESTS = """
unit_tests:
  - name: replaces_what_came
    model: upsert
    given:
      - input: ref('events')
        rows: [{key: 1, val: 5}, {key: 1, val: 7}, {key: 9, val: 1}]
      - input: this
        rows: [{key: 1, val: 100}, {key: 2, val: 200}]
    expect: {rows: [{key: 1, val: 7}, {key: 2, val: 200}, {key: 9, val: 1}]}
  - name: empty_at_first
    model: upsert
    given: [{input: ref('events'), rows: [{key: 1, val: 5}]}]
    expect: {rows: [{key: 1, val: 5}]}
  - name: nothing_came
    model: upsert
    given:
      - {input: ref('events'), rows: []}
      - {input: this, rows: [{key: 1, val: 100}]}
    expect: {rows: [{key: 1, val: 100}]}
  - name: counts_and_deletes
    model: audit
    given:
      - input: ref('events')
        rows: [{key: 1, val: 5, _mv_diff: 2}, {key: 2, val: 6, _mv_diff: -1}, {key: 3, val: 7}, {key: 3, val: 7, _mv_diff: -1}]
      - {input: ref('names'), format: csv, rows: "key,name\\n1,one\\n2,two"}
    expect: {rows: [{what: came, name: one}, {what: came, name: one}, {what: went, name: two}]}
  - name: of_all_rows
    model: shares
    given:
      - input: ref('events')
        rows:
          - {key: 1, val: 5, _mv_diff: 0}
          - {key: 1, val: 5, _mv_diff: 0}
          - {key: 1, val: 30}
          - {key: 2, val: 6}
          - {key: 3, val: 7, _mv_diff: -1}
    expect: {rows: [{key: 1, total: 40}, {key: 2, total: 6}]}
  - name: of_all_rows_that_are_the_change
    model: shares
    given: [{input: ref('events'), rows: [{key: 1, val: 5}]}]
    expect: {rows: [{key: 1, total: 5}]}
  - name: retained
    model: retained
    given:
      - {input: ref('events'), format: sql, rows: "select 1 as key, 5 as val, 1 as _mv_diff union all select 2, 50, 1"}
      - {input: this, rows: [{key: 3, val: 9}, {key: 4, val: 90}]}
    expect: {rows: [{key: 2, val: 50}, {key: 4, val: 90}]}
  - name: timed
    model: timed
    overrides: {vars: {mvsink_run_time: "2026-11-20T15:00:00Z"}}
    given: [{input: ref('events'), rows: [{key: 1}]}]
    expect: {rows: [{at: 1795186800}]}
  - name: wrong
    model: upsert
    given: [{input: ref('events'), rows: [{key: 1, val: 5}]}]
    expect: {rows: [{key: 1, val: 6}]}
  - name: of_a_query
    model: reader
    given: [{input: ref('upsert'), rows: [{key: 1, val: 5}, {key: 2, val: 6}]}]
    expect: {rows: [{total: 11}]}
"""


class TestUnitTests:
    @pytest.fixture(scope="class")
    def models(self):
        return {
            "events.sql": EVENTS.format(FIRST),
            "names.sql": "select 1 as key, 'one' as name",
            "upsert.sql": UPSERT,
            "audit.sql": task(
                "on input {{ ref('events') }} as ("
                "insert into {{ this }} select 'came' as what, case when true then n.name end as name "
                "from {{ ref('events') }} e join {{ ref('names') }} n on n.key = e.key;"
                "insert into {{ this }} select 'went', n.name "
                "from {{ mv_deletes(ref('events')) }} e join {{ ref('names') }} n on n.key = e.key)"
            ),
            "retained.sql": task(
                COPY.replace("transform", "retain").replace(
                    "using (select * from {{ ref('events') }})", "while (val > 10)"
                )
            ),
            "shares.sql": task(
                "on input {{ ref('events') }} as (insert into {{ this }} select w.key, sum(w.val) as total from "
                "{{ mv_contents(ref('events')) }} w where w.key in (select key from {{ ref('events') }}) group by w.key)"
            ),
            "timed.sql": task(COPY.replace("select *", "select unix_seconds({{ mv_now() }}) as at")),
            "reader.sql": "select sum(val) as total from {{ ref('upsert') }}",
            "unit_tests.yml": UNIT_TESTS,
        }

    def test_the_change_and_the_output_so_far_give_the_output(self, project):
        run_dbt(["run", "--empty", "--exclude", "retained", "audit", "shares"])  # a task need not have run
        results = run_dbt(["test", "--select", "test_type:unit"], expect_pass=False)
        results_by_name = {result.node.name: result for result in results}
        assert len(results_by_name) == 10
        for name, result in results_by_name.items():
            assert str(result.status) == ("fail" if name == "wrong" else "pass"), (name, result.message)
        assert "val" in results_by_name["wrong"].message
