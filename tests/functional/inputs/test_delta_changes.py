"""Changes between versions of Delta tables that Spark wrote: each is exactly the difference of the
versions as multisets.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from dbt.adapters.mvsink.engine import Column, parse_type, sql
from dbt.adapters.mvsink.inputs import (
    DeltaInput,
    FilesGone,
    PendingTime,
    UnsupportedTable,
    bind_versions,
    delta_log,
)
from dbt.adapters.mvsink.inputs import parquet_sql as reading
from dbt.adapters.mvsink.inputs.delta_by_spark import DeltaBySpark
from dbt.adapters.mvsink.inputs.errors import NoReader
from dbt.adapters.mvsink.shard import ShardClient
from tests.support.seldom import often
from tests.support.session_engine import SessionEngine

pytestmark = pytest.mark.usefixtures("small_data")
PLAIN, VECTORS = "'delta.enableDeletionVectors' = 'false'", "'delta.enableDeletionVectors' = 'true'"
HISTORY = [  # one version each
    "insert into {t} select id, concat('n', id % 7), cast(id % 3 as int) from range(50)",
    "insert into {t} values (1, 'n1', 1), (1, 'n1', 1), (100, null, null)",
    "update {t} set n = 'updated' where id in (3, 4, 100)",
    "delete from {t} where id % 10 = 1",
    "merge into {t} using (select id, 'merged' n, cast(id % 3 as int) p from range(45, 55)) s on {t}.id = s.id "
    "when matched and s.id = 46 then delete when matched then update set * when not matched then insert *",
    "optimize {t}",
    "delete from {t} where id between 20 and 25",
    "insert overwrite {t} values (7, 'over', 1), (8, 'over', 2)",
    "restore table {t} to version as of 2",
]
TABLES = {
    "plain": (PLAIN, ""),
    "deletion vectors, partitioned": (VECTORS, "partitioned by (p)"),
}


@pytest.fixture(scope="module", params=often(TABLES, "deletion vectors, partitioned"))
def table(request, spark, tmp_path_factory):
    properties, partitioned = TABLES[request.param]
    location = tmp_path_factory.mktemp("delta") / "t"
    name = f"delta.`{location}`"
    spark.sql(
        f"create table {name} (id bigint, n string, p int) using delta {partitioned} tblproperties ({properties})"
    )
    for statement in HISTORY:
        spark.sql(statement.format(t=name))
    return DeltaInput(str(location)), name


def at_versions(spark, name, versions):
    """The rows of each version, as Spark with its Delta jar reads them."""
    queries = [f"select {v} v, id, n, p from {name} version as of {v}" for v in versions]
    contents = {v: Counter() for v in versions}
    for row in spark.sql(" union all ".join(queries)).collect():
        contents[row["v"]][row["id"], row["n"], row["p"]] += 1
    return contents


def test_every_change_is_the_difference_of_its_versions(table, spark):
    delta, name = table
    newest = delta.newest().version
    assert newest == len(HISTORY)
    expected = at_versions(spark, name, range(newest + 1))
    columns = delta.columns(newest)
    ranges = [*((v, v + 1) for v in range(newest)), (0, newest), (2, newest - 1), (None, 5)]
    wanted, queries = {}, []
    for number, (before, after) in enumerate(ranges):
        old = expected[before] if before is not None else Counter()
        wanted[number] = {row: n for row in expected[after] | old if (n := expected[after][row] - old[row])}
        query = delta.changes(before, after, columns)
        assert (query is None) == (before == 5 and after == 6)  # OPTIMIZE alone
        if query:
            queries.append(f"select {number} r, id, n, p, _mv_diff from (\n{query}\n)")
    result = {number: {} for number in wanted}
    for row in spark.sql("\nunion all\n".join(queries)).collect():
        assert (row["id"], row["n"], row["p"]) not in result[row["r"]]
        result[row["r"]][row["id"], row["n"], row["p"]] = row["_mv_diff"]
    assert result == wanted
    contents = [f"select {v} v, * from (\n{delta.contents(v, columns)}\n)" for v in (1, 4, newest)]
    read = {v: Counter() for v in (1, 4, newest)}
    for row in spark.sql("\nunion all\n".join(contents)).collect():
        read[row["v"]][row["id"], row["n"], row["p"]] += 1
    assert read == {v: expected[v] for v in read}


def test_partition_values_of_every_kind_and_evolved_columns(spark, tmp_path, monkeypatch):
    location = tmp_path / "odd one"
    name = f"delta.`{location}`"
    spark.sql(
        f"create table {name} (id int, s string, d date, m decimal(6,2), b boolean, ts timestamp, nest struct<a:int>) "
        "using delta partitioned by (s, d, m, b, ts)"
    )
    spark.sql(
        f"insert into {name} values (1, 'a b/c=%d', date'2020-02-03', 1.50, true, timestamp'2020-01-01 10:00:00', named_struct('a', 1)),"
        f"(2, null, null, null, null, null, null), (3, '\\'{{x}}', date'0001-01-01', -1, false, timestamp'2020-07-01 10:00:00.5', null)"
    )
    spark.sql(f"alter table {name} add columns (nest.z string, extra map<string,int>)")
    spark.sql(
        f"insert into {name} (id, s, nest, extra) select 4, 'later', named_struct('a', 5, 'z', 'new'), map('k', 1)"
    )
    delta = DeltaInput(str(location))
    newest = delta.newest().version
    wanted = spark.sql(f"select * from {name}")
    for few in (8, 1):  # a relation for each directory, and one for all
        monkeypatch.setattr(reading, "MAX_DIRECTORIES_APART", few)
        result = spark.sql(delta.contents(newest, delta.columns(newest)))
        assert sorted(map(repr, result.collect())) == sorted(map(repr, wanted.collect()))
        assert [(f.name, f.dataType) for f in result.schema] == [(f.name, f.dataType) for f in wanted.schema]


def test_row_p_partitions_whose_values_have_commas(spark, tmp_path):
    name = f"delta.`{tmp_path / 'a, {b}^'}`"
    spark.sql(f"create table {name} (id bigint, p string) using delta partitioned by (p)")
    spark.sql(f"insert into {name} select id, concat('p', id % 10) from range(40)")
    spark.sql(f"insert into {name} select id, concat('p,{{q}}^\\\\!', id % 12) from range(48)")
    delta = DeltaInput(str(tmp_path / "a, {b}^"))
    assert len(delta.change(0, 2).added) > 20
    wanted = spark.sql(f"select id, p, 1L from {name}").collect()
    assert sorted(spark.sql(delta.changes(0, 2, delta.columns(2))).collect()) == sorted(wanted)


def test_row_p_files_and_directories_of_every_character_are_read_as_themselves(spark, tmp_path):
    """All by one glob, and those of one directory by one."""
    letters = [chr(code) for code in [*range(1, 128), 0x85, 0xA0, 0xE9, 0x301, 0x2028, 0x3000, 0x1F600]]
    letters = [letter for letter in letters if letter not in "/:"]
    paths = [str(tmp_path / f"x{letter}y" / f"f{letter}.{letter}") for letter in letters]
    paths += [str(tmp_path / ",{" / f"_={letter}") for letter in letters]
    for number, path in enumerate(paths):
        Path(path).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"n": pa.array([number], pa.int64())}), path)
    columns = [Column(name, parse_type("bigint", name)) for name in ("n", "p")]
    pieces = [reading.Piece(path, (("p", sql.bigint(number)),)) for number, path in enumerate(paths)]
    pieces[len(letters) :] = [replace(piece, partition=(("p", "7L"),)) for piece in pieces[len(letters) :]]
    queries = reading.select_pieces(pieces, columns, "", lambda path: reading.Shape(pq.read_schema(path), 1))
    assert len(queries) == 1
    wanted = [(n, n if n < len(letters) else 7) for n in range(len(paths))]
    assert sorted(map(tuple, spark.sql(queries[0]).collect())) == wanted


def test_row_p_a_file_that_goes_before_spark_lists_it_is_an_error(spark, tmp_path):
    name = f"delta.`{tmp_path}`"
    spark.sql(f"create table {name} (id int, p int) using delta partitioned by (p)")
    spark.sql(f"insert into {name} select /*+ repartition(3) */ id, 0 from range(9)")
    spark.sql(f"insert into {name} select id, id from range(9)")
    delta = DeltaInput(str(tmp_path))
    for before, version in ((0, 1), (1, 2)):
        query = delta.changes(before, version, delta.columns(2))
        assert len(spark.sql(query).collect()) == 9
        Path(delta.change(before, version).added[0].path).unlink()
        with pytest.raises(Exception, match="data files below .* have 9 rows, and Spark read another number"):
            spark.sql(query).collect()


def test_partition_values_mean_what_spark_takes_them_for_of_every_writer(spark, tmp_path):
    """A timestamp without a zone is one of the session that reads it."""
    moment = datetime(2024, 7, 1, 10)
    written = {
        "ts": pa.array([moment.replace(tzinfo=timezone.utc), None], pa.timestamp("us", "UTC")),
        "s": pa.array(["", None]),
        "b": pa.array([b"", b"\x01a"]),
    }
    zone, setting = spark.conf.get("spark.sql.session.timeZone"), "utcTimestampPartitionValues"
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        for name, values in written.items():
            table = pa.table({"id": pa.array([1, 2], pa.int32()), name: values})
            write_deltalake(str(tmp_path / name), table, partition_by=[name])
        for utc in ("true", "false"):
            spark.conf.set(f"spark.databricks.delta.write.{setting}", utc)
            spark.sql(
                f"insert into delta.`{tmp_path / 'ts'}` values (3, timestamp'{moment}'), (4, timestamp'{moment} UTC')"
            )
        far = "date'+10000-01-01', date'-0044-03-15', date'0001-01-01'"
        spark.sql(
            f"create table delta.`{tmp_path / 'd'}` using delta partitioned by (d) as select explode(array({far})) d, 1 id"
        )
        DeltaTable(str(tmp_path / "ts")).create_checkpoint()
        for name in (*written, "d"):
            delta = DeltaInput(str(tmp_path / name))
            version = delta.newest().version
            read = spark.sql(
                f"select id, string({name}) v from (\n{delta.contents(version, delta.columns(version))}\n)"
            )
            wanted = spark.sql(f"select id, string({name}) v from delta.`{tmp_path / name}`")
            assert sorted(map(repr, read.collect())) == sorted(map(repr, wanted.collect())), name
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
        spark.conf.unset(f"spark.databricks.delta.write.{setting}")


def test_row_40_1_a_table_with_char_is_refused_as_its_files_have_other_texts(spark, tmp_path):
    name = f"delta.`{tmp_path}`"
    spark.sql(f"create table {name} (id int, p char(4)) using delta partitioned by (p)")
    spark.sql(f"insert into {name} values (1, 'a')")
    assert [row["p"] for row in spark.sql(f"select p from {name}").collect()] == ["a   "]
    with pytest.raises(UnsupportedTable, match=r"a column that Spark pads where it reads it \(p CHAR\(4\)\)"):
        DeltaInput(str(tmp_path)).newest()


ROW_S = [  # one version each, from 1 on
    "create or replace table {t} using delta tblproperties ('delta.enableTypeWidening' = 'true') as "
    "select cast(id as int) id, concat('n', id % 5) n from range(5, 35)",
    "alter table {t} alter column id type bigint",
    "insert into {t} values (5000000000, 'wide'), (7, 'n2')",
    "alter table {t} set tblproperties ('delta.columnMapping.mode' = 'name')",
    "alter table {t} rename column n to m",
    "delete from {t} where id % 3 = 0",
    "create or replace table {t} using delta partitioned by (p) tblproperties ('delta.enableDeletionVectors' = 'true') "
    "as select id, concat('n', id % 5) m, cast(id % 2 as int) p from range(10, 60)",
    "delete from {t} where id % 3 = 0",
]
NOTHING = {2, 4}  # versions with the same rows


def test_row_s_what_spark_reads_of_both_versions_is_the_change(spark, tmp_path, monkeypatch):
    """Replaced, with other columns, wider types, mapped columns, and vectors of many rows."""
    name = f"delta.`{tmp_path}`"
    spark.sql(f"create table {name} using delta as select cast(id as int) id, 'x' n from range(20)")
    for statement in ROW_S:
        spark.sql(statement.format(t=name))
    monkeypatch.setattr(delta_log, "MAX_DELETED_RUNS", 3)
    monkeypatch.setattr(delta_log, "MAX_QUERY", 4_000)  # the many runs of the last version do not fit
    delta = DeltaBySpark(DeltaInput(str(tmp_path), name), SessionEngine(spark))
    newest = delta.newest()
    assert newest.version == len(ROW_S) and delta.continues(
        replace(newest, table_id=DeltaTable(tmp_path).metadata().id)
    )
    columns = delta.columns(newest.version)
    assert [(each.name, each.type.text) for each in columns] == [
        ("id", "bigint"),
        ("m", "string"),
        ("p", "int"),
    ]
    contents = []
    for version in range(newest.version + 1):
        delta.check(version)
        rows = [row.asDict() for row in spark.sql(f"select * from {name} version as of {version}").collect()]
        contents.append(Counter(tuple(row.get(column.name) for column in columns) for row in rows))
    ranges = [*((v, v + 1) for v in range(newest.version)), (1, newest.version), (4, 6), (None, 6)]
    wanted, queries = {}, []
    for number, (before, after) in enumerate(ranges):
        old = contents[before] if before is not None else Counter()
        wanted[number] = {row: n for row in contents[after] | old if (n := contents[after][row] - old[row])}
        query = delta.changes(before, after, columns)
        assert any(delta.signs(before, after)) or not wanted[number]
        queries += [f"select {number} r, id, m, p, _mv_diff from (\n{query}\n)"] if query else []
    result = {number: {} for number in wanted}
    for row in spark.sql("\nunion all\n".join(queries)).collect():
        result[row["r"]][row["id"], row["m"], row["p"]] = row["_mv_diff"]
    assert result == wanted
    assert {after for after in range(1, newest.version + 1) if not wanted[after - 1]} >= NOTHING
    read = spark.sql(delta.contents(newest.version, columns)).collect()
    assert Counter(map(tuple, read)) == contents[-1]


def test_row_s_what_spark_cannot_read_either_says_both_reasons(spark, tmp_path):
    spark.sql(
        f"create table delta.`{tmp_path}` (id int) using delta tblproperties ('delta.columnMapping.mode' = 'name')"
    )
    with pytest.raises(UnsupportedTable, match=f"table {tmp_path}: it has column mapping"):
        DeltaInput(str(tmp_path)).newest()
    delta = DeltaBySpark(DeltaInput(str(tmp_path), "nowhere.t"), SessionEngine(spark))
    with pytest.raises(
        NoReader,
        match=r"column mapping .*\. Spark cannot read its version 0 either, .*formats: \[delta\].*nowhere",
    ):
        delta.check(delta.newest().version)


def test_a_vacuum_is_noticed(spark, tmp_path):
    location = tmp_path / "t"
    spark.sql(f"create table delta.`{location}` (id int) using delta tblproperties ({PLAIN})")
    spark.sql(f"insert into delta.`{location}` values (1), (2)")
    spark.sql(f"delete from delta.`{location}` where id = 1")
    settings = {
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # tasks of the vacuum
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        spark.sql(f"vacuum delta.`{location}` retain 0 hours")
    finally:
        for key in settings:
            spark.conf.unset(key)
    delta = DeltaInput(str(location))
    with pytest.raises(FilesGone, match=r"versions \[1, 2\] need are gone"):
        delta.changes(1, 2, delta.columns(2))


def test_bound_to_times(spark, tmp_path):
    location = tmp_path / "t"
    name, engine, client, uri = (
        f"delta.`{location}`",
        SessionEngine(spark),
        ShardClient(),
        str(tmp_path / "task/_inputs/t"),
    )
    spark.sql(f"create table {name} (id int) using delta")
    spark.sql(f"insert into {name} values (1), (2)")
    source = DeltaInput(str(location), "raw.t")
    first = bind_versions(source, 1000, client, uri, engine)
    assert spark.sql(first.snapshot(1000)).count() == 2
    spark.sql(f"insert into {name} values (3)")
    spark.sql(f"update {name} set id = 20 where id = 2")
    spark.sql(f"optimize {name}")
    bound = bind_versions(source, 2000, client, uri, engine)
    times = bound.pending(1001, 2001)
    assert [(p.inserts, p.deletes) for p in times] == [(True, False), (True, True)]
    rows = spark.sql(bound.changes(1001, 2001)).collect()
    assert sorted((row["_mv_time"], row["id"], row["_mv_diff"]) for row in rows) == [
        (times[0].time, 3, 1),
        (times[1].time, 2, -1),
        (times[1].time, 20, 1),
    ]
    assert sorted(row["id"] for row in spark.sql(bound.contents(times[0].time)).collect()) == [1, 2, 3]
    assert bind_versions(source, 3000, client, uri, engine).pending(2001, 3001) == []
    assert PendingTime(times[0].time, True, False) in times
