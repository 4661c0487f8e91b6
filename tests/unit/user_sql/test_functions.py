"""Every function of Spark's own registry is judged once. The registry is read from its class file:
the names are string constants there.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest

from dbt.adapters.mvsink.user_sql import functions

# String constants of the class that are no names of functions: parts of messages and groups.
NOISE = {"class", "arguments", "conversion_funcs"}
JUDGED = {
    name: getattr(functions, name)
    for name in ("ELSEWHERE", "AGGREGATES", "WINDOWS", "GENERATORS", "REFUSED", "ROW_BY_ROW")
}


def constants(data: bytes) -> Iterator[str]:
    """The string constants of a Java class file (JVM specification, 4.4)."""
    texts, strings = {}, []
    (count,) = struct.unpack(">H", data[8:10])
    position, index = 10, 1
    while index < count:
        tag = data[position]
        if tag == 1:
            (length,) = struct.unpack(">H", data[position + 1 : position + 3])
            texts[index] = data[position + 3 : position + 3 + length].decode("utf-8", "replace")
            position += 3 + length
        else:
            if tag == 8:
                strings.append(struct.unpack(">H", data[position + 1 : position + 3])[0])
            position += {5: 9, 6: 9, 7: 3, 8: 3, 16: 3, 19: 3, 20: 3, 15: 4}.get(tag, 5)
            index += tag in (5, 6)
        index += 1
    return (texts[string] for string in strings)


@cache
def spark_names(registry: str) -> frozenset[str]:
    [jar] = (Path(pyspark.__file__).parent / "jars").glob("spark-catalyst_*.jar")
    data = ZipFile(jar).read(f"org/apache/spark/sql/catalyst/analysis/{registry}$.class")
    names = {text for text in constants(data) if re.fullmatch(r"[a-z_][a-z0-9_]*", text)}
    return frozenset(names - NOISE)


@pytest.mark.parametrize("registry", ["FunctionRegistry", "TableFunctionRegistry"])
def test_every_function_of_spark_is_judged(registry):
    judged = frozenset().union(*JUDGED.values(), functions.TABLE_FUNCTIONS)
    assert len(spark_names("FunctionRegistry")) > 450
    assert spark_names(registry) - judged == set()


def test_no_function_is_judged_twice():
    twice = {(one, other): JUDGED[one] & JUDGED[other] for one, other in combinations(JUDGED, 2)}
    assert {pair: names for pair, names in twice.items() if names} == {}


def test_every_aggregate_is_judged_once():
    """Whether it is repeatable: `incremental` may then evaluate it twice."""
    judged = [functions.REPEATABLE_AGGREGATES, functions.SUMS, functions.UNREPEATABLE_AGGREGATES]
    assert frozenset().union(*judged) == functions.AGGREGATES
    assert sum(map(len, judged)) == len(functions.AGGREGATES)


def test_every_window_function_with_a_rule_is_judged_once():
    assert functions.PEER_WINDOWS | functions.ROW_WINDOWS < functions.WINDOWS
    assert not functions.PEER_WINDOWS & functions.ROW_WINDOWS


def test_what_needs_no_parentheses_comes_from_elsewhere():
    assert functions.BARE <= functions.ELSEWHERE
