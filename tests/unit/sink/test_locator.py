"""By which column a large view's changed rows are found again."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from dbt.adapters.mvsink.shard import DataFile
from dbt.adapters.mvsink.sink.correction import Desired
from dbt.adapters.mvsink.sink.layout import Directory, Layout
from dbt.adapters.mvsink.sink.locator import SAMPLED, locator
from dbt.adapters.mvsink.sink.types import Column, parse_type


def column(name, kind):
    return Column(name, parse_type(kind, name))


FLAG, KEY, NAME, PRICE, PARTS = (
    column("flag", "boolean"),
    column("k`y", "bigint"),
    column("name", "string"),
    column("price", "double"),
    column("parts", "array<int>"),
)
COLUMNS = (FLAG, NAME, KEY, PRICE, PARTS)


@dataclass
class Counting:
    """An engine that counts so many different values."""

    answer: tuple[int, ...]
    asked: str = ""

    def query(self, query, what):
        self.asked = query
        return [self.answer]


def base(rows, *more):
    files = [DataFile(f"batches/b/{n}.parquet", 1, rows=count) for n, count in enumerate((rows, *more))]
    return Layout("/root{1}", COLUMNS, 7, 10, Directory("b", tuple(files)), (), (), (), ())


def desired(**changes):
    return replace(Desired("select 1", COLUMNS, 7), **changes)


CHOICES = {
    "the first with values enough": ((10_000, 1_000, 9_000), NAME),
    "one with few values is passed over": ((10_000, 999, 9_000), KEY),
    "of a smaller sample": ((50, 4, 5), KEY),
    "none has enough": ((10_000, 3, 999), None),
}


@pytest.mark.parametrize(("answer", "wanted"), CHOICES.values(), ids=CHOICES)
def test_the_choice(answer, wanted):
    engine = Counting(answer)
    assert locator(engine, desired(), base(600_000, 900_000)) == wanted
    sample = f"select `name`, `k``y` from parquet.`/root\\{{1\\}}/batches/b/1.parquet` limit {SAMPLED}"
    assert engine.asked == f"select count(*), approx_count_distinct(`name`), approx_count_distinct(`k``y`) from (\n{sample}\n)"


NONE = {
    "a small shard": (desired(), base(1000)),
    "a shard without a base": (desired(), replace(base(10**7), base=None)),
    "columns of types that are not compared by their bytes": (desired(columns=(FLAG, PRICE, PARTS)), base(10**7)),
    "columns that the query has lost": (desired(missing=("name", "k`y")), base(10**7)),
}


@pytest.mark.parametrize(("wanted", "shard"), NONE.values(), ids=NONE)
def test_where_nothing_is_asked(wanted, shard):
    engine = Counting(())
    assert locator(engine, wanted, shard) is None and engine.asked == ""
