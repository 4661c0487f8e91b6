"""A few cases of what `make long` runs for hours: models on Spark over tables that change.

The random queries and histories are the same each time. The queries of Spark's own tests are others
each time; `MVSINK_SEED`, which the test prints, draws the same ones again.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from tests.long import generated, iceberg_tables, input_histories, judge, published_tables, spark_sql
from tests.long.kept import Kept
from tests.support.maintained import wherever

pytestmark = [
    pytest.mark.timeout(3600),  # minutes each; a busy machine is no failure
    pytest.mark.usefixtures("small_data"),
    pytest.mark.embedded("it asks the session for the plan of a query"),
]
SEED = 1


def test_random_queries_hold_what_spark_gives(quick, tmp_path):
    """10 queries of at most two relations, 10 rounds."""
    kept = Kept("generated", SEED, 100, tmp_path / "kept")
    generated.Harness(quick, tmp_path / "tables", kept, rounds=10, sizes=(2,)).run(batch=10, batches=1)
    assert len(kept.cases) == 10
    assert not kept.defects(judge.DEFECTS), kept.summary(judge.DEFECTS)


@pytest.mark.seldom
def test_views_and_tasks_over_random_histories_are_what_spark_reads(spark, tmp_path):
    """One of a Delta table, one of a table of files."""
    for name, value in input_histories.SETTINGS.items():
        if not name.startswith("spark.delta."):
            spark.conf.set(name, value)
    kept = Kept("input_histories", SEED, 2, tmp_path / "kept")
    with wherever():
        wrong = input_histories.Harness(spark, tmp_path, kept, steps=(2, 4)).run_some(
            {"delta": 1, "files": 1}
        )
    assert not wrong, wrong


@pytest.mark.seldom
def test_queries_of_sparks_own_tests_hold_what_spark_gives(quick, tmp_path):
    """20 queries, one round."""
    seed = int(os.environ.get("MVSINK_SEED") or int.from_bytes(os.urandom(3), "big"))
    print(f"MVSINK_SEED={seed}")
    kept = Kept("spark_sql", seed, 100, tmp_path / "kept")
    chosen, names = spark_sql.sample(Random(seed), 20)
    spark_sql.Harness(quick, tmp_path, kept, rounds=1).run(chosen, names.__contains__)
    assert len(kept.cases) == len(names)
    assert not kept.defects(judge.DEFECTS), f"MVSINK_SEED={seed}\n{kept.summary(judge.DEFECTS)}"


@pytest.mark.parametrize("tables, number", [(published_tables, 30), (iceberg_tables, 10)])
def test_random_histories_of_published_tables(tables, number):
    """Other histories than in `make test`."""
    wrong = [each for seed in range(100, 100 + number) for each in tables.outcomes(seed)]
    assert not [each for each in wrong if each.startswith(published_tables.DEFECTS)]
