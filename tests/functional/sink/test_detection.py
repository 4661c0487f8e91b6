"""sink.md, *Detect*: what the totals of a bucket tell, on Spark itself."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.sink import layout
from dbt.adapters.mvsink.sink.detection import FEWEST_BITS, MOST_BITS, Buckets, differing_buckets
from dbt.adapters.mvsink.sink.types import Column, parse_type
from tests.support.session_engine import Model

BITS = 10
A, B, C = 0x1234_5678_9ABC_D001, 0x0FED_CBA9_8765_4001, -0x7111_2222_3333_4FFF  # all of bucket 1
OTHER = 0x0102_0304_0506_0402
CASES = {
    "nothing": ([(A, 1), (B, 2)], [(A, 1), (B, 2)], []),
    "the same copies in other records": ([(A, 1), (A, 1)], [(A, 2)], []),
    "a row came": ([(A, 1), (B, 1)], [(A, 1)], [(1, B)]),
    "a row went": ([(A, 1)], [(A, 1), (C, 1)], [(1, C)]),
    "a copy went": ([(A, 1), (A, 1)], [(A, 3)], [(1, A)]),
    "two copies went": ([(A, 1)], [(A, 3)], [(1, None)]),
    "a row of each of two buckets": ([(A, 1)], [(OTHER, 1)], [(1, A), (2, OTHER)]),
    "two rows of one bucket": ([(A, 1)], [(B, 1)], [(1, None)]),
    "two came and one went": ([(A, 1), (C, 1)], [(B, 1)], [(1, None)]),
    "three came": ([(A, 1), (B, 1), (C, 1)], [], [(1, None)]),
    "one by an odd number of copies": ([(A, 1), (A, 1), (A, 1)], [], [(1, None)]),
    "copies that make up for each other": ([(A, 1), (B, 3)], [(A, 3), (B, 1)], [(1, None)]),
}


def rows(given):
    listed = ", ".join(f"({h}L, {n}L)" for h, n in given) or "(0L, 0L)"
    return f"select * from values {listed} t(_mv_hash, _mv_diff)"


@pytest.mark.parametrize(("desired", "held", "wanted"), CASES.values(), ids=CASES)
def test_the_totals_tell_the_one_hash_that_differs_or_that_there_are_several(spark, desired, held, wanted):
    buckets = Buckets(BITS)
    differing = differing_buckets([buckets.digest(rows(desired), 1), buckets.digest(rows(held), -1)])
    found = spark.sql(buckets.scope(differing).query).collect()
    assert sorted(map(tuple, found)) == wanted
    whole = spark.sql(buckets.scope(differing, exact=False).query).collect()
    assert sorted(map(tuple, whole)) == [(b, None) for b, _ in wanted]


def test_only_what_the_scope_names_is_looked_at(spark):
    buckets = Buckets(BITS)
    scope = buckets.scope(f"select 1L b, {A}L x, {A >> 21}L s union all select 2L, 0L, 7L")
    looked_at = spark.sql(scope.restrict(rows([(A, 1), (A, 2), (B, 1), (OTHER, 1), (3, 1)]))).collect()
    assert sorted(map(tuple, looked_at)) == sorted([(A, 1), (A, 2), (OTHER, 1)])


def test_a_larger_shard_has_more_buckets_within_bounds(spark, tmp_path):
    def bits(n):
        model = Model(spark, tmp_path / str(n))
        query = f"select id from range({n})"
        model.run(query)
        with model.open(query) as handle:
            return Buckets.of(layout(handle.state(), handle.uri, handle.files_in, handle.column_names)).bits

    assert (bits(10), bits(300_000)) == (FEWEST_BITS, 12) and MOST_BITS == 20


@pytest.mark.parametrize("kind", ["tinyint", "int", "bigint", "string", "date"])
def test_a_condition_names_the_buckets_of_a_locator(spark, kind):
    buckets = Buckets(BITS, 7, Column("k", parse_type(kind, "k")))
    numbers = [0, 1, 63, 64, 500, 1023, *range(127, 1000, 64)]  # the sign bit of many words
    values = {"string": "cast(id as string)", "date": "date_from_unix_date(cast(id as int))"}.get(kind, f"cast(id as {kind})")
    low, high = (-128, 128) if kind == "tinyint" else (-50_000, 50_000)
    rows = f"select {values} k from range({low}, {high}) union all select cast(null as {kind})"
    among = f"{buckets.number()} in ({', '.join(map(str, numbers))})"
    counts = f"count(*), count_if({among}), count_if(({buckets.located('k', numbers)}) <> ({among}))"
    [(total, inside, wrong)] = spark.sql(f"select {counts} from ({rows})").collect()
    assert wrong == 0 and (kind == "tinyint" or 0 < inside < total / 20)
    differing = spark.sql(f"select 1 from ({rows}) _mv_rows where {buckets.number('_mv_rows')} <> {buckets.number()}")
    assert differing.collect() == []
