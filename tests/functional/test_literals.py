"""Literals, names and paths that the adapter writes into SQL: Spark reads the same values, under
every setting that changes how it reads them.
"""

from __future__ import annotations

import datetime as dt
import decimal
import random
from contextlib import ExitStack

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.connection.frames import _literal
from dbt.adapters.mvsink.engine import Column, parse_type, sql
from dbt.adapters.mvsink.engine.predicates import OneOf
from dbt.adapters.mvsink.inputs.parquet_sql import spelled

pytestmark = pytest.mark.usefixtures("small_data")

ON = "true"
SETTINGS = {
    "the defaults": {},
    "backslashes are characters": {"spark.sql.parser.escapedStringLiterals": ON},
    "literals side by side": {"spark.sql.legacy.consecutiveStringLiterals.enabled": ON},
    "both": {
        "spark.sql.parser.escapedStringLiterals": ON,
        "spark.sql.legacy.consecutiveStringLiterals.enabled": ON,
    },
    "names in double quotes": {
        "spark.sql.ansi.doubleQuotedIdentifiers": ON,
        "spark.sql.ansi.enforceReservedKeywords": ON,
    },
    "not ANSI, another zone": {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "Australia/Lord_Howe",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.legacy.exponentLiteralAsDecimal.enabled": ON,
    },
    "nothing is substituted": {"spark.sql.variable.substitute": "false"},
}
ODD = "'\"`\\$%_#?*[]{}()^,;:|&=+~!@<>./- \t\n\r\x0b\x0c\x00\x01\x1f\x7f\x85\xa0é漢\u2028\ufeff😀"
CHOSEN = [
    "", "'", "''", "\\", "\\'", "'\\", "\\\\'", "it''s", "\\n", "\\u0041", "\\101", "\\%", "$", "${", "${x}",
    "${env:HOME}", "$${spark.app.name}", "--", "/* x */", "a;b", "\n", "\r\n", " a ", "null", "x'27'", "%s", "{{ x }}",
    "{% x %}", ":name", "?", "parquet.`x`", "_mv_f0", "e\u0301", "\u00e9", "ß", "İ", ODD,
]  # fmt: skip


def drawn(seed):
    """The texts above, each odd character between others, and random texts of them."""
    chance = random.Random(seed)
    texts = [*CHOSEN, *(f"a{character}b" for character in [*ODD, *map(chr, range(1, 0x180))])]
    texts += ["".join(chance.choices(ODD + "aN0u", k=chance.randint(2, 8))) for _ in range(100)]
    return texts


@pytest.fixture(params=SETTINGS.values(), ids=SETTINGS)
def settings(request, spark):
    with ExitStack() as stack:
        for name, value in request.param.items():
            before = spark.conf.get(name)
            spark.conf.set(name, value)
            stack.callback(spark.conf.set, name, before)
        yield request.param


def rows(spark, query):
    return [tuple(row) for row in spark.sql(query).collect()]


def test_texts(spark, settings, request):
    texts = drawn(request.node.name)
    values = ", ".join(f"({place}, {sql.text(text)})" for place, text in enumerate(texts))
    assert dict(rows(spark, f"select * from values {values} t(place, value)")) == dict(enumerate(texts))
    bound = ", ".join(_literal(text) for text in CHOSEN)
    assert list(rows(spark, f"select {bound}")[0]) == CHOSEN


def test_every_character_is_itself(spark):
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x30000)]))
    assert rows(spark, f"select {sql.text(every)}")[0][0] == every


def test_names(spark, settings, request):
    texts = [text for text in drawn(request.node.name) if text and not sql._VARIABLE.search(text)]
    items = ", ".join(f"{place} {sql.identifier(text)}" for place, text in enumerate(texts))
    assert spark.sql(f"select {items}").columns == texts
    fields = ", ".join(f"{sql.text(text)}, 1" for text in CHOSEN if text)
    shown = spark.sql(f"select named_struct({fields}) s").schema["s"].dataType.names
    assert shown == [text for text in CHOSEN if text]


def test_comments_and_properties(spark, settings):
    texts = [text for text in [*CHOSEN, *(f"a{each}b" for each in ODD)] if "\x00" not in text]
    properties = ", ".join(
        f"{sql.constant(f'k{at}')} = {sql.constant(text)}" for at, text in enumerate(texts)
    )
    comment = sql.constant(ODD.replace("\x00", ""))
    spark.sql(
        f"create or replace view _literals (a comment {comment}) tblproperties ({properties}) as select 1"
    )
    try:
        assert spark.table("_literals").schema["a"].metadata["comment"] == ODD.replace("\x00", "")
        shown = dict(rows(spark, "show tblproperties _literals"))
        assert [shown[f"k{at}"] for at in range(len(texts))] == texts
    finally:
        spark.sql("drop view _literals")


EXTREMES = {
    "tinyint": [-128, 0, 127],
    "smallint": [-(2**15), 2**15 - 1],
    "int": [-(2**31), -1, 2**31 - 1],
    "bigint": [-(2**63), -(2**63) + 1, 0, 2**63 - 1],
    "decimal(38,10)": [decimal.Decimal(each) for each in ("-9999999999999999999999999999.9999999999", "0", "1E-10")],
    "decimal(38,0)": [decimal.Decimal(10**38 - 1), decimal.Decimal(-(10**38) + 1)],
    "string": CHOSEN,
    "date": [-719_162, -141_428, 0, 2_932_896, 2_932_897, -800_000, 106_000_000],  # days
}  # fmt: skip


@pytest.mark.parametrize("kind", EXTREMES)
def test_what_rows_are_looked_for_by(spark, settings, kind):
    """The condition for one value keeps that value, and no other where it is exact."""
    column = Column("v", parse_type(kind, "v"))
    values = [each for each in EXTREMES[kind] if not (kind == "string" and "\x00" in each)]
    arrow = (
        pa.array(values, pa.int32()).cast(pa.date32())
        if kind == "date"
        else pa.array(values, column.type.arrow())
    )
    conditions = [OneOf(column, pa.chunked_array([arrow.slice(at, 1)])) for at in range(len(values))]
    listed = ", ".join(f"({at}, {_other(kind, value)})" for at, value in enumerate(values))
    kept = ", ".join(f"collect_list(at) filter (where {each.sql()})" for each in conditions)
    [result] = rows(spark, f"select {kept} from values {listed} t(at, v)")
    assert list(result) == [[at] for at in range(len(values))]


def _other(kind, value):
    """The value, by other means than what is tested."""
    if kind == "string":
        return f"cast(X'{value.encode().hex()}' as string)"
    return f"date_add(date'1970-01-01', {value})" if kind == "date" else f"cast('{value}' as {kind})"


def test_bigints_and_bindings(spark, settings):
    numbers = EXTREMES["bigint"]
    [result] = rows(spark, f"select {', '.join(map(sql.bigint, numbers))}")
    assert list(result) == numbers
    bound = [
        None,
        True,
        -5,
        2**63 - 1,
        decimal.Decimal("-1.50"),
        1e300,
        5e-324,
        float("inf"),
        dt.date(1, 1, 1),
    ]
    bound += [dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(1, 1, 1)]
    items = ", ".join(f"cast({_literal(each)} as string)" for each in bound[-2:])
    assert list(rows(spark, f"select {', '.join(map(_literal, bound[:-2]))}")[0]) == bound[:-2]
    assert list(rows(spark, f"select {items}")[0]) == ["9999-12-31 23:59:59.999999", "0001-01-01 00:00:00"]


PLACES = ["a'b\"c`d e", "f\\g{h}[i]*?,^", "j%20k+l&m=n#o;p", "${spark.app.name}", "é漢😀", "q~r!s@t(u)v|w"]


@pytest.mark.embedded("files on this machine's disk")
def test_paths(spark, tmp_path):
    for at, place in enumerate(PLACES):
        directory = tmp_path / place
        spark.sql(sql.overwrite_directory(str(directory), f"select {at} at"))
        [file] = [each.name for each in directory.glob("*.parquet")]
        for relation in (sql.parquet_in(str(directory)), sql.parquet(sql.escape_glob(f"{directory}/{file}"))):
            [(read, path)] = rows(spark, f"select at, _metadata.file_path from {relation}")
            assert read == at and path.removeprefix("file:") == spelled(f"{directory}/{file}")
