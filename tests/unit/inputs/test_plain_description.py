"""What DESCRIBE EXTENDED says of a table, for tables that have no description as JSON. No Spark."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.inputs.described import plain_table
from dbt.adapters.mvsink.inputs.protocol import TableOptions
from dbt.adapters.mvsink.inputs.query_inputs import Inspector, QueryInputs
from dbt.adapters.mvsink.inputs.reads import Reads
from dbt.adapters.mvsink.inputs.reference import References

DETAILS = [
    ("# Partition Information", "", ""),
    ("# col_name", "data_type", "comment"),
    ("day", "date", None),
    ("", "", ""),
    ("# Detailed Table Information", "", ""),
    ("Name", "spark_catalog.raw.Odd Name", ""),
    ("Location", "file:/data/t", ""),
    ("Provider", "delta", ""),
]


class Catalog:
    """Answers with these columns, and counts what it is asked."""

    def __init__(self, *columns):
        self.columns, self.ran = columns, []

    def query(self, query, what):
        self.ran.append(query)
        return [*((name, kind, None) for name, kind in self.columns), ("", "", ""), *DETAILS]


def test_columns_end_where_a_row_has_no_type():
    table = plain_table(Catalog(("# of items", "int"), ("Provider", "string"), ("day", "date")), "raw.t")
    assert table.columns == (("# of items", "int"), ("Provider", "string"), ("day", "date"))
    assert (table.provider, table.details["location"]) == ("delta", "file:/data/t")


@pytest.mark.parametrize(
    "kind", ["char(3)", "varchar(9)", "struct<a:array<varchar(2)>>", "struct<a:int,... 3 more fields>"]
)
def test_types_that_a_query_spells_otherwise_are_not_taken_from_it(kind):
    assert plain_table(Catalog(("a", "int"), ("b", kind)), "t").of_a_query() is None
    assert plain_table(Catalog(("character", "int")), "t").of_a_query() == [("character", "int")]


def test_nothing_is_asked_twice_of_a_source_that_was_described():
    catalog = Catalog(("id", "bigint"))
    name = "spark_catalog.raw.`odd name`"
    key = ("spark_catalog", "raw", "odd name")
    references = References(pinned={name: 3}, tables={key: plain_table(catalog, name)})
    inspector = Inspector(TableOptions(catalog), references)
    reads = Reads(tables=(name,))
    [first] = inspector.at_the_start().positions(reads)
    inputs = QueryInputs(TableOptions(catalog), references, reads, (), lambda _: None)
    assert inputs.columns_of(name) == [("id", "bigint")]
    assert len(catalog.ran) == 1 and "is on a disk of the machine" in first.problem
    [again] = inspector.positions(reads)
    assert again == first and catalog.ran[1:] == ["describe table extended `spark_catalog`.`raw`.`odd name`"]
