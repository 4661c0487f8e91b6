"""Spark itself writes the canary: what it and Python spell differently is noticed."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.shard_sql import DifferentPlaces
from dbt.adapters.mvsink.shard_sql.stager import check_same_place
from tests.support.session_engine import SessionEngine

pytestmark = pytest.mark.usefixtures("small_data")


@pytest.mark.parametrize("name", ["plain", "a b", "it's", "naïve"])
def test_a_place_that_both_spell_alike(spark, tmp_path, name):
    check_same_place(SessionEngine(spark), name, str(tmp_path / name), None)
    assert list((tmp_path / name).iterdir()) == []


def test_a_place_that_only_one_of_them_decodes(spark, tmp_path):
    with pytest.raises(
        DifferentPlaces,
        match=f"Spark reports that it wrote file:.*Python read file://{tmp_path}/a%20b/.*nothing of it",
    ):
        check_same_place(SessionEngine(spark), "decoded", f"file://{tmp_path}/a%20b", None)
