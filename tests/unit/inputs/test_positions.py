"""Where tables stand: what the catalog said when the run began is asked once."""

from __future__ import annotations

import json
import os

import pytest

from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.inputs.protocol import TableOptions
from dbt.adapters.mvsink.inputs.query_inputs import Inspector
from dbt.adapters.mvsink.inputs.reads import Reads
from dbt.adapters.mvsink.inputs.reference import References
from dbt.adapters.mvsink.shard import ShardClient
from dbt.adapters.mvsink.shard_sql.published_view import Marker, fingerprint
from tests.support.engines import NoEngine
from tests.support.shards import SCHEMA, at, updates


class Catalog(NoEngine):
    """A table of text files at ``location``; an Iceberg table, if there is none."""

    def __init__(self, location=None):
        self.location, self.ran = location, []

    def query(self, query, what):
        self.ran.append(query)
        if self.location is not None:
            return [(json.dumps(description(self.location)),)]
        if query.endswith("as json"):
            raise EngineError("not of this catalog", "0A000")
        return [("provider", "bigint"), ("", ""), ("Provider", "iceberg"), ("Name", "ice.raw.my-table")]


def description(location, name="t"):
    return {
        "catalog_name": "spark_catalog",
        "namespace": ["shop"],
        "table_name": name,
        "provider": "text",
        "location": str(location),
    }


TABLE = Reads(tables=("spark_catalog.shop.t",))


@pytest.fixture
def places(tmp_path):
    """Two directories with a file each."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part.txt").write_text(name)
        os.utime(tmp_path / name / "part.txt", (1, 1))  # not within the last two seconds
    return tmp_path / "old", tmp_path / "new"


def test_a_run_that_begins_asks_no_second_time_and_a_later_look_does(places):
    old, new = places
    catalog = Catalog(new)
    inspector = Inspector(
        TableOptions(catalog, local=True), References(descriptions={("shop", "t"): description(old)})
    )
    [first] = inspector.at_the_start().positions(TABLE)
    assert catalog.ran == [] and first.id == f"text {old}" and not first.problem
    [later] = inspector.positions(TABLE)
    assert catalog.ran == ["describe table extended `spark_catalog`.`shop`.`t` as json"]
    assert later.id == f"text {new}" and later != first


@pytest.mark.parametrize("other", [("raw", "t"), ("shop", "u")])
def test_what_describes_another_table_is_not_used(places, other):
    old, new = places
    shown = {**description(old), "namespace": [other[0]], "table_name": other[1]}
    catalog = Catalog(new)
    inspector = Inspector(TableOptions(catalog, local=True), References(descriptions={("shop", "t"): shown}))
    [first] = inspector.at_the_start().positions(TABLE)
    assert first.id == f"text {new}" and len(catalog.ran) == 1


def test_a_table_that_is_not_described_as_json_is_not_asked_for_that_again():
    catalog = Catalog()
    references = References(pinned={"raw.`my-table`": 7}, descriptions={("raw", "my-table"): None})
    inspector = Inspector(TableOptions(catalog), references)
    [position] = inspector.at_the_start().positions(Reads(tables=("ice.raw.`my-table`",)))
    assert (position.kind, position.number) == ("iceberg", 7)  # at its version
    assert catalog.ran == ["describe table extended `ice`.`raw`.`my-table`"]


def test_a_table_of_files_is_never_described_without_its_partitions():
    """The catalog failed when the run began."""

    class Recovered(Catalog):
        def query(self, query, what):
            answer = super().query(query, what)
            return (
                answer if query.endswith("as json") else [("", ""), ("Provider", "text"), ("Location", "/t")]
            )

    catalog = Recovered("/t")
    inspector = Inspector(TableOptions(catalog, local=True), References(descriptions={("shop", "t"): None}))
    assert inspector.at_the_start().positions(TABLE) == inspector.positions(TABLE)
    assert catalog.ran[0].endswith("`t`") and all(query.endswith("as json") for query in catalog.ran[1:])


@pytest.mark.parametrize("appended", [False, True])
def test_a_view_that_lags_behind_its_shard_has_no_position(tmp_path, appended):
    """A run may be killed after its commit and before it publishes the view. What such a view shows
    must not be recorded as the newest contents: they would never be read.
    """
    uri = str(tmp_path / "shop" / "m")
    with ShardClient().open_or_create(uri, SCHEMA, "test") as handle:
        handle.compare_and_append(updates(("a", 1, 1)), at(0), at(2))
        shown = handle.state()
        marker = Marker(uri, str(shown.shard_id), shown.version, fingerprint(shown))
        if appended:
            handle.compare_and_append(updates(("b", 2, 1)), at(2), at(3))
        else:
            handle.set_properties({"kept": "x"})  # a commit that changes no rows
        newest = handle.state()

    class Views(Catalog):
        def query(self, query, what):
            return [(json.dumps({"view_text": marker.within("select 1")}),)]

    inspector = Inspector(TableOptions(Views()), References())
    [position] = inspector.positions(Reads(views=("spark_catalog.shop.m",), below={}))
    if appended:
        assert position.problem == "spark_catalog.shop.m shows an earlier version of its shard"
    else:
        assert (position.problem, position.version) == ("", newest.version)
