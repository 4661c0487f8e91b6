"""Globs that name exactly the given files, and columns read as other types."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.engine.sql import STRICT
from dbt.adapters.mvsink.inputs import parquet_sql as reading
from dbt.adapters.mvsink.inputs.parquet_sql import Piece, Shape, braces, converted, select_pieces, unreadable

NAMES = {
    "one file": (["part-1.parquet"], "part-1.parquet"),
    "what they share is written once": (["part-1-c0.parquet", "part-2-c0.parquet"], "part-{1,2}-c0.parquet"),
    "no alternative is empty": (["part-1.parquet", "part-11.parquet"], "{part-1.parquet,part-11.parquet}"),
    "what a glob reads otherwise is escaped": (["a{1}.parquet", "a,^.parquet"], "a{\\{1\\},\\,\\^}.parquet"),
}


@pytest.mark.parametrize(("names", "wanted"), NAMES.values(), ids=NAMES)
def test_names_in_braces(names, wanted):
    assert braces(names) == wanted


@pytest.mark.parametrize("apart", [0, 8])
def test_a_long_list_of_names_becomes_several_relations(monkeypatch, apart):
    monkeypatch.setattr(reading, "MAX_GLOB", 100)
    monkeypatch.setattr(reading, "MAX_DIRECTORIES_APART", apart)
    files = [f"/t/p=1/part-{n:05}-abc.parquet" for n in range(20)]
    pieces = [Piece(path, (("p", "'1'"),)) for path in files]
    columns = [Column("p", parse_type("int", "p"))]
    queries = select_pieces(pieces, columns, "", lambda path: Shape(pa.schema([("a", pa.int32())]), 3))
    assert len(queries) == 5
    for number in range(20):
        assert sum(f"{number:05}"[-2:] in numbers(query) for query in queries) == 1
    assert all("= 12, true" in query for query in queries)


def numbers(query):
    """The two last digits of its files' numbers."""
    head, middles, _ = re.search(r"part-(\d*)\{([^}]*)\}", query).group(1, 2, 0)
    return [(head + middle)[-2:] for middle in middles.split(",")]


@pytest.mark.parametrize(
    "name", ["a:b.parquet", "_a.parquet", ".a.parquet", "p=1/_a.parquet", "p=a:b/a.parquet", "_c/_a"]
)
def test_row_p_a_file_that_a_glob_cannot_name_is_refused(name):
    assert unreadable(["a.parquet", name]) == name
    assert unreadable(["_a=1/a.parquet", "a/_b=1", "a_.parquet", "_a/b.parquet"]) is None


CONVERSIONS = {
    "same": ("int", "int", "c"),
    "wider": ("int", "bigint", "cast(c as bigint)"),
    "struct fields by name": (
        "struct<a:int,b:int>",
        "struct<b:int,c:string,a:int>",
        "if(c is null, null, named_struct('b', c.`b`, 'c', cast(null as string), 'a', c.`a`))",
    ),
    "inside an array": (
        "array<struct<a:int>>",
        "array<struct<a:bigint>>",
        "transform(c, v0 -> if(v0 is null, null, named_struct('a', cast(v0.`a` as bigint))))",
    ),
    "a map's values": (
        "map<string,int>",
        "map<string,bigint>",
        "transform_values(c, (k0, v0) -> cast(v0 as bigint))",
    ),
}


@pytest.mark.parametrize(("stored", "wanted", "text"), CONVERSIONS.values(), ids=CONVERSIONS)
def test_conversions(stored, wanted, text):
    assert converted("c", parse_type(stored, "c"), parse_type(wanted, "c")) == text


def test_pieces_with_conditions_on_their_rows_are_relations_of_their_own():
    columns = [Column("a", parse_type("int", "a"))]
    schema = pa.schema([("A", pa.int32())])
    pieces = [Piece("/t/1"), Piece("/t/2"), Piece("/t/3", rows="_metadata.row_index in (1)"), Piece("/t/p/4")]
    assert select_pieces(pieces, columns, "1L n", lambda path: Shape(schema, 2)) == [
        f"(with _mv_files as (select * from parquet.`/t/{{1,2}}`{STRICT}) select `A` `a`, 1L n from _mv_files where "
        "if((select count(*) from _mv_files) = 4, true, cast(raise_error('the data files below /t have 4 rows, and Spark "
        "read another number of them; another process may be removing files (VACUUM)') as boolean)))",
        f"select `A` `a`, 1L n from parquet.`/t/p/4`{STRICT}",
        f"select `A` `a`, 1L n from parquet.`/t/3`{STRICT} where _metadata.row_index in (1)",
    ]


def test_very_many_directories_are_one_relation_joined_with_their_partition_values(monkeypatch):
    monkeypatch.setattr(reading, "MAX_DIRECTORIES_APART", 1)
    columns = [Column("a", parse_type("int", "a")), Column("p", parse_type("date", "p"))]
    pieces = [
        Piece("/t/p=1/x", (("p", "'1'"),)),
        Piece("/t/p=1/y", (("p", "'1'"),)),
        Piece("/t/p=a b/z", (("p", "null"),)),
    ]
    [query] = select_pieces(pieces, columns, "", lambda path: Shape(pa.schema([("a", pa.int32())]), 2))
    assert "parquet.`/t/{p=1/{x,y},p=a b/z}`" in query
    assert "values ('/t/p=1', string('1')), ('/t/p=a%20b', string(null)) as d(_mv_place, _mv_0)" in query
    assert "`a` `a`, cast(d._mv_0 as date) `p` from" in query and "raise_error" in query
    assert "count(*) from _mv_files) = 6, true" in query
