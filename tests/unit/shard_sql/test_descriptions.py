"""Batch descriptions."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.shard import InvalidUsage
from dbt.adapters.mvsink.shard_sql import BatchDescription
from tests.support.shards import at

EMPTY = None  # the frontier after all times


@pytest.mark.parametrize(("lower", "upper"), [(3, 5), (4, 4), (3, EMPTY), (EMPTY, EMPTY)])
def test_bounds_in_order(lower, upper):
    description = BatchDescription(at(lower), at(upper))
    assert (description.lower, description.upper) == (at(lower), at(upper))


@pytest.mark.parametrize(("lower", "upper"), [(5, 3), (EMPTY, 3)])
def test_row_h_bounds_out_of_order_are_refused_with_both(lower, upper):
    with pytest.raises(InvalidUsage) as error:
        BatchDescription(at(lower), at(upper))
    assert f"[{at(lower)!r}, {at(upper)!r})" in str(error.value)


def test_row_h_numbers_are_no_frontiers():
    with pytest.raises(InvalidUsage, match=r"\[3, 5\)"):
        BatchDescription(3, 5)
