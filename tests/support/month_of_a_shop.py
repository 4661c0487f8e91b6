"""The project and the data of `tests.long.month`: a shop whose orders arrive day by day, some of
them late, corrected or deleted later.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass, field
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

FIRST = datetime.datetime(2026, 6, 1, 6, tzinfo=datetime.timezone.utc)
BEFORE = 10
COUNTRIES = ("de", "fr", "it", "jp", "us")
STATES = ("placed", "paid", "sent")
LATE, CORRECTED, DELETED = 0.03, 0.02, 0.01  # shares of a day's orders
ORDERS = pa.schema(
    [
        ("order_id", pa.int64()),
        ("customer_id", pa.int32()),
        ("country", pa.string()),
        ("day", pa.date32()),
        ("amount", pa.decimal128(10, 2)),
        ("status", pa.string()),
        ("version", pa.int32()),
        ("deleted", pa.bool_()),
    ]
)
RATES = pa.schema([("day", pa.date32()), ("rate", pa.decimal128(6, 2))])
PROJECT = """
name: shop
version: '1.0'
profile: shop
flags: {send_anonymous_usage_stats: false}
models: {shop: {+materialized: self_correcting_mv}}
"""
SOURCES = """
sources:
  - {name: raw, schema: raw, tables: [{name: orders}, {name: rates}]}
"""
REGISTER = """
{% macro register(place) %}
  {% do run_query('create schema if not exists raw') %}
  {% for name in ['orders', 'rates'] %}
    {% do run_query("create table if not exists raw." ~ name ~ " using parquet location '" ~ place ~ "/" ~ name ~ "'") %}
  {% endfor %}
{% endmacro %}
"""
SCHEMA = """
models:
  - name: orders
    config: {{contract: {{enforced: true}}, audit: true}}
    constraints:
      - {{type: primary_key, columns: [order_id]}}
      - {{type: unique, columns: [order_id]}}
      - {{type: foreign_key, columns: [country], expression: "countries (code)"}}
      - {{type: custom, expression: "cluster by (day)"}}
    columns:
      - {{name: order_id, data_type: bigint, constraints: [{{type: not_null}}], data_tests: [unique]}}
      - {{name: customer_id, data_type: int, constraints: [{{type: not_null}}]}}
      - {{name: country, data_type: string, data_tests: [not_null, {{relationships: {related}}}]}}
      - {{name: day, data_type: date}}
      - {{name: amount, data_type: "{amount}", constraints: [{{type: check, expression: "amount >= 0"}}]}}
      - {{name: status, data_type: string, data_tests: [{{accepted_values: {accepted}}}]}}
seeds:
  - name: countries
    columns: [{{name: code, data_tests: [unique, not_null]}}, {{name: title, data_tests: [not_null]}}]
"""
MODELS = {
    "orders": """select order_id, customer_id, country, day, cast(amount as {amount}) as amount, status
from (
  select *, row_number() over (partition by order_id order by version desc) as newest
  from {{{{ source('raw', 'orders') }}}}
)
where newest = 1 and not deleted""",
    "daily_revenue": """select day, country, count(*) as orders, sum({factor}amount) as revenue
from {{{{ ref('orders') }}}}
group by day, country""",
    "{customers}": """{{{{ config(max_change={{'percent': 40}}) }}}}
select o.customer_id, c.title as country, count(*) as orders, sum(o.amount) as total
from {{{{ ref('orders') }}}} o join {{{{ ref('countries') }}}} c on c.code = o.country
group by o.customer_id, c.title""",
    "margin": """select o.day, cast(sum(o.amount) / max(r.rate) as decimal(20, 4)) as margin
from {{{{ ref('orders') }}}} o join {{{{ source('raw', 'rates') }}}} r on r.day = o.day
group by o.day""",
    "recent": """{{{{ config(materialized='view') }}}}
select * from {{{{ ref('orders') }}}} where day >= date'2026-06-03'""",
    "open_orders": "select country, status, count(*) as orders from {{{{ ref('recent') }}}} group by country, status",
    "order_log": """{{{{ config(materialized='continual_task') }}}}
from transform {{{{ ref('orders') }}}} using (select order_id, amount, status from {{{{ ref('orders') }}}})""",
}


def schema(amount: str) -> str:
    """The properties of the models, as the installed dbt spells the arguments of tests."""
    related, accepted = "{to: ref('countries'), field: code}", "{values: [placed, paid, sent]}"
    if version("dbt-core") >= "1.11":  # 1.10 does not know this, later ones warn without it
        related, accepted = (f"{{arguments: {each}}}" for each in (related, accepted))
    return SCHEMA.format(amount=amount, related=related, accepted=accepted)


@dataclass
class Shop:
    """The project at ``root``, as it is after the deployments so far."""

    root: Path
    amount: str = "decimal(10,2)"
    factor: str = ""
    customers: str = "customers"

    def write(self, settings: str = "") -> None:
        """Write all files. ``settings`` are Spark's, as JSON."""
        target = {"type": "mvsink", "threads": 2, "shard_root": str(self.root / "shards")}
        target["server_side_parameters"] = json.loads(settings or "{}")
        outputs = {name: {**target, "schema": f"shop_{name}"} for name in ("dev", "prod")}
        profile = {"shop": {"target": "dev", "outputs": outputs}}
        seed = "\n".join(("code,title", *(f"{code},Land {code.upper()}" for code in COUNTRIES)))
        files = {
            "dbt_project.yml": PROJECT,
            "profiles.yml": json.dumps(profile),
            "macros/register.sql": REGISTER,
            "seeds/countries.csv": seed + "\n",
            "models/sources.yml": SOURCES,
            "models/schema.yml": schema(self.amount),
        }
        for path, text in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)
        self.deploy()

    def deploy(self) -> None:
        """Write the models as they are now."""
        for old in (self.root / "models").glob("*.sql"):
            old.unlink()
        words = {"amount": self.amount, "factor": self.factor, "customers": self.customers}
        for name, text in MODELS.items():
            (self.root / "models" / f"{name.format(**words)}.sql").write_text(text.format(**words))
        (self.root / "models" / "schema.yml").write_text(schema(self.amount))


@dataclass
class Feed:
    """What the shop's systems deliver: a file of orders a day, so many ``per_day``, and a rate."""

    place: Path
    per_day: int
    random: Random
    newest: dict[int, dict[str, object]] = field(default_factory=dict)  # by order_id
    waiting: list[tuple[int, int]] = field(default_factory=list)  # late: the day they come, order_id
    withheld: dict[int, dict[str, object]] = field(default_factory=dict)

    def day(self, number: int, *, rate: str = "1.25") -> None:
        """The files of that day: new orders, late ones, corrections, deletions. The first one also
        has those of `BEFORE` earlier days.
        """
        date = (FIRST + datetime.timedelta(days=number - 1)).date()
        days = BEFORE + 1 if number == 1 else 1
        rows = [self._new(number, index, date) for index in range(self.per_day * days)]
        late = [row for row in rows if self.random.random() < LATE]
        for row in late:
            self.withheld[int(str(row["order_id"]))] = row
            self.waiting.append((number + self.random.randint(1, 5), int(str(row["order_id"]))))
        rows = [row for row in rows if row not in late]
        rows += [self.withheld.pop(key) for due, key in self.waiting if due <= number]
        self.waiting = [each for each in self.waiting if each[0] > number]
        known = sorted(self.newest)
        for key in self.random.sample(known, int(len(known) and self.per_day * (CORRECTED + DELETED))):
            rows.append(self._changed(key))
        self.deliver(f"day-{number:02d}", rows)
        self._file("rates", f"day-{number:02d}", [{"day": date, "rate": Decimal(rate)}], RATES)

    def deliver(self, name: str, rows: list[dict[str, object]]) -> None:
        """One file of orders."""
        for row in rows:
            self.newest[int(str(row["order_id"]))] = row
        self._file("orders", name, rows, ORDERS)

    def delete_half(self, number: int) -> list[int]:
        """A file by mistake, which deletes half of all orders; their ids."""
        chosen = sorted(self.newest)[::2]
        self.deliver(f"mistake-{number:02d}", [self._again(key, deleted=True) for key in chosen])
        return chosen

    def restore(self, number: int, keys: list[int]) -> None:
        """The file that corrects that."""
        self.deliver(f"correction-{number:02d}", [self._again(key, deleted=False) for key in keys])

    def correct_rates(self, days: range) -> None:
        """The rates of these days, in files of the same names."""
        for number in days:
            date = (FIRST + datetime.timedelta(days=number - 1)).date()
            self._file("rates", f"day-{number:02d}", [{"day": date, "rate": Decimal("1.30")}], RATES)

    def _new(self, number: int, index: int, date: datetime.date) -> dict[str, object]:
        return {
            "order_id": number * 100_000 + index,
            "customer_id": int(5_000 * self.random.random() ** 2),  # some buy more often
            "country": self.random.choice(COUNTRIES),
            "day": date,
            "amount": Decimal(self.random.randrange(100, 90_000)) / 100,
            "status": self.random.choice(STATES),
            "version": 1,
            "deleted": False,
        }

    def _changed(self, key: int) -> dict[str, object]:
        row = self._again(key, deleted=self.random.random() < DELETED / (CORRECTED + DELETED))
        return {**row, "amount": Decimal(self.random.randrange(100, 90_000)) / 100, "status": "paid"}

    def _again(self, key: int, *, deleted: bool) -> dict[str, object]:
        row = self.newest[key]
        return {**row, "version": int(str(row["version"])) + 1, "deleted": deleted}

    def _file(self, table: str, name: str, rows: list[dict[str, object]], schema: pa.Schema) -> None:
        directory = self.place / table
        directory.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, schema), directory / f".{name}")
        (directory / f".{name}").rename(directory / f"{name}.parquet")
