"""A model with `file_format: iceberg` is also an Iceberg table, in the profile's catalog."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from dbt.tests.util import run_dbt
from pyiceberg.catalog import load_catalog

from tests.functional.materialization.base import configured
from tests.functional.materialization.test_published_tables import Published, values
from tests.support.iceberg_readers import ICEBERG_READERS

MODEL = configured(file_format="iceberg")


class TestInACatalog(Published):
    START = {"mv.sql": MODEL}

    @pytest.fixture(scope="class")
    def catalog(self, tmp_path_factory):
        place = tmp_path_factory.mktemp("catalog")
        return {
            "type": "sql",
            "name": "lake",
            "uri": f"sqlite:///{place}/c.db",
            "warehouse": f"file://{place}",
        }

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target, catalog):
        return {**dbt_profile_target, "iceberg_catalog": catalog}

    def check_table(self, project, table, *rows):
        """Every reader sees the ``rows``, and what the view shows."""
        shown = Counter(map(tuple, self.rows(project)))
        assert shown == Counter(rows)
        for name, read in ICEBERG_READERS.items():
            assert read(table) == shown, name

    def test_from_one_format_to_the_other(self, project, catalog):
        name = f"{project.test_schema}.mv"
        lake = load_catalog(**catalog)
        out = self.run(project, "--full-refresh")
        assert "published as an Iceberg table (file_format) at " in out
        assert f"/table, `{name}` in the Iceberg catalog" in out
        self.check_table(project, lake.load_table(name), (1, "a"), (2, "b"), (3, "c"))

        lake.load_table(name).delete("id = 1")
        self.set_source(project, values("(1, 'a')", "(2, 'B')", "(2, 'B')", "(4, null)"))
        self.set_model(project, MODEL.replace("id, name", "id, name, array(id) as ids"))
        out = self.run(project)
        assert "1 commit(s) of other tools to the table undone" in out and "published as" not in out
        rows = (1, "a", (1,)), (2, "B", (2,)), (2, "B", (2,)), (4, None, (4,))
        assert Counter((*row[:2], tuple(row[2])) for row in self.rows(project)) == Counter(rows)
        for reader, read in ICEBERG_READERS.items():
            assert read(lake.load_table(name)) == Counter(rows), reader

        self.set_model(project, configured(file_format="delta"))
        out = self.run(project)
        assert "published as a Delta table" in out and "no longer published as an Iceberg table" in out
        assert not lake.table_exists(name)
        self.check(project, (1, "a"), (2, "B"), (2, "B"), (4, None))
        self.set_model(project, MODEL)
        out = self.run(project)
        assert "published as an Iceberg table" in out and "no longer published as a Delta table" in out
        place = Path(self.table(project))
        assert not (place / "_delta_log").exists()
        self.check_table(project, lake.load_table(name), (1, "a"), (2, "B"), (2, "B"), (4, None))

        shard = {"uri": self.uri(project), "shard_id": str(self.state(project).shard_id)}
        shards = [{"schema": project.test_schema, "identifier": "mv", **shard}]
        run_dbt(["run-operation", "mvsink_drop", "--args", json.dumps({"shards": shards})])
        assert not lake.table_exists(name) and not (place / "metadata").exists()


class TestByPath(Published):
    START = {"mv.sql": MODEL}

    @pytest.mark.skipif(
        "iceberg" not in os.environ.get("MVSINK_FORMATS", ""), reason="needs MVSINK_FORMATS=delta,iceberg"
    )
    def test_spark_reads_it(self, project):
        self.run(project, "--full-refresh")
        self.set_source(project, values("(1, 'a')", "(2, 'B')", "(2, 'B')", "(4, null)"))
        self.run(project)
        place = self.table(project)
        project.run_sql(f"create or replace temporary view by_path using iceberg options (path '{place}')")
        rows = project.run_sql("select * from by_path", fetch="all")
        assert Counter(map(tuple, rows)) == Counter([(1, "a"), (2, "B"), (2, "B"), (4, None)])
