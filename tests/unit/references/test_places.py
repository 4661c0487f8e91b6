"""What a query reads, by its places: through views, down to published shards."""

from __future__ import annotations

import json

import pytest

from dbt.adapters.mvsink.inputs.reads import Reads
from dbt.adapters.mvsink.references import places
from dbt.adapters.mvsink.references.places import ReadPlaces, places_of
from tests.support.engines import NoEngine

TABLE = Reads(tables=("c.d.t",))
READS = {
    "a published view": (Reads(views=("c.d.mv",), below={"c.d.mv": TABLE}), ReadPlaces(("/s/mv",))),
    "a view over it": (
        Reads(views=("c.d.v",), below={"c.d.v": Reads(views=("c.d.mv",), below={"c.d.mv": TABLE})}),
        ReadPlaces(("/s/mv",)),
    ),
    "a view over a table": (Reads(views=("c.d.v",), below={"c.d.v": TABLE}), ReadPlaces(others=True)),
    "a table": (TABLE, ReadPlaces(others=True)),
    "a file": (Reads(unknown="it reads files"), ReadPlaces(others=True)),
    "a shard, twice, and another": (
        Reads(views=("c.d.mv", "c.d.v", "c.d.other"), below={
            "c.d.mv": TABLE, "c.d.other": TABLE,
            "c.d.v": Reads(views=("c.d.mv",), tables=("c.d.t",), below={"c.d.mv": TABLE}),
        }),
        ReadPlaces(("/s/mv", "/s/other"), others=True),
    ),
    "nothing": (Reads(), ReadPlaces()),
}  # fmt: skip


class Catalog(NoEngine):
    """`v` is a view of dbt's, all others show shards."""

    def query(self, query, what):
        name = query.split("`")[5]
        marker = json.dumps({"uri": f"/s/{name}", "shard_id": "1", "version": 3, "files": "1"})
        text = "select * from t" if name == "v" else f"select /* mvsink {marker} */ * from t"
        return [(json.dumps({"view_text": text}),)]


@pytest.mark.parametrize(("reads", "expected"), READS.values(), ids=READS)
def test_places(monkeypatch, reads, expected):
    monkeypatch.setattr(places, "reads_of", lambda engine, query: reads)
    assert places_of(Catalog(), "a query") == expected
