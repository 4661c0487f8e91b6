"""Whether Spark reads two queries alike: a comparison of their analyzed plans; nothing is run.

Plans are compared as Spark compares them to find cached data: by structure, whatever columns and
aliases are called. Those of generators (`explode`) never are the same for Spark, which keeps the
numbers of their columns: their texts are compared. The session is a clone, so that the stand-ins
that queries name are no views of the user's session. A stand-in has columns and nothing else, and
is equal to no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.engine.plan_text import comparable

_SHOWN = "spark.sql.debug.maxToStringFields"  # else the text of a plan leaves columns out
_EVERY = "1000000"


def same_plan(session: Any, one: str, other: str, stand_ins: Mapping[str, Sequence[tuple[str, str]]]) -> bool:
    """See `Engine.same_plan`. ``session``: PySpark's, in this process. Raises Spark's errors."""
    clone = session._jsparkSession.cloneSession()
    clone.conf().set(_SHOWN, _EVERY)
    types = session._jvm.org.apache.spark.sql.types.StructType
    for name, columns in stand_ins.items():
        schema = types.fromDDL(", ".join(f"{sql.identifier(column)} {kind}" for column, kind in columns))
        rows = session._jsc.emptyRDD()  # one for each: no other relation reads it
        clone.createDataFrame(rows, schema).createOrReplaceTempView(name)
    first, second = (clone.sql(text).queryExecution() for text in (one, other))
    if first.normalized().sameResult(second.normalized()):
        return True
    if "Generate " not in (text := first.analyzed().toString()):
        return False
    return comparable(text) == comparable(second.analyzed().toString())
