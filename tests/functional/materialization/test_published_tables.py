"""A model with `file_format: delta` is also a Delta table, which other readers read as it is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from urllib.parse import urlparse

from dbt.tests.util import run_dbt, run_dbt_and_capture
from deltalake import DeltaTable

from dbt.adapters.mvsink.shard import delta_encoding
from tests.functional.materialization.base import Base, configured
from tests.support.table_readers import READERS

MODEL = configured(file_format="delta")


def values(*rows):
    return f"select * from values {', '.join(rows)} as t(id, name)"


class Published(Base):
    """A project whose model is published."""

    def table(self, project):
        return Path(urlparse(self.uri(project)).path) / "table"

    def check(self, project, *rows):
        """Every reader sees the ``rows``, and what the view shows."""
        shown = Counter(map(tuple, self.rows(project)))
        for name, read in READERS.items():
            assert read(self.table(project)) == shown, name
        read_by_spark = project.run_sql(f"select * from delta.`{self.table(project)}`", fetch="all")
        assert Counter(map(tuple, read_by_spark)) == shown
        if rows:
            assert shown == Counter(rows)

    def run(self, project, *arguments):
        _, out = run_dbt_and_capture(["run", *arguments])
        return out


class TestTables(Published):
    START = {"mv.sql": MODEL}

    def test_from_load_to_unpublished(self, project):
        out = self.run(project, "--full-refresh")
        assert "published as a Delta table (file_format)" in out
        self.check(project, (1, "a"), (2, "b"), (3, "c"))
        self.set_source(project, values("(1, 'a')", "(2, 'B')", "(4, null)"))
        assert "published as" not in self.run(project)
        self.check(project, (1, "a"), (2, "B"), (4, None))
        assert "+0 -0" in self.run(project)
        self.check(project)
        self.set_source(project, values("(2, 'B')", "(2, 'B')", "(2, 'B')", "(5, 'e')"))
        self.run(project)
        self.check(project, (2, "B"), (2, "B"), (2, "B"), (5, "e"))
        self.set_source(project, values("(2, 'B')", "(2, 'B')", "(5, 'e')"))
        self.run(project)
        self.check(project, (2, "B"), (2, "B"), (5, "e"))
        self.run(project, "--full-refresh")
        self.check(project, (2, "B"), (2, "B"), (5, "e"))
        self.set_source(project, values("(2, 'B')", "(6, 'f')"))  # rows of the first load, two alike
        self.run(project)
        self.check(project, (2, "B"), (6, "f"))
        self.set_model(project, MODEL.replace("id, name", "id, name, id * 2 as twice"))
        self.run(project)
        self.check(project, (2, "B", 4), (6, "f", 12))
        self.set_model(project, MODEL.replace("id, name", "name, id"))
        self.run(project)
        self.check(project)
        self.set_model(project, configured(file_format="view"))
        assert "no longer published as a Delta table" in self.run(project)
        assert not (self.table(project) / "_delta_log").exists()

    def test_writes_of_other_tools_to_the_table_are_undone(self, project):
        self.run(project, "--full-refresh")
        DeltaTable(str(self.table(project))).delete("id < 3")
        out = self.run(project)
        assert "1 commit(s) of other tools to the table undone" in out
        self.check(project, (1, "a"), (2, "b"), (3, "c"))

    def test_what_a_vacuum_took_is_named_with_the_remedy(self, project):
        self.run(project, "--full-refresh")
        self.set_source(project, values("(1, 'a')", "(2, 'b')"))
        self.run(project)  # a batch of one row taken back, which the table does not name
        table = DeltaTable(str(self.table(project)))
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
        lost = {file.path for file in self.state(project).files} - {
            f"table/{path.relative_to(self.table(project))}"
            for path in self.table(project).rglob("*.parquet")
        }
        assert len(lost) == 1
        out = str(run_dbt(["run"], expect_pass=False).results[-1].message)
        assert "has lost data" in out and lost.pop() in out
        assert "--full-refresh computes a view again from its query" in out
        self.run(project, "--full-refresh")
        self.check(project, (1, "a"), (2, "b"))


class TestEarlierReleases(Published):
    START = {"mv.sql": MODEL}

    def test_a_shard_of_one_is_written_once(self, project, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(delta_encoding, "FORMAT_VERSION", 1)
            self.set_model(project, configured(file_format="view"))
            self.run(project, "--full-refresh")
        assert {file.directory.split("/")[0] for file in self.state(project).files} == {"batches"}
        self.set_model(project, MODEL)
        out = self.run(project)
        assert "its contents were written once for that" in out
        assert {file.directory.split("/")[0] for file in self.state(project).files} == {"table"}
        self.check(project, (1, "a"), (2, "b"), (3, "c"))
        self.set_source(project, values("(1, 'x')", "(2, 'b')"))
        self.run(project)
        self.check(project, (1, "x"), (2, "b"))
