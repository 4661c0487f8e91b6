"""What a commit to a published Iceberg table writes, and what is deleted."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from random import Random
from threading import Barrier

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo, GreaterThan
from pyiceberg.table import StaticTable

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.published import TableDocs, as_iceberg, check_publishable, publish, retire
from dbt.adapters.mvsink.published.formats import (
    DELTA,
    ICEBERG,
    NoCatalog,
    NoPyiceberg,
    TableFormat,
    recording,
    table_of,
)
from dbt.adapters.mvsink.published.iceberg_files import TableIO
from dbt.adapters.mvsink.published.iceberg_places import AnotherTable
from dbt.adapters.mvsink.published.iceberg_schema import NoIcebergType
from dbt.adapters.mvsink.published.table_store import TableStore
from dbt.adapters.mvsink.shard import ShardClient, StorageError, shown_files
from dbt.adapters.mvsink.shard.maintenance import REMOVED_GRACE_MS, collect_garbage
from tests.long.iceberg_tables import ENTRY, IcebergHistory
from tests.support.iceberg_readers import by_pyiceberg

DAY = 24 * 3_600_000
MODELS = 6


@pytest.fixture
def history(tmp_path):
    return IcebergHistory(str(tmp_path / "s"), Random(1), in_catalog=False)


@pytest.fixture
def catalogued(tmp_path):
    return IcebergHistory(str(tmp_path / "s"), Random(1), in_catalog=True)


def added(history, *rows, taken=()):
    """A run that adds these rows, and takes others back."""
    history._append([*((row, 1, None) for row in rows), *((row, -1, None) for row in taken)])
    history.rows.update(rows)
    history.rows -= Counter(taken)
    history.publish()
    assert history.difference() == ""


def row(number):
    return number, "a", ()


def files(history, below):
    return {path.name for path in (Path(history.table) / below).glob("*")}


def summary(history):
    return history.format.load()._snapshot.summary


def test_the_summary_names_the_shards_version(history):
    added(history, row(1), row(2))
    state = history.handle.state()
    figures = summary(history)
    assert figures["mvsink.shard-id"] == str(state.shard_id)
    assert figures["mvsink.version"] == str(state.version)
    assert figures["mvsink.generation"] == str(state.generation)
    assert (figures["total-records"], figures["total-delete-files"]) == ("2", "0")


def test_only_files_whose_hidden_rows_change_get_another_file_that_hides_rows(history, monkeypatch):
    monkeypatch.setattr(history.chance, "random", lambda: 1)  # no compaction
    added(history, *map(row, range(10)))
    added(history, *map(row, range(10, 20)), taken=[row(0)])
    before = files(history, "_deletes")
    added(history, row(30), taken=[row(11)])
    new = files(history, "_deletes") - before
    figures = summary(history)
    # the second batch, where row 11 was, and the third, which takes it back
    assert len(new) == int(figures["added-delete-files"]) == 2
    assert (figures["removed-delete-files"], figures["total-delete-files"]) == ("1", "3")
    assert (figures["added-data-files"], figures["deleted-data-files"]) == ("1", None)


def test_row_l_columns_in_another_order_keep_their_ids_and_files(history):
    added(history, row(1), row(2))
    before = StaticTable.from_metadata(history.table)
    names = [field.name for field in before.schema().fields]
    order = names[::-1]
    publish(history.handle, order, table=history.format)
    after = StaticTable.from_metadata(history.table)
    assert [field.name for field in after.schema().fields] == order
    assert {field.name: field.field_id for field in after.schema().fields} == {
        field.name: field.field_id for field in before.schema().fields
    }
    rows = after.scan().to_arrow()
    assert rows.column_names == order
    assert sorted(rows.column("id").to_pylist()) == [1, 2]


def test_no_data_file_is_written(history, monkeypatch):
    monkeypatch.setattr(history.chance, "random", lambda: 1)
    added(history, *map(row, range(10)))
    before = {path for path in Path(history.table).glob("*/*.parquet") if path.parent.name != "_deletes"}
    added(history, row(30), taken=[row(3)])
    after = {path for path in Path(history.table).glob("*/*.parquet") if path.parent.name != "_deletes"}
    live = {Path(history.root) / file.path for file in history.handle.state().files}
    assert after - before == live - before and before <= after


def test_a_publication_with_nothing_new_writes_nothing(history):
    added(history, row(1))
    before = sorted(Path(history.table).rglob("*"))
    assert not publish(
        history.handle, history.order, TableDocs(columns={"id": "the key"}), None, history.format
    ).changed
    assert sorted(Path(history.table).rglob("*")) == before


def test_another_comment_is_a_commit_of_the_description_alone(history):
    added(history, row(1))
    done = publish(history.handle, history.order, TableDocs(columns={"id": "other"}), None, history.format)
    assert done.changed
    schema = history.format.load()._newest.metadata.schema()
    assert schema.find_field("id").doc == "other"
    assert summary(history)["added-data-files"] is None


def test_a_hint_that_was_not_written_is_no_harm(history):
    added(history, row(1))
    hint = Path(history.table) / "metadata/version-hint.text"
    added(history, row(2))
    hint.write_text("1")
    added(history, row(3))
    assert hint.read_text() == "3"
    hint.unlink()
    assert history.format.load().version == 3
    history.publish()
    assert hint.read_text() == "3"


def test_a_reader_skips_files_and_no_rows(history, monkeypatch):
    monkeypatch.setattr(history.chance, "random", lambda: 1)
    added(history, *map(row, range(10)))
    added(history, *map(row, range(10, 20)), taken=[row(3)])
    table = StaticTable.from_metadata(history.table)
    for condition, ids, files in (
        (EqualTo("id", 3), [], 2),  # the second file takes it back
        (EqualTo("id", 1), [1], 1),
        (GreaterThan("id", 8), range(9, 20), 2),
        (GreaterThan("id", 20), [], 0),
    ):
        scan = table.scan(row_filter=condition)
        assert sorted(scan.to_arrow().column("id").to_pylist()) == [*ids]
        assert len([*scan.plan_files()]) == files


def test_snapshots_of_other_tools_are_undone_and_counted(history):
    added(history, row(1), row(2))
    history._foreign(lambda table: table.delete("id = 1"))
    history._foreign(lambda table: table.delete("id = 2"))
    live = history.format.load()
    assert (live.foreign, live.of_shard) == (2, history.handle.state().version)
    assert not live.shows(history.handle.state().version, 0)
    done = publish(history.handle, history.order, TableDocs(columns={"id": "the key"}), None, history.format)
    assert done.undone == 2
    assert history.difference() == ""
    assert history.format.load().foreign == 0


def test_what_people_write_there_stays(history):
    """Comments and properties, unless the model says something else."""
    added(history, row(1))

    def change(table):
        with table.transaction() as transaction:
            transaction.set_properties({"owner": "me", "gc.enabled": "true", "comment": "theirs"})
            with transaction.update_schema() as update:
                update.update_column("name", doc="their name")
                update.update_column("id", doc="their id")

    history._foreign(change)
    history.publish()
    metadata = history.format.load()._newest.metadata
    assert [metadata.schema().find_field(name).doc for name in ("id", "name")] == ["the key", "their name"]
    kept = {name: metadata.properties[name] for name in ("owner", "gc.enabled", "comment")}
    assert kept == {"owner": "me", "gc.enabled": "false", "comment": "theirs"}


def test_a_table_that_another_tool_upgrades_is_made_again(history):
    added(history, row(1))
    newest = Path(history.table) / "metadata/v1.metadata.json"
    upgraded = {**json.loads(newest.read_text()), "format-version": 3, "next-row-id": 0}
    (newest.parent / "v2.metadata.json").write_text(json.dumps(upgraded))
    history.publish()
    assert history.difference() == ""
    assert history.format.load()._newest.metadata.format_version == 2


def test_no_two_names_have_one_id_after_another_tool_renamed_a_column(catalogued):
    """It adds the new name to the mapping's entry. Spark reads no table that has an id twice."""
    added(catalogued, row(1))

    def change(table):
        with table.transaction() as transaction, transaction.update_schema() as update:
            update.rename_column("name", "other")
            update.rename_column("tags", "more")

    catalogued._foreign(change)
    added(catalogued, row(2))
    fields = [*json.loads(catalogued.format.load()._metadata.properties["schema.name-mapping.default"])]
    for field in fields:
        fields += field.get("fields", ())
    ids = [field["field-id"] for field in fields]
    assert len(ids) == len({*ids}) and not {"other", "more"} & {*(fields[n]["names"][0] for n in range(3))}


def test_versions_that_another_tool_compresses_are_known(history):
    """Spark does with `write.metadata.compression-codec` = `gzip`; readers take the newest."""
    added(history, row(1))
    first = Path(history.table) / "metadata/v1.metadata.json"
    for number in (2, 3):
        path = first.with_name(f"v{number}.gz.metadata.json")
        path.write_bytes(gzip.compress(first.read_bytes()))
    assert history.format.load()._newest.location.endswith("/v3.gz.metadata.json")
    added(history, row(2))
    assert first.with_name("v4.metadata.json").exists() and not first.with_name("v2.metadata.json").exists()
    assert first.with_name("version-hint.text").read_text() == "4"


def test_old_snapshots_and_their_files_are_deleted_after_the_grace_period(history, monkeypatch):
    now = wall_clock.now_ms()
    monkeypatch.setattr(history.chance, "random", lambda: 1)
    added(history, *map(row, range(5)))
    added(history, row(10), taken=[row(1)])
    added(history, row(11), taken=[row(2)])
    left = files(history, "_deletes"), files(history, "metadata")
    history.format.keep_in_order(now + 1000 + REMOVED_GRACE_MS)
    assert (files(history, "_deletes"), files(history, "metadata")) == left  # snapshots need them
    try:
        wall_clock.install(lambda: now + REMOVED_GRACE_MS + DAY)
        added(history, row(12), taken=[row(3)])
        added(history, row(13))
    finally:
        wall_clock.install(None)
    assert len(history.format.load()._newest.metadata.snapshots) == 3
    history.format.keep_in_order(now + REMOVED_GRACE_MS)
    assert left[0] - files(history, "_deletes") and left[1] - files(history, "metadata")
    assert history.difference() == ""
    history.publish()
    assert history.difference() == ""


def test_manifests_stay_few(history, monkeypatch):
    monkeypatch.setattr(history.chance, "random", lambda: 1)
    for number in range(14):
        added(history, row(number))
    assert len(history.format.load()._manifests) <= as_iceberg.files_of.MAX_MANIFESTS + 1


def test_collection_keeps_what_the_table_names(history):
    """While an error is live, the table shows files that a compaction has replaced."""
    added(history, *map(row, range(5)))
    old = {file.path for file in history.handle.state().files}
    history.error()
    assert history.compact_all()
    history.publish()
    assert not old & {file.path for file in history.handle.state().files}
    assert not old & set(collect_garbage(history.handle, removed_grace_ms=-DAY))
    assert history.difference() == ""
    history.healed()
    history.publish()
    noted = Path(history.table) / shown_files.NAME
    assert old <= set(json.loads(noted.read_text()))  # for a day
    noted.write_text(json.dumps(dict.fromkeys(old, wall_clock.now_ms() - DAY - 1)))
    added(history, row(7))
    assert old <= set(collect_garbage(history.handle, removed_grace_ms=-DAY))
    assert history.difference() == ""


def test_the_table_of_a_shard_that_was_moved_is_made_again(history, tmp_path):
    added(history, row(1), row(2))
    place = str(tmp_path / "other")
    Path(history.root).rename(place)
    handle = ShardClient().open_writer(place, history.handle.schema)
    table = table_of(handle, TableFormat(ICEBERG))
    assert publish(handle, history.order, table=table).changed
    assert by_pyiceberg(f"{place}/table").total() == 2
    assert not publish(handle, history.order, table=table).changed


def test_no_place_in_the_metadata_has_credentials(history):
    files = TableIO(TableStore("s3://key:se/cret@bucket/s/table", {}))
    assert files.location("a/b") == "s3://bucket/s/table/a/b"
    assert files.path("s3://bucket/s/table/a/b") == "a/b"
    added(history, row(1))
    properties = history.format.load()._newest.metadata.properties
    assert history.handle.uri not in "".join(properties.values())


def test_files_of_other_tools_are_collected_once_they_are_undone(history):
    added(history, *map(row, range(5)))
    for number in (1, 2):
        history._foreign(lambda table, number=number: table.delete(f"id = {number}"))
        history.publish()
        assert [*(Path(history.table) / "data").glob("*.parquet")]
        collect_garbage(history.handle, staged_grace_ms=-DAY)
        assert not (Path(history.table) / "data").exists()
        assert history.difference() == ""


@pytest.mark.parametrize("kind, fits", [(pa.int16(), True), (pa.duration("us"), False)])
def test_what_cannot_be_published_is_refused_beforehand(kind, fits):
    columns = pa.schema([("x", kind)])
    check_publishable(TableFormat(DELTA), columns)
    with nullcontext() if fits else pytest.raises(NoIcebergType):
        check_publishable(TableFormat(ICEBERG), columns)


class TestACatalog:
    def test_another_table_of_that_name_is_refused(self, catalogued):
        catalog = catalogued._catalog()
        catalog.create_namespace("schema")
        catalog.create_table(ENTRY, as_iceberg.columns_of.Schema())
        with pytest.raises(
            AnotherTable,
            match=r"`schema.model` in the Iceberg catalog is another table\n  Got: location file:",
        ):
            catalogued.append()
            catalogued.publish()

    def test_retired_it_has_no_entry_and_no_metadata(self, catalogued):
        added(catalogued, row(1))
        catalogued.handle.set_properties(recording(TableFormat(ICEBERG, ENTRY)))
        assert retire(catalogued.handle, catalogued.properties) == ([TableFormat(ICEBERG, ENTRY)], [])
        assert not catalogued._catalog().table_exists(ENTRY)
        assert {path.name for path in Path(catalogued.table).iterdir()} == {
            file.path.split("/")[1] for file in catalogued.handle.state().files
        }

    def test_without_the_catalog_the_entry_that_stays_is_named(self, catalogued):
        added(catalogued, row(1))
        catalogued.handle.set_properties(recording(TableFormat(ICEBERG, ENTRY)))
        _, [left] = retire(catalogued.handle, None)
        assert left.startswith("`schema.model` stays in an Iceberg catalog")
        with pytest.raises(NoCatalog):
            table_of(catalogued.handle, TableFormat(ICEBERG, ENTRY))

    def test_many_models_are_published_into_a_new_one_at_once(self, tmp_path):
        """dbt runs models in threads."""
        together = Barrier(MODELS)

        def publish_one(number):
            history = IcebergHistory(str(tmp_path / f"s{number}"), Random(number), in_catalog=True)
            form = TableFormat(ICEBERG, f"schema.m{number}")
            history.format = table_of(history.handle, form, history.properties)
            together.wait()
            for each in range(3):
                history._append([(row(each), 1, None)])
                history.publish()
            return history

        with ThreadPoolExecutor(MODELS) as pool:
            [history, *_] = pool.map(publish_one, range(MODELS))
        for number in range(MODELS):
            table = history._catalog().load_table(f"schema.m{number}")
            assert by_pyiceberg(table).total() == 3

    def test_a_catalog_that_cannot_be_reached_is_named(self, catalogued):
        form = TableFormat(ICEBERG, ENTRY)
        table = table_of(catalogued.handle, form, {"type": "rest", "uri": "http://localhost:1/"})
        with pytest.raises(StorageError, match="cannot read `schema.model` in the Iceberg catalog"):
            table.load()


def test_a_missing_package_is_named_with_the_remedy(history, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "dbt.adapters.mvsink.published.as_iceberg", None)
    with pytest.raises(NoPyiceberg, match=r"pip install 'dbt-mvsink\[iceberg\]'"):
        table_of(history.handle, TableFormat(ICEBERG))
