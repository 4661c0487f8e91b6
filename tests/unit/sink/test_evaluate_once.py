"""When a query is evaluated once instead of twice."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.shard import DataFile
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.layout import Directory
from dbt.adapters.mvsink.sink import Desired
from dbt.adapters.mvsink.sink.evaluate_once import FEW_ROWS, evaluated_once

JOIN = """== Physical Plan ==
AdaptiveSparkPlan isFinalPlan=false
+- SortMergeJoin [k#1L], [k#2L], Inner
   :- Sort [k#1L ASC NULLS FIRST], false, 0
   :  +- Exchange hashpartitioning(k#1L, 4), ENSURE_REQUIREMENTS, [plan_id=35]"""
COUNT = """== Physical Plan ==
+- HashAggregate(keys=[], functions=[count(1)])
   +- Exchange SinglePartition, ENSURE_REQUIREMENTS, [plan_id=11]"""
LOOKUP = """== Physical Plan ==
+- BroadcastHashJoin [k#1L], [k#2L], Inner, BuildRight, false
   +- BroadcastExchange HashedRelationBroadcastMode(List(input[0, bigint, false]),false), [plan_id=20]"""
SCAN = """== Physical Plan ==
*(1) FileScan parquet [exchange#0] Batched: true"""
COLUMNS = (Column("k", parse_type("bigint", "k")),)


@dataclass
class Explaining:
    """An engine that explains every query by one plan."""

    plan: str
    asked: int = 0

    def query(self, query, what):
        assert query.startswith("explain\n")
        self.asked += 1
        return [(self.plan,)]


def shard(rows):
    file = DataFile("batches/b/part-0.parquet", 1, rows=rows)
    layout = Layout("/s", COLUMNS, 0, 1, None, (), (), (), ())
    return replace(layout, base=Directory("b", (file,)))


@pytest.mark.parametrize(
    ("plan", "rows", "once"),
    [
        (JOIN, FEW_ROWS + 1, False),  # much to write
        (JOIN, FEW_ROWS, True),
        (COUNT, 1, True),
        (LOOKUP, 1, False),  # costs little more than its inputs
        (SCAN, 1, False),
        ("", 1, False),
    ],
)
def test_a_query_that_shuffles_is_evaluated_once_where_that_costs_less(plan, rows, once):
    assert evaluated_once(Explaining(plan), Desired("select 1 k", COLUMNS, 0), shard(rows)) is once


def test_the_plan_is_not_asked_for_where_it_decides_nothing():
    engine = Explaining(JOIN)
    evaluated_once(engine, Desired("select 1 k", COLUMNS, 0), shard(FEW_ROWS + 1))
    assert engine.asked == 0
