"""The order of an Iceberg table's snapshots, and by which query their changes are read, as its
metadata say.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.inputs import IcebergInput, NotADescendant, SnapshotGone, UnsupportedTable
from dbt.adapters.mvsink.inputs.iceberg import IcebergFormat, current_snapshot
from dbt.adapters.mvsink.inputs.protocol import EMPTY, CatalogTable, TableOptions
from tests.support.engines import NoEngine

ICEBERG = {"format": "iceberg/parquet", "format-version": "2"}


@dataclass
class Metadata(NoEngine):
    """An engine that knows one table. ``snapshots``: id, parent, operation,
    delete files, schema.
    """

    current: int
    snapshots: list[tuple[int, int | None, str, int, int | None]]
    schema: int = 0
    readable: bool = True
    columns_of: dict[int, list[tuple[str, str]]] = field(default_factory=dict)

    def execute(self, statement, what):
        assert statement == "refresh table c.db.t"

    def query(self, query, what):
        if query == "show tblproperties c.db.t":
            return [*ICEBERG.items(), ("current-snapshot-id", str(self.current))]
        if "max(regexp_extract" in query:
            if not self.readable:
                raise EngineError("no such file system")
            return [("uuid", str(self.schema))]
        assert "c.db.t.snapshots" in query
        rows = [
            (id, parent, operation, "1", str(deletes), "10", None, None, None)
            for id, parent, operation, deletes, _ in self.snapshots
        ]
        log = [
            (id, None, None, None, None, None, f"v{at}.metadata.json", schema, at)
            for at, (id, *_, schema) in enumerate(self.snapshots)
            if schema is not None
        ]
        return [*log, *rows]

    def columns(self, query):
        version = int(query.rsplit(" ", 1)[-1])
        return self.columns_of.get(version, [("id", "bigint")])


def table(*snapshots, **options):
    """``snapshots``: id, parent, and if they differ operation, delete files, schema."""
    rest = (None, "append", 0, 0)
    whole = [(*each, *rest[len(each) - 1 :]) for each in snapshots]
    return IcebergInput("c.db.t", Metadata(options.pop("current", whole[-1][0]), whole, **options))


CHAIN = ((70,), (20, 70), (90, 20), (10, 90))
GONE = ((90, 20), (10, 90))
ORDERS = {  # snapshots, before, after: the snapshots in between, or the error
    "a chain": (CHAIN, 70, 10, [20, 90, 10]),
    "the next one": (CHAIN, 90, 10, [10]),
    "itself": (CHAIN, 10, 10, []),
    "from an empty table": (CHAIN, EMPTY, 20, [70, 20]),
    "from an empty table whose first snapshots expired": (GONE, EMPTY, 10, [90, 10]),
    "an older one": (CHAIN, 90, 20, NotADescendant),
    "a branch": ((*CHAIN, (55, 20)), 55, 10, NotADescendant),
    "a table without a snapshot": (CHAIN, 20, EMPTY, NotADescendant),
    "one that was never there": (CHAIN, 99, 10, NotADescendant),
    "an expired one": (GONE, 70, 10, SnapshotGone),
    "the expired parent of the oldest": (GONE, 20, 10, SnapshotGone),
}


@pytest.mark.parametrize(("snapshots", "before", "after", "wanted"), ORDERS.values(), ids=ORDERS)
def test_the_snapshots_in_between(snapshots, before, after, wanted):
    source = table(*snapshots)
    if isinstance(wanted, list):
        assert list(source.between(before, after)) == wanted
        return
    with pytest.raises(wanted, match=r"^table c\.db\.t: [^\n]*reset the task$"):
        source.between(before, after)


LOG, WHOLE, NOTHING = "log", "whole", "nothing"
SET_BACK = ((1,), (2, 1), (3, 1))
WAYS = {  # snapshots, the table's present schema: how the change from 1 to 3 is read
    "appends": (((1,), (2, 1), (3, 2)), 0, LOG),
    "an overwrite": (((1,), (2, 1, "overwrite"), (3, 2, "delete")), 0, LOG),
    "compaction": (((1,), (2, 1, "replace"), (3, 2, "replace")), 0, NOTHING),
    "compaction of delete files": (((1, None, "overwrite", 2), (3, 1, "replace", 0)), 0, NOTHING),
    "an append and a compaction": (((1,), (2, 1), (3, 2, "replace")), 0, LOG),
    "delete files at the end": (((1,), (2, 1), (3, 2, "delete", 1)), 0, WHOLE),
    "delete files in the middle": (((1,), (2, 1, "delete", 1), (3, 2, "overwrite", 0)), 0, WHOLE),
    "delete files before": (((1, None, "delete", 1), (2, 1, "overwrite", 0), (3, 2)), 0, WHOLE),
    "another schema": (((1,), (2, 1, "append", 0, 1), (3, 2, "append", 0, 1)), 1, WHOLE),
    "another schema, and back": (((1,), (2, 1, "append", 0, 1), (3, 2)), 0, WHOLE),
    "a schema that changed since": (((1,), (2, 1), (3, 2)), 1, WHOLE),
    "a schema that the log no longer has": (((1, None, "append", 0, None), (3, 1)), 0, WHOLE),
    "compaction, and a schema that changed": (((1,), (3, 1, "replace", 0, 1)), 1, WHOLE),
    "no descendant": (SET_BACK, 0, LOG),
}


@pytest.mark.parametrize(("snapshots", "schema", "way"), WAYS.values(), ids=WAYS)
def test_how_a_change_is_read(snapshots, schema, way):
    source = table(*snapshots, schema=schema)
    query = source.changes(1, 3, source.columns(3))
    read = NOTHING if query is None else LOG if "c.db.t.changes with" in query else WHOLE
    assert read == way, query
    if read == WHOLE:
        assert "version as of 1" in query and "version as of 3" in query


def test_between_two_branches_both_are_read_whole():
    source = table(*SET_BACK)
    query = source.changes(2, 3, source.columns(3))
    assert "version as of 2" in query and "version as of 3" in query
    with pytest.raises(SnapshotGone):
        source.changes(99, 3, source.columns(3))


def test_metadata_that_cannot_be_read_as_text_leave_the_identity_open():
    source = table((1,), (3, 1), readable=False)
    assert source.newest().table_id == ""
    assert "changes with" not in str(source.changes(1, 3, source.columns(3)))


def test_a_column_is_read_by_its_name():
    columns = {
        3: [("id", "bigint"), ("name", "string"), ("more", "int")],
        1: [("ID", "int"), ("name", "string")],
    }
    source = table((1,), (3, 1, "append", 0, 1), schema=1, columns_of=columns)
    assert source.contents(1, source.columns(3)) == (
        "select cast(`ID` as bigint) `id`, `name` `name`, cast(null as int) `more` from c.db.t version as of 1"
    )


OTHERS = {
    "Delta's": {"delta.minReaderVersion": "1"},
    "a view's": {},
    "a metadata table's": {"format": "iceberg/parquet", "current-snapshot-id": "7"},
    "another catalog's": {"format": "parquet", "format-version": "2"},
}


@pytest.mark.parametrize("properties", OTHERS.values(), ids=OTHERS)
def test_other_properties_show_no_snapshot(properties):
    assert current_snapshot(properties) is None


def test_an_empty_table_has_a_version():
    assert current_snapshot({**ICEBERG, "current-snapshot-id": "none"}) == EMPTY


def test_a_table_named_by_its_path_is_refused():
    with pytest.raises(UnsupportedTable, match="no name in a catalog, only its path"):
        IcebergFormat().open(CatalogTable("iceberg.`/a`", "/a", by_path=True), TableOptions(NoEngine()))
