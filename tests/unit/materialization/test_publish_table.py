"""Which rows of a shard Spark computes hashes for, so that its table can be published."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.materialization.publish_table import _hashes
from dbt.adapters.mvsink.published import NotLocated, publish
from dbt.adapters.mvsink.shard import Antichain, ShardClient
from dbt.adapters.mvsink.shard.updates import physical_schema
from tests.support.table_readers import by_deltalake

SCHEMA = pa.schema([("x", pa.int64())])
LOADED, LACKING = 20, (3, 7)  # rows of the second batch; the positions of those without a hash


class OneJob:
    """Spark as far as it is asked; the path is as Spark spells it."""

    def __init__(self, *rows):
        self.rows, self.asked = rows, []

    def query(self, query, what):
        self.asked.append(query)
        return list(self.rows)


@pytest.fixture
def handle(tmp_path):
    """Of a shard with the rows 0 to 19 twice: as its base, and in a batch without two hashes."""
    handle = ShardClient().open_writer(str(tmp_path / "a b"), SCHEMA)
    for time, lacking in enumerate(((), LACKING)):
        hashes = [None if n in lacking else 1000 + n for n in range(LOADED)]
        columns = [range(LOADED), [time] * LOADED, [1] * LOADED, [None] * LOADED, hashes]
        physical = physical_schema(SCHEMA)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, physical)]
        upper, after = handle.state().upper, Antichain.of(time + 1)
        batch = handle.adopt(handle.write_staged(pa.table(arrays, schema=physical)), upper, after)
        handle.compare_and_append_batch([batch], upper, after, since=Antichain.of(0))
    return handle


@pytest.mark.parametrize("most", [len(LACKING), len(LACKING) - 1])
def test_only_rows_without_a_hash_count(handle, monkeypatch, most):
    """However many rows the batch has: else a shard with such a batch a day is compacted as a whole
    each day.
    """
    monkeypatch.setattr(limits, "LOCAL_ROWS", most)
    [path] = [file.path for file in handle.state().files if file.hashes != file.rows]
    engine = OneJob(*((f"file:{handle.uri}/{path}".replace(" ", "%20"), n, 1000 + n) for n in LACKING))
    hashes = lambda *of: _hashes(engine, *of)  # noqa: E731
    if most < len(LACKING):
        with pytest.raises(NotLocated, match="too many rows have no hash"):
            publish(handle, ["x"], hashes=hashes)
        return
    monkeypatch.setattr(limits, "LOCAL_ROWS", 2 * len(LACKING))  # of both batches, to be compared
    publish(handle, ["x"], hashes=hashes)
    assert [query.count("_mv_hash is null") for query in engine.asked] == [1]
    assert by_deltalake(f"{handle.uri}/table") == Counter({(n,): 2 for n in range(LOADED)})
