"""Compares the analyzed plans of two queries in the embedded Spark; nothing is run.

Plans are compared as Spark compares them to find cached data: by structure, whatever columns and
aliases are called. The session is a clone, so that the stand-ins that queries name are no views of
the user's session. A stand-in has columns and nothing else, and is equal to no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SHOWN, _EVERY = "spark.sql.debug.maxToStringFields", "1000000"  # else a text leaves columns out


def compared(session: Any, one: str, other: str, stand_ins: Mapping[str, str]) -> tuple[bool, str, str]:
    """Whether the plans are the same, and their texts. ``session``: PySpark's, in this process.
    ``stand_ins``: the columns of each, as DDL. Raises Spark's errors.
    """
    clone = session._jsparkSession.cloneSession()
    clone.conf().set(_SHOWN, _EVERY)
    types = session._jvm.org.apache.spark.sql.types.StructType
    for name, columns in stand_ins.items():
        rows = session._jsc.emptyRDD()  # one for each: no other relation reads it
        clone.createDataFrame(rows, types.fromDDL(columns)).createOrReplaceTempView(name)
    first, second = (clone.sql(text).queryExecution() for text in (one, other))
    same = bool(first.normalized().sameResult(second.normalized()))
    texts = ("", "") if same else (plan.analyzed().toString() for plan in (first, second))
    first_text, second_text = map(str, texts)
    return same, first_text, second_text
