"""Random histories of shards that are published as Iceberg tables, read after every step; wrong
rules are noticed. `make long LONG=iceberg_tables` runs a thousand.
"""

from __future__ import annotations

from random import Random

import pytest

from dbt.adapters.mvsink.published import as_iceberg, iceberg_files
from tests.long.iceberg_tables import IcebergHistory

SEEDS = range(6)  # one history may not meet a wrong rule


@pytest.mark.parametrize("in_catalog", [False, True], ids=["by path", "in a catalog"])
def test_every_reader_sees_the_shard(in_catalog, tmp_path):
    history = IcebergHistory(str(tmp_path / "s"), Random(int(in_catalog)), in_catalog=in_catalog)
    assert not [each for each in history.run() if each.startswith("wrong")]


def data_files_stay(monkeypatch):
    exchanged = as_iceberg.LiveIceberg._data

    def wrong(self, *arguments):
        right = exchanged(self, *arguments)
        return type(right)(right.live, set(), right.added)

    monkeypatch.setattr(as_iceberg.LiveIceberg, "_data", wrong)


def positions_by_one_too_many(monkeypatch):
    written = iceberg_files.written_deletes
    monkeypatch.setattr(
        iceberg_files,
        "written_deletes",
        lambda files, location, hidden: written(files, location, type(hidden)(each + 1 for each in hidden)),
    )


@pytest.mark.parametrize("rule", [data_files_stay, positions_by_one_too_many])
def test_a_wrong_rule_is_noticed(rule, monkeypatch, tmp_path):
    rule(monkeypatch)
    outcomes = []
    for seed in SEEDS:
        history = IcebergHistory(str(tmp_path / str(seed) / "s"), Random(seed), in_catalog=seed % 2 == 1)
        outcomes += history.run()
        if any(each.startswith("wrong") for each in outcomes):
            return
    raise AssertionError(outcomes)
