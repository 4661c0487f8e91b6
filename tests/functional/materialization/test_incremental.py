"""Contents computed from the changes of the inputs: what every refresh gives, and what is said."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dbt.tests.util import run_dbt

from tests.functional.materialization.base import responses

pytestmark = pytest.mark.usefixtures("small_data")
MV = "{{ config(materialized='self_correcting_mv', verify='never') }} "
VIEW = "{{ config(materialized='view') }} "
ALWAYS = "{{ config(materialized='self_correcting_mv', incremental='always', verify='never') }} "
KEPT = ALWAYS.replace("verify", "state='always', verify")
QUERIES = {
    "joined": "select o.id, c.name, o.amount * 2 twice from {orders} o join {customers} c on o.customer = c.id",
    "padded": "select o.id, c.name from {orders} o left join {customers} c on o.customer = c.id",
    "without": "select id from {orders} o left anti join {customers} c on o.customer = c.id",
    "both": "select id, 'o' kind from {orders} union all select id, 'c' from {customers} where name is not null",
    "copies": "select name from {customers}",
    "recent": "select id from {orders} where at > {now} - interval 1 hour",
    "grouped": "select customer, count(*) n, sum(amount) total, min(at) first from {orders} group by customer having count(*) > 1",
    "of_names": "select name, count(distinct o.id) n from {customers} c left join {orders} o on o.customer = c.id group by name",
    "distinct_names": "select distinct name from {customers}",
    "ranked": "select id, row_number() over (partition by customer order by id) place from {orders}",
    "whole": "select count(*) n, max(amount) m from {orders}",
    "through_views": "select o.customer, c.name, sum(doubled) total, max(o.id) newest from {sold} o left join {names} c on o.customer = c.id group by 1, 2",
}
VIEWS = {
    "names": "with source as (select * from {customers}) select id, upper(name) name from source -- all",
    "sold": "select o.*, amount * 2 doubled from {orders} o left semi join {names} n on o.customer = n.id",
}
# these keep their sums
SUMS = {
    "totals": "select customer, sum(amount) total, avg(amount) mean, avg(id) ids, count(*) n from {orders} group by customer having count(*) > 1",
    "total": "select sum(amount * 1.5) total, count_if(amount > 20) high, 100.0 * sum(if(id > 3, amount, 0)) / sum(amount) share from {orders}",
    "per_name": "select upper(c.name) name, sum(o.amount) total, count(o.amount) n from {customers} c left join {orders} o on o.customer = c.id group by upper(c.name)",
    "recently": "select customer, sum(amount) total from {orders} where at > {now} - interval 1 hour group by customer",
}


class TestIncremental:
    @pytest.fixture(scope="class")
    def place(self, tmp_path_factory):
        return tmp_path_factory.mktemp("files")

    @pytest.fixture(scope="class")
    def models(self):
        return {
            "raw.yml": "sources: [{name: raw, schema: \"{{ target.schema }}\", tables: [{name: orders_files}, {name: customers_files}]}]",
            "orders.sql": MV + "select * from {{ source('raw', 'orders_files') }}",
            "customers.sql": MV + "select * from {{ source('raw', 'customers_files') }}",
            **{f"{name}.sql": VIEW + self.query(query) for name, query in VIEWS.items()},
            **{f"{name}.sql": ALWAYS + self.query(query) for name, query in QUERIES.items()},
            **{f"{name}.sql": KEPT + self.query(query) for name, query in SUMS.items()},
        }  # fmt: skip

    @staticmethod
    def query(text):
        names = {
            "orders": "{{ ref('orders') }}",
            "customers": "{{ ref('customers') }}",
            **{name: f"{{{{ ref('{name}') }}}}" for name in VIEWS},
            "now": "{{ mv_now() }}",
        }
        return text.format(**names)

    def run(self, project, time, *args):
        """Each model's response."""
        run_dbt(["run", "--vars", json.dumps({"mvsink_run_time": time}), *args])
        return responses(project)

    def previewed(self, project, time):
        """What a run of each model would do, once its inputs are up to date."""
        self.run(project, time, "--select", "orders", "customers")
        chosen = ("--vars", json.dumps({"mvsink_run_time": time, "mvsink_read_only": True}))
        run_dbt(["run", *chosen, "--select", *QUERIES, *SUMS])
        return responses(project)

    def rows(self, project, query):
        return sorted(map(repr, map(tuple, project.run_sql(query, fetch="all"))))

    @pytest.mark.timeout(1800)  # more than a hundred models' runs
    def test_every_refresh_gives_what_evaluating_the_query_gives(self, project, place, mode, method):
        def write(name, rows, schema):
            (place / name).mkdir(exist_ok=True)
            table = pa.table([list(column) for column in zip(*rows, strict=True)], schema=schema)
            pq.write_table(table, place / name / "part.parquet")

        orders = pa.schema([("id", pa.int64()), ("customer", pa.int32()), ("amount", pa.decimal128(10, 2)), ("at", pa.timestamp("us", "UTC"))])  # fmt: skip
        customers = pa.schema([("id", pa.int32()), ("name", pa.string())])
        minute, start = 60_000_000, 1_700_000_000_000_000
        sold = {i: (i, i % 5 if i % 7 else None, i, start + i * minute) for i in range(200)}
        people = {1: (1, "Ann"), 2: (2, None), 3: (3, "Ann"), 8: (8, "Zoe")}

        def arrive():
            write("orders", list(sold.values()), orders)
            write("customers", list(people.values()), customers)

        arrive()
        for name, columns in {"orders": "id bigint, customer int, amount decimal(10,2), at timestamp", "customers": "id int, name string"}.items():  # fmt: skip
            project.run_sql(
                f"create table {project.test_schema}.{name}_files ({columns}) using parquet location '{place / name}'"
            )
        at = start // 1000 + 3_600_000
        self.run(project, at)
        changes = [
            lambda: sold.update({500: (500, 1, 9, start + 70 * minute), 3: (3, 8, 5, start)}),
            lambda: (people.update({2: (2, "Bob"), 4: (4, "Ann")}), sold.pop(10)),
            lambda: (people.pop(1), sold.update({501: (501, None, 1, start + 200 * minute)})),
            lambda: None,
            lambda: (people.clear(), people.update({3: (3, "Ann")})),
        ]
        for step, change in enumerate(changes, start=1):
            change()
            arrive()
            time = at + step * 600_000
            previews = self.previewed(project, time) if step == 2 else {}
            answers = self.run(project, time)
            for name, preview in previews.items():
                assert preview["kind"] == "read-only" and preview["evaluated"]
                # it is staged where no server can read; without sums the query may be evaluated
                here = mode != "never" and method in ("session", "warm")
                if name not in SUMS or not here:
                    assert bool(preview["incremental"]) is here, (name, preview)
                for counted in ("rows_inserted", "rows_deleted"):
                    assert preview[counted] == answers[name][counted], (name, preview)
            names = {name: f"{project.test_schema}.{name}" for name in ("orders", "customers", *VIEWS)}
            for name, query in {**QUERIES, **SUMS}.items():
                wanted = query.format(**names, now=f"timestamp_millis({time})")
                rows = self.rows(project, f"select * from {project.test_schema}.{name}")
                assert rows == self.rows(project, wanted), (step, name)
                response = answers[name]
                changed = mode != "never" and response["evaluated"]
                assert bool(response["incremental"]) is changed, (step, name, response)


class TestRowC:
    """An input shows its columns in another order, and the query names them by place."""

    @pytest.fixture(scope="class")
    def models(self):
        values = "values (1, 2, 3), ({{ var('key', 4) }}, 5, 6)"
        return {
            "dim.sql": MV + "select {{ var('columns', 'a, b, c') }} from (" + values + ") v(a, b, c)",
            "by_place.sql": ALWAYS + "select * from {{ ref('dim') }} union all select -1, -2, -3",
            "in_cte.sql": ALWAYS
            + "with d(x, y, z) as (select * from {{ ref('dim') }}) select x, y from d where z > 0",
        }

    def test_another_order_of_an_input_s_columns_is_noticed(self, project):
        for values in ({}, {"key": 7}, {"columns": "a, c, b", "key": 8}, {"columns": "a, c, b", "key": 9}):
            run_dbt(["run", "--vars", json.dumps(values)])
            key = values.get("key", 4)
            swapped = "columns" in values
            dim = [(1, 3, 2), (key, 6, 5)] if swapped else [(1, 2, 3), (key, 5, 6)]
            names = "a, c, b" if swapped else "a, b, c"
            rows = project.run_sql(f"select {names} from {project.test_schema}.by_place", fetch="all")
            assert sorted(map(tuple, rows)) == sorted([*dim, (-1, -2, -3)])
            rows = project.run_sql(f"select x, y from {project.test_schema}.in_cte", fetch="all")
            assert sorted(map(tuple, rows)) == sorted(row[:2] for row in dim)
