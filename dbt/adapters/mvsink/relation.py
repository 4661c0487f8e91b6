"""Relations. A published shard is a view to dbt and to dbt-spark's own materializations."""

from __future__ import annotations

from dataclasses import dataclass

from dbt.adapters.spark.relation import SparkRelation


@dataclass(frozen=True, eq=False, repr=False)
class MvsinkRelation(SparkRelation):
    """See the module."""
