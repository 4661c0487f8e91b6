"""Continual tasks over inputs as they are in real life. Each input is a maintained view that gains
rows in the third run.
"""

from __future__ import annotations

import pytest

from tests.functional.rough.base import Case, Table
from tests.functional.rough.test_names import COLUMNS, quoted
from tests.functional.rough.test_shapes import struct
from tests.functional.rough.test_times import far

pytestmark = pytest.mark.usefixtures("small_data")

TASK = "{{ config(materialized='continual_task') }}\n"
COPY = TASK + "from transform {{ ref('INPUT') }} using (select * from {{ ref('INPUT') }})"
UPSERT = (
    TASK
    + """on input {{ ref('INPUT') }} as (
  delete from {{ this }} where k in (select k from {{ ref('INPUT') }}) or k is null;
  insert into {{ this }} select k, max(v) as v from {{ ref('INPUT') }} group by k
)"""
)
RETAIN = TASK + "from retain {{ ref('INPUT') }} while (v < 99)"
INPUTS = {  # rows only come
    "hourly": (COPY, "select id, 'v' as v from range(9) where id < 2 + :n", ""),
    "token": (COPY, "select id as `select`, 'a' as `the \"url\"` from range(9) where id < 2 + :n", ""),
    "odd_columns": (COPY, "select " + ", ".join(f"id as {quoted(name)}" for name in COLUMNS) + " from range(9) where id < 2 + :n", ""),
    "wide_40": (COPY, "select " + ", ".join(f"id + {n} as c{n}" for n in range(40)) + " from range(9) where id < 2 + :n", ""),
    "struct_40": (COPY, f"select id, {struct(40)} as s, map('k', {struct(3)}) as m from range(9) where id < 2 + :n", ""),
    "far_dates": (COPY, f"select id, {far('timestamp')}, date'0001-01-01' as d from range(9) where id < 2 + :n", ""),
    "row_5000_times": (COPY, "select 7 as a, null :: string as b from range(5000) where id < 4000 + :n", ""),
    "null_keys": (UPSERT, "select if(id < 3, null, id) as k, id + 10 * :n as v from range(5)", "select if(id < 3, null, id) as k, max(id) + 10 * :n as v from range(5) group by 1"),
    "hot_key": (UPSERT, "select 1 as k, id as v from range(3000) where id < 1000 * :n", "select 1 as k, 1000 * :n - 1 as v"),
    "retained": (RETAIN, "select id as k, id as v from range(95, 105) where id < 97 + :n", "select id as k, id as v from range(95, 105) where id < 97 + :n"),
}  # fmt: skip


class TestTasks(Table):
    CASES = {name: Case(query, wanted=wanted) for name, (_, query, wanted) in INPUTS.items()}

    @pytest.fixture(scope="class")
    def models(self):
        inputs = {f"{name}_in.sql": case.model() for name, case in self.CASES.items()}
        tasks = {f"{name}.sql": form.replace("INPUT", f"{name}_in") for name, (form, _, _) in INPUTS.items()}
        return {"step.sql": "select 1L as n", **inputs, **tasks}
