"""The column that locates a large view's changed rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.shard import DataFile, Directory
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.sink import Desired
from dbt.adapters.mvsink.sink.detection import locator


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
class Handle:
    """A shard whose files begin with these rows: of each column, so many different values, or its
    n-th value.
    """

    distinct: tuple[int | Callable[[int], int | None], ...]
    rows: int = limits.LOCATOR_SAMPLE
    asked: tuple[str, ...] = ()

    def first_rows(self, file, schema, rows):
        assert rows == limits.LOCATOR_SAMPLE
        self.asked = (file.path, *schema.names)
        values = [
            pa.array(
                [n % column if isinstance(column, int) else column(n) for n in range(self.rows)], pa.int64()
            )
            for column in self.distinct
        ]
        return pa.table(values, names=schema.names)


def base(rows, *more):
    files = [DataFile(f"batches/b/{n}.parquet", 1, rows=count) for n, count in enumerate((rows, *more))]
    return Layout("/root", COLUMNS, 7, 10, Directory("b", tuple(files)), (), (), (), ())


def desired(**changes):
    return replace(Desired("select 1", COLUMNS, 7), **changes)


CHOICES = {
    "the first with values enough": (Handle((1_000, 9_000)), NAME),
    "one with few values is passed over": (Handle((999, 9_000)), KEY),
    "of a smaller sample": (Handle((4, 5), rows=50), KEY),
    "one with a frequent value is passed over": (Handle((lambda n: max(n, 100), 9_000)), KEY),
    "a value may come some times": (Handle((lambda n: max(n, 99), 9_000)), NAME),
    "NULL may be frequent": (Handle((lambda n: n if n % 10 == 0 else None, 9_000)), NAME),
    "but values have to be there": (Handle((lambda n: n if n % 11 == 0 else None, lambda n: None)), None),
    "none has enough": (Handle((3, 999)), None),
}


@pytest.mark.parametrize(("handle", "wanted"), CHOICES.values(), ids=CHOICES)
def test_the_choice(handle, wanted):
    assert locator(handle, desired().present, base(600_000, 900_000)) == wanted
    assert handle.asked == ("batches/b/1.parquet", NAME.name, KEY.name)


NONE = {
    "a small shard": (desired(), base(1000)),
    "a shard without a base": (desired(), replace(base(10**7), base=None)),
    "columns of types that are not compared by their bytes": (
        desired(columns=(FLAG, PRICE, PARTS)),
        base(10**7),
    ),
    "columns that the query has lost": (desired(missing=("name", "k`y")), base(10**7)),
}


@pytest.mark.parametrize(("wanted", "shard"), NONE.values(), ids=NONE)
def test_where_no_file_is_opened(wanted, shard):
    handle = Handle(())
    assert locator(handle, wanted.present, shard) is None and handle.asked == ()
