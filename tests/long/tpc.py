"""The tables of Spark's TPC-H and TPC-DS queries, with a few rows that their filters keep."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

from tests.long.spark_tests_jar import Script, queries
from tests.unit.incremental.test_texts import schema

FOLDERS = ("tpch", "tpcds", "tpcds-modifiedQueries", "tpcds-v2.7.0")
ROWS = 40
KEY = re.compile(r"(_sk|key|_number|_id)$")


def scripts() -> Iterator[Script]:
    """One for each set of queries; before them come the statements that make its tables."""
    for folder in FOLDERS:
        texts = queries(folder)
        tables = schema("tpch" if folder == "tpch" else "tpcds")
        whole = "\n".join(texts.values()).lower()
        made = [
            f"create temporary view {name} as {_rows(Random(name), columns, whole)}"
            for name, columns in tables.items()
        ]
        yield Script(folder, [*made, *texts.values()])


def _rows(random: Random, columns: list[tuple[str, str]], texts: str) -> str:
    drawn = {name: _values(random, name, kind, texts) for name, kind in columns}
    lines = [
        "("
        + ", ".join("null" if random.random() < 0.03 else random.choice(each) for each in drawn.values())
        + ")"
        for _ in range(ROWS)
    ]
    typed = ", ".join(f"cast({name} as {kind}) as {name}" for name, kind in columns)
    return f"select {typed} from values {', '.join(lines)} as t({', '.join(drawn)})"


def _values(random: Random, name: str, kind: str, texts: str) -> list[str]:
    """Those that the queries compare the column with, and a few others."""
    if KEY.search(name):
        return [f"'{n}'" for n in range(1, 6)]
    behind = re.findall(rf"\b{name}\b[^;]{{0,30}}?(?:=|in|between|like|<|>)([^;]{{0,90}})", texts)
    literals = re.findall(r"'([^'\n]*)'" if kind == "string" else r"\b(\d+(?:\.\d+)?)\b", " ".join(behind))
    if kind == "date":
        days = re.findall(r"'(\d{4}-\d{2}-\d{2})'", texts) or ["2000-01-01"]
        return [f"'{random.choice(days)}'" for _ in range(6)]
    if kind.startswith(("decimal", "double")):
        return [f"'{n}'" for n in ("0.00", "0.05", "0.06", "10.00", "99.50", "1.25")]
    if kind == "string":
        values = random.sample(sorted({*literals}), min(4, len({*literals})))
        return [f"'{each.replace('%', '')}'" for each in values] + ["'x'", "'y'"]
    fitting = sorted({each for each in literals if "." not in each and int(each) < 2**31})
    return [f"'{each}'" for each in random.sample(fitting, min(4, len(fitting)))] + ["'1'", "'2'", "'3'"]
