"""A shard stays in the order in which its rows came, whatever compactions write again."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dbt.adapters.mvsink.shard_sql import Layout
from tests.support.session_engine import Model

ROWS, RUNS = 120_000, 3  # more rows than this process compacts
KEY = pa.schema([("k", pa.int64())])


def changed(number: int) -> str:
    """One in eight rows is another than at the numbers before; all are in the order of ``k``."""
    return (
        f"select if(id % 50 = 0, null, id % 3) a, id div 2 k, if(id % 8 < {number}, {number}, 0) v "
        f"from range(0, {ROWS}, 1, 2)"
    )


def rising(model: Model, query: str) -> list[float]:
    """Of each file of the base, the share of rows whose ``k`` is no less than that before it."""
    with model.open(query) as handle:
        shares = []
        for file in Layout.of(handle, handle.state()).base.files:
            keys = handle.columns_of(file, KEY).column(0).combine_chunks()
            shares.append(pc.mean(pc.less_equal(keys[:-1], keys[1:])).as_py())
    return shares


@pytest.mark.seldom
def test_compactions_keep_the_order_of_the_base(spark, tmp_path):
    model = Model(spark, tmp_path, options={"retain_history": 1})
    bases = set()
    for number in range(RUNS):
        query = changed(number)
        model.run(query)
        model.assert_holds(query)
        with model.open(query) as handle:
            bases.add(Layout.of(handle, handle.state()).base.batch_id)
    assert len(bases) == RUNS, "every run was to write the base again"
    assert min(rising(model, query)) > 0.99
