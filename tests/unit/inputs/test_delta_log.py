"""A Delta table's log as a source of changes: which pieces of files come and go between versions,
and what is refused.
"""

from __future__ import annotations

import datetime
import shutil
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from dbt.adapters.mvsink.engine import Column, parse_type, sql
from dbt.adapters.mvsink.inputs import (
    DeletionVectors,
    DeltaInput,
    FilesGone,
    NoSuchTable,
    TooManyFiles,
    UnsupportedTable,
    VersionsGone,
)
from dbt.adapters.mvsink.inputs import delta_log as module
from dbt.adapters.mvsink.inputs.errors import ColumnsChanged
from dbt.adapters.mvsink.inputs.parquet_sql import partition_values
from dbt.adapters.mvsink.inputs.protocol import TableVersion
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from tests.support.delta_tables import actions, append, data_paths, delete_by_vector, log_file, write_actions


@pytest.fixture
def root(tmp_path):
    return tmp_path / "t"


def names(root, pieces):
    return sorted(piece.path.removeprefix(f"{root}/") for piece in pieces)


def test_an_append_brings_its_files_and_takes_none(root):
    append(root, 1, 2)
    append(root, 3)
    append(root, 4)
    table = DeltaInput(str(root))
    assert table.newest().version == 2
    change = table.change(0, 2)
    assert (
        names(root, change.added) == sorted(data_paths(root, 1) + data_paths(root, 2))
        and change.removed == ()
    )
    assert names(root, table.change(None, 0).added) == data_paths(root, 0)
    assert table.change(1, 1).nothing


def test_a_delete_takes_the_old_file_and_brings_what_is_left_of_it(root):
    append(root, 1, 2)
    append(root, 3)
    DeltaTable(root).delete("id = 1")
    change = DeltaInput(str(root)).change(1, 2)
    assert (names(root, change.added), names(root, change.removed)) == (
        data_paths(root, 2),
        data_paths(root, 0),
    )


def test_a_file_that_was_added_and_removed_in_between_is_not_read(root):
    append(root, 1)
    append(root, 2)
    DeltaTable(root).delete("id = 2")
    append(root, 3)
    change = DeltaInput(str(root)).change(0, 3)
    assert (names(root, change.added), change.removed) == (data_paths(root, 3), ())


def test_a_commit_that_only_rearranges_is_no_change(root):
    append(root, 1)
    append(root, 2)
    DeltaTable(root).optimize.compact()
    table = DeltaInput(str(root))
    assert table.newest().version == 2 and table.change(1, 2).nothing
    assert table.changes(1, 2, table.columns(2)) is None
    # across it, files are compared: the rearranged ones are read and cancel out
    append(root, 3)
    change = DeltaInput(str(root)).change(1, 3)
    assert (
        names(root, change.added) == sorted(data_paths(root, 2) + data_paths(root, 3))
        and len(change.removed) == 2
    )


def test_partition_values_are_given_as_typed_literals_and_odd_paths_are_named_as_they_are(root):
    columns = {
        "id": pa.array([1, 2, 3], pa.int32()),
        "p": ["a b{", "c%d'e", None],
        "d": [datetime.date(2020, 1, 2), None, None],
    }
    write_deltalake(str(root), pa.table(columns), partition_by=["p", "d"])
    table = DeltaInput(str(root))
    pieces = table.change(None, 0).added
    assert {dict(piece.partition)["p"] for piece in pieces} == {
        "'a b{'",
        "concat('c%d', chr(39), 'e')",
        "null",
    }
    assert {dict(piece.partition)["d"] for piece in pieces} == {"'2020-01-02'", "null"}
    for piece in pieces:
        assert table.storage.stat(piece.path.removeprefix(f"{root}/")) is not None, piece.path
    query = table.contents(0, table.columns(0))
    assert query.count("union all") == 2
    assert (
        "cast('2020-01-02' as date) `d`" in query
        and "cast(null as string) `p`" in query
        and "as string) `p`" in query
    )


def test_columns_that_an_old_file_lacks_are_null_and_each_schema_is_a_relation(root):
    append(root, 1)
    write_deltalake(
        str(root), pa.table({"id": pa.array([2], pa.int32()), "n": ["x"]}), mode="append", schema_mode="merge"
    )
    table = DeltaInput(str(root))
    query = table.contents(1, table.columns(1))
    assert query.count("union all") == 1
    assert (
        "select `id` `id`, cast(null as string) `n` from" in query
        and "select `id` `id`, `n` `n` from" in query
    )


def test_a_deletion_vector_is_a_condition_on_row_positions(root):
    append(root, *range(10), configuration={"delta.enableDeletionVectors": "true"})
    [path] = data_paths(root, 0)
    delete_by_vector(root, 1, path, [2, 3, 4, 7])
    delete_by_vector(root, 2, path, [0, 2, 3, 4, 7], deleted_before=[2, 3, 4, 7])
    table = DeltaInput(str(root))
    [whole] = table.change(None, 1).added
    assert whole.rows == "not (_metadata.row_index in (7) or _metadata.row_index between 2 and 4)"
    [gone] = table.change(0, 1).removed
    assert gone.rows == "_metadata.row_index in (7) or _metadata.row_index between 2 and 4"
    assert [piece.rows for piece in table.change(1, 2).removed] == ["_metadata.row_index in (0)"]
    # RESTORE takes rows back in
    assert [piece.rows for piece in table.change(2, 1).added] == ["_metadata.row_index in (0)"]
    assert not table.change(1, 2).added and not table.change(2, 1).removed


def test_row_q_vectors_of_files_of_one_name_in_several_directories(tmp_path):
    """As tables have them that were converted from Parquet; reached by a link, too."""
    root = tmp_path / "a b%é"
    for path in ("x.parquet", "k=1/x.parquet", "j=1/k=1/x.parquet", "k=a%252Cb/x.parquet"):
        file = root / unquote(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": pa.array(range(4), pa.int32())}), file)
    append(root, *range(4), configuration={"delta.enableDeletionVectors": "true"})
    commit = actions(root, 0)
    add = next(action["add"] for action in commit if "add" in action)
    paths = ["x.parquet", "k=1/x.parquet", "j=1/k=1/x.parquet", "k=a%252Cb/x.parquet"]
    adds = [{"add": {**add, "path": path, "size": (root / unquote(path)).stat().st_size}} for path in paths]
    write_actions(root, 0, [*(action for action in commit if "add" not in action), *adds])
    for version, path in enumerate(paths, 1):
        delete_by_vector(root, version, path, [version - 1])
    (tmp_path / "link").symlink_to(root)
    for place in (root, tmp_path / "link"):
        table = DeltaInput(str(place))
        for version, path in enumerate(paths, 1):
            [gone] = table.change(version - 1, version).removed
            assert gone.path == f"{place}/{unquote(path)}"
            assert gone.rows == f"_metadata.row_index in ({version - 1})"


def test_vectors_of_very_many_rows_are_refused_naming_table_and_file(root, monkeypatch):
    monkeypatch.setattr(module, "MAX_DELETED_RUNS", 2)
    append(root, *range(10), configuration={"delta.enableDeletionVectors": "true"})
    [path] = data_paths(root, 0)
    delete_by_vector(root, 1, path, [1, 2, 3, 5])
    delete_by_vector(root, 2, path, [1, 3, 5], deleted_before=[1, 2, 3, 5])
    table = DeltaInput(str(root))
    table.check(0)
    table.check(1)
    with pytest.raises(
        DeletionVectors, match=rf"{root}: file {path} of version 2 has a deletion vector.*PURGE"
    ):
        table.check(2)


@pytest.mark.parametrize("annotated", [True, False])
def test_column_mapping_is_refused(root, annotated):
    append(root, 1)
    changed = actions(root, 0)
    for action in changed:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        if "metaData" in action:
            action["metaData"]["configuration"] = {
                "delta.columnMapping.mode": "name",
                "delta.columnMapping.maxColumnId": "1",
            }
            if annotated:
                physical = '{"delta.columnMapping.id":1,"delta.columnMapping.physicalName":"col-1"}'
                action["metaData"]["schemaString"] = action["metaData"]["schemaString"].replace(
                    '"metadata":{}', f'"metadata":{physical}'
                )
    write_actions(root, 0, changed)
    with pytest.raises(UnsupportedTable, match=f"table {root}: it has .*[Cc]olumn ?[mM]apping"):
        DeltaInput(str(root)).newest()


def test_a_missing_table_is_an_error(root):
    with pytest.raises(NoSuchTable, match=str(root)):
        DeltaInput(str(root)).newest()


def test_a_cleaned_up_log_is_refused_with_both_bounds(root):
    for n in range(4):
        append(root, n)
    DeltaTable(root).create_checkpoint()
    append(root, 9)
    for version in range(3):
        log_file(root, version).unlink()
    table = DeltaInput(str(root))
    assert len(table.change(3, 4).added) == 1
    with pytest.raises(VersionsGone, match=rf"table {root}: version 1 cannot be read any more.*\[3, 4\]"):
        table.change(1, 4)


def test_vacuumed_files_are_refused_naming_table_file_and_versions(root):
    append(root, 1)
    append(root, 2)
    DeltaTable(root).delete("id = 1")
    DeltaTable(root).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    table = DeltaInput(str(root))
    columns = table.columns(2)
    newest = table.newest().version
    assert data_paths(root, 1)[0] in table.contents(newest, columns)
    with pytest.raises(
        FilesGone,
        match=rf"table {root}: 1 data file\(s\) that versions \[1, 2\] need are gone \({data_paths(root, 0)[0]}",
    ):
        table.changes(1, 2, columns)
    with pytest.raises(FilesGone, match=r"versions \[0, 0\]"):
        table.contents(0, columns)


def test_a_shallow_clone_is_refused(root):
    append(root, 1)
    changed = actions(root, 0)
    for action in changed:
        if "add" in action:
            action["add"]["path"] = "file:///elsewhere/part-0.parquet"
    write_actions(root, 0, changed)
    with pytest.raises(UnsupportedTable, match="outside its own directory.*elsewhere"):
        DeltaInput(str(root)).change(None, 0)


def test_the_text_of_a_query_is_bounded(root, monkeypatch):
    append(root, 1)
    append(root, 2)
    table = DeltaInput(str(root))
    text = table.contents(1, table.columns(1))
    assert text.count("parquet.`") == 1 and "{" in text
    monkeypatch.setattr(module, "MAX_QUERY", len(text) - 1)
    with pytest.raises(TooManyFiles, match="2 files are too many"):
        table.contents(1, table.columns(1))


def test_row_s_a_table_that_was_replaced_has_another_id_and_goes_on_with_its_log(root):
    append(root, 1)
    append(root, 2)
    changed = actions(root, 1)
    [first] = [action for action in actions(root, 0) if "metaData" in action]
    first["metaData"]["id"] = "another"
    write_actions(root, 1, [*changed, first])
    table = DeltaInput(str(root))
    one, two = TableVersion(0, str(DeltaTable(root, version=0).metadata().id)), TableVersion(1, "another")
    assert table.newest() == two != one
    assert table.continues(one) and table.continues(two)
    assert not table.continues(TableVersion(0, "of a table that was dropped"))


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [(pa.int32(), pa.int64(), True), (pa.int64(), pa.int32(), False), (pa.string(), pa.int64(), False)],
)
def test_row_s_what_a_version_has_in_another_type_is_read_if_no_value_is_lost(root, before, after, kept):
    write_deltalake(root, pa.table({"id": pa.array([], before)}))
    write_deltalake(root, pa.table({"id": pa.array([1], after)}), mode="overwrite", schema_mode="overwrite")
    table = DeltaInput(str(root))
    columns = table.columns(1)
    if kept:
        assert table.changes(0, 1, columns) is not None
        return
    was = table.columns(0)[0].type.text
    with pytest.raises(ColumnsChanged, match=rf"`id` was {was} at version 0, is {columns[0].type.text}"):
        table.changes(0, 1, columns)
    with pytest.raises(ColumnsChanged):
        table.contents(0, columns)


def test_row_s_partition_values_go_by_the_columns_names_in_any_case(root):
    write_deltalake(root, pa.table({"P": ["x"], "id": [1]}), partition_by=["P"])
    table = DeltaInput(str(root))
    wanted = (Column("p", parse_type("string", "p")),)
    assert "select cast('x' as string) `p` from" in table.contents(0, wanted)


@pytest.mark.parametrize("versions", [1, 3], ids=["with fewer versions", "with the version that was bound"])
def test_a_table_that_was_created_again_has_another_id_and_does_not_continue(root, versions):
    append(root, 1)
    append(root, 2)
    before = DeltaInput(str(root)).newest()
    shutil.rmtree(root)
    for number in range(versions):
        append(root, number)
    table = DeltaInput(str(root))
    assert table.newest().table_id != before.table_id
    assert not table.continues(before)


def test_row_e_a_file_whose_partition_values_cannot_be_read_is_left_out(root):
    write_deltalake(str(root), pa.table({"p": ["a"], "x": [1]}), partition_by=["p"])
    storage, path = DeltaStorage(str(root)), root / "_delta_log" / f"{0:020d}.json"
    [file] = DeltaTable(str(root)).file_uris()
    name = file[len(str(root)) + 1 :]
    assert partition_values(storage, 0, [name]) == {name: {"p": "a"}}
    text = path.read_text()
    for wrong in ("[]", "3", '{"p":7}', '{"p":1e400}', "null", "[" * 10_000, '{"p":"\\ud800"}'):
        path.write_text(text.replace('{"p":"a"}', wrong))
        assert partition_values(storage, 0, [name]) == {}, wrong
    path.write_bytes(text.encode()[:-99] + b"\xff\n")
    partition_values(storage, 0, [name])


def test_row_40_1_values_with_what_python_takes_for_the_end_of_a_line(root):
    """`deltalake` writes them into its log as they are; only a newline ends a line there."""
    values = [f"a{chr(code)}b" for code in (0x0B, 0x0C, 0x1C, 0x1D, 0x1E, 0x85, 0x2028, 0x2029)]
    table = pa.table({"id": pa.array(range(len(values)), pa.int32()), "p": values})
    write_deltalake(str(root), table, partition_by=["p"])
    pieces = DeltaInput(str(root)).change(None, 0).added
    assert sorted(piece.partition for piece in pieces) == sorted((("p", sql.text(each)),) for each in values)
