"""Which published shards are orphans, from dbt's own listing and the shards' own logs."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from dbt.adapters.mvsink.materialization.orphans import orphans, shard_in_listing, unclaimed
from dbt.adapters.mvsink.shard import ShardClient, StorageError
from dbt.adapters.mvsink.shard_sql.published_view import Marker
from tests.support.shards import SCHEMA

NODES = {
    "model.shop.here": {"schema": "S", "alias": "Here"},
    "model.shop.renamed": {"schema": "s", "alias": "other_name"},
}
TEXT = Marker("/a/b", "1", 3, "x").within("select * from t")


def information(text=TEXT, properties="mvsink.shard_uri=*********(redacted)"):
    return f"Catalog: spark_catalog\nType: VIEW\nTable Properties: [{properties}]\nView Text: {text}\nView Catalog: c\n"


LOCATED = "Catalog: spark_catalog\nProvider: delta\nLocation: file:/a/b/table\nSchema: root\n"


@dataclass(frozen=True)
class Relation:
    schema: str
    identifier: str
    information: str | None = None
    is_view: bool = True


RELATIONS = {
    "a shard that no node is built as": (Relation("s", "gone", information()), True),
    "its listing does not tell": (Relation("s", "gone"), True),
    "a node is built as it, whatever the case": (Relation("s", "HERE", information()), False),
    "the same name in another schema": (Relation("t", "here", information()), True),
    "a table with a copy of the property": (Relation("s", "gone", information(), is_view=False), False),
    "a table that lies in a shard": (Relation("s", "gone", LOCATED, is_view=False), True),
    "a table elsewhere": (Relation("s", "gone", LOCATED.replace("/table\n", "\n"), is_view=False), False),
    "another view": (Relation("s", "gone", information("select 1", "a=b")), False),
}


@pytest.mark.parametrize(("relation", "possible"), RELATIONS.values(), ids=RELATIONS)
def test_what_may_be_an_orphan(relation, possible):
    assert list(unclaimed([relation], NODES)) == ([relation] if possible else [])


def test_the_listing_shows_the_shard_without_a_statement():
    assert shard_in_listing(information()) == "/a/b"
    assert shard_in_listing(information("select 1")) is None, "a view of an earlier release"
    assert shard_in_listing(information(f"select 1 as x -- {TEXT}")) is None


OWNERS = {
    "of a model that is gone": ("shop", "dev", "model.shop.gone", "is gone"),
    "of one that is there under another name": ("shop", "dev", "model.shop.renamed", "is now s.other_name"),
    "of another project": ("mall", "dev", "model.mall.gone", None),
    "of another target": ("shop", "prod", "model.shop.gone", None),
}


@pytest.mark.parametrize(("project", "target", "unique_id", "fate"), OWNERS.values(), ids=OWNERS)
def test_whose_shard_it_is(tmp_path, project, target, unique_id, fate):
    handle = ShardClient().open_writer(str(tmp_path / "m"), SCHEMA, "test")
    handle.set_properties(
        {"owner": json.dumps({"project": project, "target": target, "unique_id": unique_id})}
    )
    shown = {Relation("s", "m"): str(tmp_path / "m"), Relation("s", "lost"): str(tmp_path / "nothing")}
    result = orphans(shown, None, NODES, ("shop", "dev"))
    assert [str(each).split(" (")[1] for each in result] == (
        [f"{unique_id} {fate}; shard {tmp_path / 'm'})"] if fate else []
    )


def test_a_shard_that_cannot_be_read_is_an_error_unless_they_are_only_counted(tmp_path, monkeypatch):
    def broken(self, uri):
        raise StorageError("unreachable")

    monkeypatch.setattr(ShardClient, "open_reader", broken)
    shown = {Relation("s", "m"): str(tmp_path / "m")}
    assert orphans(shown, None, NODES, ("shop", "dev"), timeout=0.1) == []
    with pytest.raises(StorageError):
        orphans(shown, None, NODES, ("shop", "dev"))
