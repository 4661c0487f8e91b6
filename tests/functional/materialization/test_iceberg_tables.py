"""A model with `file_format: iceberg` is also an Iceberg table, in the profile's catalog."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from dbt.tests.util import run_dbt
from pyiceberg.catalog import load_catalog

from dbt.adapters.mvsink.connection.iceberg_catalog import spark_catalog
from dbt.adapters.mvsink.credentials import MvsinkCredentials
from tests.functional.connection.processes import make_project
from tests.functional.materialization.base import configured
from tests.functional.materialization.test_published_tables import Published, values
from tests.support.dbt_process import dbt_process
from tests.support.iceberg_readers import ICEBERG_READERS
from tests.support.iceberg_rest import SECRETS, by_credential, by_token, rest_catalog

SETTINGS = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}
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


class TestInARestCatalog(TestInACatalog):
    """The same, over HTTP."""

    START = TestInACatalog.START

    @pytest.fixture(scope="class")
    def catalog(self, tmp_path_factory):
        with rest_catalog(tmp_path_factory.mktemp("rest")) as (uri, _):
            yield by_token(uri)


needs_iceberg = pytest.mark.skipif(
    "iceberg" not in os.environ.get("MVSINK_FORMATS", ""), reason="needs MVSINK_FORMATS=delta,iceberg"
)


class TestByPath(Published):
    START = {"mv.sql": MODEL}

    @needs_iceberg
    def test_spark_reads_it(self, project):
        self.run(project, "--full-refresh")
        self.set_source(project, values("(1, 'a')", "(2, 'B')", "(2, 'B')", "(4, null)"))
        self.run(project)
        place = self.table(project)
        project.run_sql(f"create or replace temporary view by_path using iceberg options (path '{place}')")
        rows = project.run_sql("select * from by_path", fetch="all")
        assert Counter(map(tuple, rows)) == Counter([(1, "a"), (2, "B"), (2, "B"), (4, None)])


# The two differ only in how a client proves who it is. Of the first, the profile has pyiceberg's
# properties, of the second Spark's settings.
READ = """-- depends_on: {{{{ ref('mv') }}}}
{{% for catalog in ('lake', 'by_token') %}}
select 'missing', * from (select * from ({0}) except all select * from {{{{ catalog }}}}.s.mv) union all
select 'unexpected', * from (select * from {{{{ catalog }}}}.s.mv except all select * from ({0}))
{{{{ 'union all' if not loop.last }}}} {{% endfor %}}"""


def settings_of(catalog):
    """Spark's settings for the catalog with these properties."""
    profile = MvsinkCredentials(schema="s", formats=["iceberg"], iceberg_catalog=catalog)
    return spark_catalog(profile).settings


@needs_iceberg
@pytest.mark.embedded("Spark's settings for the profile's catalog")
def test_spark_reads_it_in_the_profiles_catalog(tmp_path):
    with rest_catalog(tmp_path) as (uri, catalog):
        profile = {
            "type": "mvsink",
            "schema": "s",
            "formats": ["iceberg"],
            "iceberg_catalog": by_credential(uri),
            "server_side_parameters": SETTINGS | settings_of(by_token(uri) | {"name": "by_token"}),
        }
        root = make_project(tmp_path / "p", {"mv": MODEL}, json.dumps(profile))
        (root / "tests").mkdir()
        with dbt_process(root) as process:
            for rows in (values("(1, 'a')", "(2, 'b')"), values("(2, 'B')", "(2, 'B')", "(4, null)")):
                (root / "models" / "source_rows.sql").write_text(rows)
                (root / "tests" / "read.sql").write_text(READ.format(rows))
                assert "PASS read" in process.dbt("build", "--debug")
        assert {"PyIceberg", "Apache-HttpClient"} <= catalog.clients
        log = (root / "logs" / "dbt.log").read_text()
        assert "by_token.s.mv" in log and not [secret for secret in SECRETS if secret in log]
