"""docs/design/sink.md, *Detect*: what the totals of a bucket tell, on Spark itself."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.physical import HASH
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.sink.detection import MAX_BITS, MIN_BITS, Buckets, differing_buckets
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
    "a row of very many copies went": ([(A, 1)], [(A, 1), (B, 2**38)], [(1, None)]),
    "one of very many copies went": ([(A, 2**38)], [(A, 2**38 + 1)], [(1, A)]),
    "copies that make up for each other": ([(A, 1), (B, 3)], [(A, 3), (B, 1)], [(1, None)]),
}


def rows(updates):
    listed = ", ".join(f"({h}L, {n}L)" for h, n in updates) or "(0L, 0L)"
    return f"select * from values {listed} t(_mv_hash, _mv_diff)"


@pytest.mark.parametrize(("desired", "stored", "wanted"), CASES.values(), ids=CASES)
def test_the_totals_show_the_one_hash_that_differs_or_that_several_do(spark, desired, stored, wanted):
    buckets = Buckets(BITS)
    differing = differing_buckets([buckets.digest(rows(desired), 1), buckets.digest(rows(stored), -1)])
    scope = spark.sql(buckets.scope(differing).query).collect()
    assert sorted(map(tuple, scope)) == wanted


def test_only_what_the_scope_names_is_read(spark):
    buckets = Buckets(BITS)
    scope = buckets.scope(
        f"select 1L b, {A}L x, {A >> 42}L s, {A >> 20 & 2**22 - 1}L t union all select 2L, 0L, 7L, 7L"
    )
    rows_read = spark.sql(scope.restrict(rows([(A, 1), (A, 2), (B, 1), (OTHER, 1), (3, 1)]))).collect()
    assert sorted(map(tuple, rows_read)) == sorted([(A, 1), (A, 2), (OTHER, 1)])


HOT = -(1 << 20) + 1  # its summed parts are as large as they can be


@pytest.mark.parametrize("came", [0, 1, 2], ids=["the same rows", "one row came", "two rows came"])
def test_no_sum_overflows_however_many_rows_share_a_bucket(spark, came):
    buckets = Buckets(BITS)
    desired, stored = (
        f"select {HOT}L _mv_hash, 1L _mv_diff from range({2_200_000 + more})" for more in (came, 0)
    )
    differing = differing_buckets([buckets.digest(desired, 1), buckets.digest(stored, -1)])
    assert spark.sql(buckets.scope(differing).query).collect() == [[], [(1, HOT)], [(1, None)]][came]


def test_rows_without_a_key_share_no_bucket(spark):
    buckets = Buckets(BITS, 7, Column("k", parse_type("int", "k")))
    rows = f"select if(id % 4 = 0, int(id), null) k, xxhash64(id) {HASH} from range(40000)"
    counted = f"select {buckets.number()} b, k is null n, count(*) c from ({rows}) group by 1, 2"
    [(shared, most)] = spark.sql(
        f"select count(distinct b) - count(distinct b, n), max(if(n, c, 0)) from ({counted})"
    ).collect()
    assert shared == 0 and most < 100


def test_a_larger_shard_has_more_buckets_within_bounds(spark, tmp_path):
    def bits(n):
        model = Model(spark, tmp_path / str(n))
        query = f"select id from range({n})"
        model.run(query)
        with model.open(query) as handle:
            return Buckets.of(Layout.of(handle, handle.state())).bits

    assert (bits(10), bits(300_000)) == (MIN_BITS, 12) and MAX_BITS == 20


@pytest.mark.parametrize("kind", ["tinyint", "int", "bigint", "string", "date"])
def test_a_condition_names_the_buckets_of_a_locator(spark, kind):
    buckets = Buckets(BITS, 7, Column("k", parse_type(kind, "k")))
    numbers = [0, 1, 63, 64, 500, 1023, *range(127, 1000, 64)]  # the sign bit of many words
    values = {"string": "cast(id as string)", "date": "date_from_unix_date(cast(id as int))"}.get(
        kind, f"cast(id as {kind})"
    )
    low, high = (-128, 128) if kind == "tinyint" else (-50_000, 50_000)
    rows = f"select {values} k, 5L {HASH} from range({low}, {high}) union all select cast(null as {kind}), 5L"
    among = f"{buckets.number()} in ({', '.join(map(str, numbers))})"
    counts = f"count(*), count_if({among}), count_if(({buckets.located('k', numbers)}) <> ({among}))"
    [(total, inside, wrong)] = spark.sql(f"select {counts} from ({rows})").collect()
    assert wrong == 0 and (kind == "tinyint" or 0 < inside < total / 20)
    differing = spark.sql(
        f"select 1 from ({rows}) _mv_rows where {buckets.number('_mv_rows')} <> {buckets.number()}"
    )
    assert differing.collect() == []
    assert spark.sql(
        f"select {buckets.located('k', numbers)} from (select cast(null as {kind}) k)"
    ).collect() == [(False,)]
    numbers.append(2**BITS + 5)
    condition = buckets.located("k", numbers)
    assert spark.sql(f"select {condition} from (select cast(null as {kind}) k)").collect() == [(True,)]
    assert spark.sql(f"select 1 from ({rows}) where ({condition}) <> ({among} or k is null)").collect() == []
