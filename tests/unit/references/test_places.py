"""What a query reads, by its places: through views, down to published shards."""

from __future__ import annotations

import json

import pytest

from dbt.adapters.mvsink.inputs.reads import Reads
from dbt.adapters.mvsink.references import places
from dbt.adapters.mvsink.references.places import ReadPlaces, places_of
from dbt.adapters.mvsink.shard_sql.published_view import Marker
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
    "a published table": (Reads(tables=("c.d.published",)), ReadPlaces(("/s/published",))),
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
    """`t` is a table, `published` a model's own, `v` a view of dbt's, and all others show
    shards.
    """

    def query(self, query, what):
        name = query.split("`")[5]
        if name in ("t", "published"):
            kept = Marker("/s/published", "1", -1, "").table_properties() if name == "published" else {}
            return [(json.dumps({"location": f"file:/s/{name}/table", "table_properties": kept}),)]
        marker = json.dumps({"uri": f"/s/{name}", "shard_id": "1", "version": 3, "files": "1"})
        text = "select * from t" if name == "v" else f"select /* mvsink {marker} */ * from t"
        return [(json.dumps({"view_text": text}),)]


@pytest.mark.parametrize(("reads", "expected"), READS.values(), ids=READS)
def test_places(monkeypatch, reads, expected):
    monkeypatch.setattr(places, "reads_of", lambda engine, query: reads)
    assert places_of(Catalog(), "a query") == expected
