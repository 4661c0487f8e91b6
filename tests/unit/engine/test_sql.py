"""Statements built of parts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dbt.adapters.mvsink.engine import sql


def test_a_statement_names_the_files_that_it_reads_and_no_others():
    files = sql.Shared()
    one, other = (files.of(f"select * from {sql.parquet(path)}") for path in ("/one", "/other"))
    statement = files.around(f"{one} union all {one}")
    assert re.findall(r"parquet\.`([^`]*)`", statement) == ["/one"]
    assert statement.startswith("with _mv_f0 as (") and "_mv_f1" not in statement
    both = files.around(f"{one} union all {other}")
    assert re.findall(r"parquet\.`([^`]*)`", both) == ["/one", "/other"]
    assert files.around("select 1") == "select 1"


def test_the_same_files_have_one_name_however_often_they_are_read():
    files = sql.Shared()
    queries = [files.of(f"select {number} from {sql.parquet('/one')}") for number in range(12)]
    assert {query.split()[-1] for query in queries} == {"_mv_f0"}


def test_names_with_a_common_beginning_are_different():
    files = sql.Shared()
    queries = [files.of(f"select * from {sql.parquet(f'/{number}')}") for number in range(11)]
    assert re.findall(r"parquet\.`([^`]*)`", files.around(queries[10])) == ["/10"]


def test_few_rows_come_in_one_task():
    files = sql.Shared()
    few, many = files.of(sql.parquet("/few"), few=True), files.of(sql.parquet("/many"))
    statement = files.around(f"select * from {few} join {many}")
    assert "_mv_f0 as (select /*+ coalesce(1) */ * from" in statement
    assert "_mv_f1 as (select * from" in statement


def test_a_view_of_files_is_asked_for_once():
    asked: list[str] = []

    def views_of(paths: Sequence[str]) -> dict[str, str]:
        asked.extend(paths)
        return {path: "known" for path in paths if path != "/other"}

    files = sql.Shared(views_of)
    one, other = (files.of(f"select * from {sql.parquet(path)}") for path in ("/o`ne", "/other"))
    assert files.around(one) == "with _mv_f0 as (select * from known)\nselect * from _mv_f0"
    assert f"from known), _mv_f1 as (select * from {sql.parquet('/other')})" in files.around(
        f"{one} union all {other}"
    )
    assert asked == ["/o`ne", "/other"]


def test_only_what_is_written_quickly_has_no_dictionaries():
    plainly, quickly = (sql.overwrite_directory("/d", "select 1", quickly=each) for each in (False, True))
    assert (
        plainly
        == "insert overwrite directory '/d' using parquet options('parquet.block.size' = '33554432')\nselect 1"
    )
    assert quickly.replace(", 'parquet.enable.dictionary' = 'false'", "") == plainly != quickly
