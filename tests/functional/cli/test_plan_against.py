"""`mvsink plan --against` on a project like jaffle-shop: its numbers are what `dbt run` in that
target then does, each model on what the one before would hold; and nothing is left.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from dbt.cli.main import dbtRunner
from dbt.tests.util import write_file

from dbt.adapters.mvsink.cli.main import cli
from tests.functional.materialization.base import responses

pytestmark = pytest.mark.usefixtures("small_data")


def mv(query, **configs):
    listed = "".join(f", {name}={value!r}" for name, value in configs.items())
    return f"{{{{ config(materialized='self_correcting_mv'{listed}) }}}} {query}"


VIEW = "{{ config(materialized='view') }} "
TABLE = "{{ config(materialized='table') }} "
SCHEMA = """
models:
- {name: customers, columns: [{name: customer_id, data_tests: [unique]}]}
- {name: orders, columns: [{name: order_id, data_tests: [unique]}]}
- {name: order_payments, columns: [{name: order_id, data_tests: [unique]}]}
- {name: by_status, columns: [{name: status, data_tests: [unique]}]}
"""
IN_PROD = {
    "stg_customers": VIEW
    + "select id customer_id, first_name, last_name from parquet.`{{ var('raw') }}/customers`",
    "stg_orders": VIEW
    + "select id order_id, user_id customer_id, order_date, status from parquet.`{{ var('raw') }}/orders`",
    "stg_payments": mv(
        "select id payment_id, order_id, method, amount / 100 amount from parquet.`{{ var('raw') }}/payments`"
    ),
    "order_payments": mv(
        "select order_id, sum(amount) total, count(*) n from {{ ref('stg_payments') }} group by order_id"
    ),
    "orders": mv(
        "select o.order_id, o.customer_id, o.status, p.total from {{ ref('stg_orders') }} o "
        "left join {{ ref('order_payments') }} p on o.order_id = p.order_id"
    ),
    "customers": mv(
        "select c.customer_id, c.first_name, min(o.order_id) first_order, count(o.order_id) orders, sum(o.total) value "
        "from {{ ref('stg_customers') }} c left join {{ ref('orders') }} o on o.customer_id = c.customer_id "
        "group by c.customer_id, c.first_name"
    ),
    "statuses": TABLE + "select distinct status from {{ ref('stg_orders') }}",
    "by_status": mv(
        "select s.status, count(o.order_id) n, sum(o.total) total from {{ ref('statuses') }} s "
        "left join {{ ref('orders') }} o on o.status <=> s.status group by s.status"
    ),
    "methods": mv("select method, amount > 10 large from {{ ref('stg_payments') }}"),
    "names": mv("select last_name, first_name from {{ ref('stg_customers') }} where customer_id < 5"),
    "dates": mv("select order_date from {{ ref('stg_orders') }}"),
}
# One has other rows, one a column more, one none of its columns, one is new, one is as it was.
CHANGED = {
    **IN_PROD,
    "stg_payments": IN_PROD["stg_payments"] + " where coalesce(method, '') <> 'coupon'",
    "orders": IN_PROD["orders"].replace("p.total from", "p.total, o.order_date from"),
    "methods": IN_PROD["methods"].replace("> 10", "> 5"),
    "dates": mv("select year(order_date) year from {{ ref('stg_orders') }}"),
    "returned": mv("select order_id, total from {{ ref('orders') }} where status = 'returned'"),
}
CUSTOMERS = [(1, "Ann", "O'Neil"), (2, "Bob", None), (3, "Ann", "O'Neil"), (4, "Ç`d", "")]
ORDERS = [(n, n % 4 + 1 if n != 9 else None, n % 3, n % 3) for n in range(1, 13)]
PAYMENTS = [(n, n % 12 + 1, n % 4, 100 * (n % 15)) for n in range(1, 31)]


STATUSES, METHODS = ("placed", "returned", None), ("coupon", "card", "bank", None)
NAMES = {
    "customers": ("id", "first_name", "last_name"),
    "orders": ("id", "user_id", "order_date", "status"),
    "payments": ("id", "order_id", "method", "amount"),
}


def raw_tables(customers, orders, payments):
    """The rows of the source's tables."""
    return {
        "customers": customers,
        "orders": [
            (id, user, date(2019, 1, 1) + timedelta(days=day), STATUSES[status])
            for id, user, day, status in orders
        ],
        "payments": [(id, order, METHODS[method], amount) for id, order, method, amount in payments],
    }


BEFORE = raw_tables(CUSTOMERS, ORDERS, PAYMENTS)
LATER = raw_tables(
    [*CUSTOMERS, (5, "Eve", "X")],
    [(*order[:3], 1 if order[0] == 3 else order[3]) for order in ORDERS if order[0] != 7],
    [*PAYMENTS, (31, 2, 1, 100), (32, 2, 1, 100)],
)


class TestAgainst:
    @pytest.fixture(scope="class")
    def models(self):
        return {"schema.yml": SCHEMA} | {f"{name}.sql": text for name, text in IN_PROD.items()}

    @pytest.fixture(scope="class")
    def raw(self, tmp_path_factory):
        return tmp_path_factory.mktemp("raw")

    @pytest.fixture(scope="class")
    def project_config_update(self, raw):
        return {"vars": {"raw": str(raw)}}

    @pytest.fixture(scope="class")
    def profiles_config_update(self, dbt_profile_target, unique_schema):
        prod = {**dbt_profile_target, "schema": f"{unique_schema}_prod"}
        mine = {**dbt_profile_target, "schema": unique_schema}
        return {"test": {"target": "default", "outputs": {"default": mine, "prod": prod}}}

    @pytest.fixture(autouse=True)
    def own_place(self, tmp_path, monkeypatch):
        """Other tests rehearse at the same time, in the machine's temporary directory."""
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    @pytest.fixture(autouse=True)
    def prod(self, project, raw, shard_root):
        """What is in production."""
        self.shards = shard_root
        self.load(raw, BEFORE)
        self.write(project, IN_PROD)
        (Path(project.project_root) / "models" / "returned.sql").unlink(missing_ok=True)
        self.run_prod(project, "--full-refresh")

    def load(self, raw, tables):
        """Replace the source's files."""
        for name, rows in tables.items():
            place = raw / name
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            columns = dict(zip(NAMES[name], zip(*rows, strict=True), strict=True))
            pq.write_table(pa.table(columns), place / f"{time.time_ns()}.parquet")

    def write(self, project, models):
        for name, text in models.items():
            write_file(text, project.project_root, "models", f"{name}.sql")

    def run_prod(self, project, *arguments, passes=True):
        # `run_dbt` takes the profile of the last command, which was a temporary one
        done = dbtRunner().invoke(["run", "--target", "prod", *self.place(project), *arguments])
        assert done.success == passes, done.exception
        return responses(project)

    def place(self, project):
        return ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]

    def mvsink(self, project, *arguments):
        return CliRunner().invoke(cli, [*arguments, *self.place(project)])

    def plan(self, project, *arguments, code=2):
        """By model. Nothing is written, and nothing is left."""
        before = self.everything(project)
        result = self.mvsink(
            project, "plan", "--against", "prod", "--output", "json", "--detailed-exitcode", *arguments
        )
        assert result.exit_code == code, result.output
        assert self.everything(project) == before
        return {model["model"]: model for model in json.loads(result.stdout)["models"]}

    def everything(self, project):
        files = sorted((str(path), path.stat().st_size) for path in self.shards.rglob("*"))
        schemas = sorted(str(row[0]) for row in project.run_sql("show schemas", fetch="all"))
        return files, schemas, sorted(Path(tempfile.gettempdir()).glob("mvsink_plan_*"))

    def contents(self, project):
        """The rows of prod's maintained models, each a mapping."""
        schema, contents = f"{project.test_schema}_prod", {}
        views = project.run_sql(f"show views in {schema}", fetch="all")
        shown = {str(name) for _, name, is_temporary in views if not is_temporary}
        for name in sorted(shown - {"stg_customers", "stg_orders"}):
            described = project.run_sql(f"describe {schema}.{name}", fetch="all")
            columns = [str(row[0]) for row in described]
            rows = project.run_sql(f"select * from {schema}.{name}", fetch="all")
            contents[name] = columns, [dict(zip(columns, map(str, row), strict=True)) for row in rows]
        return contents

    def test_its_numbers_are_what_the_run_then_does(self, project, raw):
        self.write(project, CHANGED)
        self.load(raw, LATER)
        plan, before = self.plan(project, "--sample", "100"), self.contents(project)
        ran, after = self.run_prod(project), self.contents(project)
        assert set(plan) == set(after) and set(after) - set(before) == {"returned"}
        for name, planned in plan.items():
            if name == "returned":
                rows = len(after[name][1])
                assert (planned["difference"], planned["inserted"], planned["deleted"]) == (None, rows, 0)
                continue
            columns = [column for column in before[name][0] if column in after[name][0]]
            old, new = (
                Counter(tuple(row[column] for column in columns) for row in side[name][1])
                for side in (before, after)
            )
            counts = (planned["inserted"], planned["deleted"])
            changes = ((new - old).total(), (old - new).total())
            assert counts == (changes if columns else (new.total(), old.total())), name
            assert set(planned["columns_added"]) == set(after[name][0]) - set(before[name][0])
            assert set(planned["columns_removed"]) == set(before[name][0]) - set(after[name][0])
            assert planned["generation"] == ran[name].get("generation", "")
            if before[name][0] == after[name][0]:
                assert counts == (ran[name]["rows_inserted"], ran[name]["rows_deleted"]), name
            key = (planned["difference"]["key"] or [None])[0]
            if key is not None:
                keys = [Counter(row[columns.index(key)] for row in side.elements()) for side in (old, new)]
                paired = [
                    row
                    for row in old - new
                    if keys[0][row[columns.index(key)]] == 1 == keys[1][row[columns.index(key)]]
                ]
                assert planned["difference"]["changed"] == len(paired), name
        unchanged = [name for name, each in plan.items() if each["inserted"] == each["deleted"] == 0]
        assert unchanged == ["names"] and not plan["names"]["generation"]
        assert plan["orders"]["difference"]["changed"] > 0 < plan["customers"]["difference"]["changed"]

    @pytest.mark.seldom
    def test_the_gate_and_the_policies_are_those_of_the_other_target(self, project, raw):
        changed = {
            "stg_payments": mv(CHANGED["stg_payments"].partition("}} ")[2], max_change={"rows": 1}),
            "methods": mv(CHANGED["methods"].partition("}} ")[2], on_schema_change="fail").replace(
                " large", " big"
            ),
            "order_payments": mv(
                IN_PROD["order_payments"].partition("}} ")[2], audit=True, max_change={"percent": 100}
            ),
        }
        paused = self.mvsink(project, "hold", "names", "--target", "prod", "--yes", "--reason", "of a test")
        assert paused.exit_code == 0, paused.output
        self.write(project, {**changed, "names": IN_PROD["names"].replace("< 5", "< 3")})
        plan = self.plan(project, "--select", *changed, "names", code=1)
        assert "max_change allows 1" in plan["stg_payments"]["gate_message"]
        assert plan["stg_payments"]["gate"] is False
        assert "on_schema_change is 'fail'" in plan["methods"]["error"]
        assert (plan["order_payments"]["gate"], plan["order_payments"]["error"]) == (True, "")
        assert "of a test" in plan["names"]["paused"] and plan["names"]["difference"] is None
        shown = self.contents(project)
        ran = self.run_prod(project, "--select", "stg_payments", "methods", "names", passes=False)
        assert "paused" in ran["names"] and ran["stg_payments"] == ran["methods"] == {}
        assert self.contents(project) == shown
        assert self.mvsink(project, "release", "names", "--target", "prod", "--yes").exit_code == 0

    def test_what_is_not_selected_is_read_where_the_target_has_it(self, project, raw):
        self.write(project, CHANGED)
        plan = self.plan(project, "--select", "methods", "returned")
        assert set(plan) == {"methods", "returned"} and plan["methods"]["inserted"] > 0
        before = self.contents(project)["orders"][1]
        # an earlier test has left a shard of `returned`
        difference = plan["returned"]["difference"]
        rows = plan["returned"]["inserted"] if difference is None else difference["b"]["rows"]
        assert rows == sum(row["status"] == "returned" for row in before)
