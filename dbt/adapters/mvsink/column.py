"""Columns are dbt-spark's."""

from dbt.adapters.spark.column import SparkColumn as MvsinkColumn

__all__ = ["MvsinkColumn"]
