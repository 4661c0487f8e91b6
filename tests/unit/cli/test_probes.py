"""What a look sees: a change of a file, a Delta table or a shard, and nothing else."""

from __future__ import annotations

import os
from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from dbt.adapters.mvsink.inputs.delta_format import DELTA
from dbt.adapters.mvsink.inputs.position import FILE_LIST, SHARD
from dbt.adapters.mvsink.inputs.probes import ProbedPlace, Prober, changed_since
from tests.unit.cli.shop import HOUR, NOW, write

HOURLY = '{"refresh": {"every": [[3600000, 0]], "at": [], "at_creation": false}}'


@pytest.fixture
def prober(shop):
    return Prober(str(shop.shards))


def put(path, text="x", at=NOW):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at / 1000, at / 1000))


FILES = {
    "nothing": (lambda d: None, False),
    "a new file": (lambda d: put(d / "c.parquet"), True),
    "a new partition": (lambda d: put(d / "day=2" / "c.parquet"), True),
    "a file of another size": (lambda d: put(d / "a.parquet", "xx"), True),
    "a file written again": (lambda d: put(d / "a.parquet", at=NOW + 1000), True),
    "a file that is gone": (lambda d: (d / "a.parquet").unlink(), True),
    "a file in the making": (lambda d: put(d / ".c.parquet"), False),
    "Spark's own": (lambda d: put(d / "_temporary" / "0" / "c.parquet"), False),
}


@pytest.mark.parametrize(("change", "changed"), FILES.values(), ids=FILES)
def test_a_directory(tmp_path, prober, change, changed):
    put(tmp_path / "data" / "a.parquet")
    put(tmp_path / "data" / "day=1" / "b.parquet")
    place = prober.place_of(f"file:{tmp_path}/data")
    assert place == ProbedPlace(FILE_LIST, f"{tmp_path}/data")
    before = prober.probe(place, NOW)
    change(tmp_path / "data")
    after = prober.probe(place, NOW)
    assert (after.signature != before.signature) is changed


def test_when_it_changed(tmp_path, prober):
    place = ProbedPlace(FILE_LIST, str(tmp_path / "data"))
    put(tmp_path / "data" / "a")
    before = prober.probe(place, NOW)
    put(tmp_path / "data" / "b", at=NOW + HOUR)
    (tmp_path / "data" / "a").unlink()
    assert changed_since(before, prober.probe(place, NOW)) == [NOW + HOUR]
    assert (
        changed_since(None, before) == []
        and prober.probe(ProbedPlace(FILE_LIST, str(tmp_path / "no")), NOW) is None
    )


def test_a_delta_table(tmp_path, prober):
    path = str(tmp_path / "a table")
    write_deltalake(path, pa.table({"x": [1]}))
    place = prober.place_of("file:" + path.replace(" ", "%20"))
    assert place == ProbedPlace(DELTA, path)
    before = prober.probe(place, NOW)
    assert prober.probe(place, NOW) == before
    DeltaTable(path).delete("x = 1")
    after = prober.probe(place, NOW)
    assert after.signature > before.signature and len(changed_since(before, after)) == 1


def test_a_shard(shop, prober):
    handle = shop.shard("s.orders", "orders")
    place = prober.place_of(f"file:{shop.at('s.orders')}/batches/abc")
    assert place == ProbedPlace(SHARD, str(shop.at("s.orders")))
    write(handle, NOW - HOUR, ("a", 1), invocation_id="mine")
    before = prober.probe(place, NOW)
    write(handle, NOW, invocation_id="mine")  # a run that changed nothing
    same = prober.probe(place, NOW)
    assert same.signature == before.signature and same.version > before.version
    assert not prober.written_by_others(place, before, "mine") and prober.written_by_others(
        place, before, "another's"
    )
    handle.hold("s.task", NOW)
    assert not prober.written_by_others(place, same, "mine")  # it reads, and writes nothing
    DeltaTable(str(shop.at("s.orders"))).delete("x = 'a'")
    assert prober.probe(place, NOW).signature != before.signature
    assert prober.written_by_others(place, same, "mine")
    assert (before.scheduled, before.due) == (False, None)
    handle.set_properties({"definition": HOURLY})
    observation = prober.probe(place, NOW + 5)
    assert (observation.scheduled, observation.due) == (True, NOW + HOUR)
    assert prober.probe(replace(place, at=str(shop.at("s.none"))), NOW) is None


PLACES = ["s3a://bucket/data", "hdfs://host/data", "jdbc:x"]


@pytest.mark.parametrize("path", PLACES)
def test_what_is_not_on_this_machine_cannot_be_probed(prober, path):
    assert prober.place_of(path) is None


def test_a_shard_may_be_anywhere():
    place = Prober("s3://bucket/shards").place_of("s3://bucket/shards/s/orders/batches/a")
    assert place == ProbedPlace(SHARD, "s3://bucket/shards/s/orders")
