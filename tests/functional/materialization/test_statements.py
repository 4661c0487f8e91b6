"""The statements that a run sends to Spark: the list in docs/performance.md, *Small models*."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dbt.tests.util import run_dbt

from dbt.adapters.mvsink.adapter import dbt_engine
from dbt.adapters.mvsink.connection.frames import FrameConnection
from dbt.adapters.mvsink.connection.thrift import ThriftConnection

pytestmark = pytest.mark.usefixtures("small_data")
PAGE = Path(__file__).parents[3] / "docs" / "performance.md"
MODEL = "{{ config(materialized='self_correcting_mv', file_format='view') }} select id, id * 2 d from {{ source('raw', 'files') }}"
OTHER = MODEL.replace("id * 2", "id * 3")
_COMMENT = re.compile(r"/\*.*?\*/\s*", re.DOTALL)
PATTERNS = {  # by their names on the page
    "show databases": r"show databases",
    "show table extended": r"show table extended",
    "explain create view": r"explain create or replace view",
    "describe the view": r"describe table extended \S*\.mv\d as json",
    "describe the input": r"describe table extended \S*files\S* as json",
    "describe the source": r"describe table extended \S*files\S*$",
    "select from the query": r"select \* from \(\s*select id",
    "set": r"set$",
    "select version()": r"select version\(\)",
    "set spark.master": r"set spark.master$",
    "write the canary": r"insert overwrite directory .* token from range",
    "write the rows": r"insert overwrite directory",
    "collect the rows": r"select `id`, `d`, _mv_error, _mv_hash",
    "read the view": r"(with _mv_f0 as .*)?select xxhash64\(",
    "create view": r"create or replace view",
    "alter view": r"alter view",
}
RUNS = ("first", "changed", "unchanged")
MODELS = 2


def on_the_page():
    """How often each statement is sent in a run of either kind, as a range."""
    rows = re.findall(r"^\| ([\w .()]+) \| (.*?) \| (.*?) \| (.*?) \|", PAGE.read_text(), re.MULTILINE)
    counted = [(name, counts) for name, *counts in rows if name in PATTERNS]
    assert [name for name, _ in counted] == list(PATTERNS)
    return {name: dict(zip(RUNS, map(as_range, counts), strict=True)) for name, counts in counted}


def as_range(text):
    """`2 a model, 1 a run`, or `1 a session`, which an earlier run may have sent.

    >>> as_range("2 a model, 1 a run"), as_range("1 a session"), as_range("")
    (range(5, 6), range(0, 2), range(0, 1))
    """
    numbers = {what: int(n) for n, what in re.findall(r"(\d) a (\w+)", text)}
    least = MODELS * numbers.get("model", 0) + numbers.get("run", 0)
    return range(least, least + numbers.get("session", 0) + 1)


def kind_of(statement):
    text = _COMMENT.sub("", statement, count=1).strip().lower()
    return next(
        (kind for kind, pattern in PATTERNS.items() if re.match(pattern, text, re.DOTALL)), text[:200]
    )


class TestStatements:
    @pytest.fixture(scope="class")
    def place(self, tmp_path_factory):
        return tmp_path_factory.mktemp("files")

    @pytest.fixture(scope="class")
    def models(self):
        raw = 'sources: [{name: raw, schema: "{{ target.schema }}", tables: [{name: files}]}]'
        return {"raw.yml": raw, "mv1.sql": MODEL, "mv2.sql": OTHER}

    @pytest.fixture
    def sent(self, monkeypatch, method):
        connection = ThriftConnection if method == "thrift" else FrameConnection
        sent, execute = [], connection.execute

        def recorded(connection, sql, bindings=None):
            sent.append(sql)
            return execute(connection, sql, bindings)

        monkeypatch.setattr(connection, "execute", recorded)
        monkeypatch.setattr(dbt_engine, "RECENT", 600.0)  # however slow this machine is
        return sent

    @pytest.fixture
    def runs(self, project, place, sent):
        """The statements of each run."""

        def arrive(*ids):
            pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), place / f"{ids[0]}.parquet")

        def run():
            sent.clear()
            run_dbt(["run", "--threads", "1"])
            return list(sent)

        arrive(1, 2)
        files = f"{project.test_schema}.files"
        project.run_sql(f"create table {files} (id bigint) using parquet location '{place}'")
        runs = {"first": run()}
        arrive(3)
        return runs | {"changed": run(), "unchanged": run()}

    def test_each_is_on_the_page(self, runs, method):
        if method == "session":
            self.check_kinds({name: Counter(map(kind_of, sent)) for name, sent in runs.items()})
        else:
            counted = [sum('"model.test.mv2"' in statement for statement in runs[name]) for name in RUNS]
            page = re.findall(
                rf"^\| {'a warm session' if method == 'warm' else f'`{method}`'} \| (\d+) \| (\d+) \| (\d+) \|$",
                PAGE.read_text(),
                re.MULTILINE,
            )
            assert [tuple(map(str, counted))] == page

    def check_kinds(self, runs):
        page = on_the_page()
        for name, counts in runs.items():
            assert counts.keys() <= page.keys()
            wrong = {
                kind: (counts[kind], page[kind][name])
                for kind in page
                if counts[kind] not in page[kind][name]
            }
            assert wrong == {}, name
