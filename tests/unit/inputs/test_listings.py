"""The tables of files that a query's analyzed plan shows; each is refreshed once per invocation."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.inputs.reads import reads_of, relist
from tests.support.engines import NoEngine

PLAN = """== Parsed Logical Plan ==
'UnresolvedRelation [nowhere.parsed], [], false
== Analyzed Logical Plan ==
id: bigint
Filter exists#1 []
:  +- Relation spark_catalog.shop.odd_name[id#21L] json
+- SubqueryAlias spark_catalog.shop.v1
   +- View (`spark_catalog`.`shop`.`v1`, [id#5L])
      :  +- Relation [id#24L] parquet
      :  +- Relation spark_catalog.shop.t1[id#5L,v#6L] parquet
      +- Relation spark_catalog.shop.t1[id#9L] parquet
== Optimized Logical Plan ==
Relation spark_catalog.shop.elsewhere[id#5L] parquet
"""


class Engine(NoEngine):
    def __init__(self, plan=PLAN):
        self.plan, self.ran = plan, []

    def query(self, query, what):
        if isinstance(self.plan, EngineError):
            raise self.plan
        return [(self.plan,)]

    def relist(self, table):
        self.ran.append(table)
        if table == ["gone"]:
            raise EngineError("not there", "42P01")


T1, ODD = "spark_catalog.shop.t1", "spark_catalog.shop.odd_name"
PLANS = {
    "each table once, below views and in subqueries": (PLAN, [ODD, T1]),
    "no table": ("== Analyzed Logical Plan ==\nProject [1 AS id]\n", []),
    "a plan of another kind": ("PhysicalPlan", []),
    "a plan that leaves out columns": (PLAN.replace("v#6L", "... 3 more fields"), []),
    "a query that cannot be analyzed": (EngineError("no", "42000"), []),
}


@pytest.mark.parametrize(("plan", "tables"), PLANS.values(), ids=PLANS)
def test_tables(plan, tables):
    assert list(reads_of(Engine(plan), "select 1").every_table) == tables


def test_each_is_refreshed_once_per_invocation_and_a_missing_one_fails_nothing():
    engine = Engine()
    for names, invocation in (
        ([T1, "gone"], "listings 1"),
        ([ODD, T1, "gone"], "listings 1"),
        ([T1], "listings 2"),
    ):
        relist(engine, names, invocation)
    assert engine.ran == [name.split(".") for name in (T1, "gone", ODD, T1)]
