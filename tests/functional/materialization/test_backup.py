"""docs/backup.md: its commands are run as they stand there, and what it says of those who had seen
a newer log is what happens.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt_and_capture

from dbt.adapters.mvsink.cli.main import cli
from dbt.adapters.mvsink.shard import ShardClient
from tests.functional.materialization.base import Base
from tests.support.package_edges import ROOT
from tests.support.table_readers import READERS

pytestmark = pytest.mark.usefixtures("small_data")
MV = (
    "{{ config(materialized='self_correcting_mv', file_format='delta') }} "
    "select id, name from {{ ref('source_rows') }}"
)
PLAIN = MV.replace(", file_format='delta'", "")
TASK = (
    "{{ config(materialized='continual_task') }} on input {{ ref('mv') }} as "
    "(insert into {{ this }} select id, name from {{ ref('mv') }})"
)


def rows_of(*names):
    return "select * from values {} as t(id, name)".format(
        ", ".join(f"({number}, '{name}')" for number, name in enumerate(names, 1))
    )


def script(name):
    """The commands of the page."""
    page = (ROOT / "docs" / "backup.md").read_text()
    [commands] = re.findall(rf"<!-- run: {name} -->\n```bash\n(.*?)```", page, re.DOTALL)
    return commands


class TestBackup(Base):
    START = {"mv.sql": MV, "effects.sql": TASK, "plain.sql": PLAIN}

    @pytest.fixture(scope="class")
    def models(self):
        return {"source_rows.sql": rows_of("a"), **self.START}

    @pytest.fixture(autouse=True)
    def places(self, project, shard_root, tmp_path):
        """The shards of this schema, a backup, and another place."""
        self.shards = shard_root / project.test_schema
        self.backup, self.moved = tmp_path / "backup", tmp_path / "moved"
        self.backup.mkdir()
        for name in ("mv", "effects", "plain"):
            try:
                project.run_sql(f"drop view if exists {project.test_schema}.{name}")
            except Exception:
                project.run_sql(f"drop table if exists {project.test_schema}.{name}")
        shutil.rmtree(self.shards, ignore_errors=True)
        self.write(project, "a")
        self.write(project, "ab")

    def page(self, name):
        variables = {"SHARDS": self.shards, "BACKUP": self.backup, "MOVED": self.moved}
        environment = {key: str(value) for key, value in variables.items()}
        subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script(name)],
            env={"PATH": "/usr/bin:/bin", **environment},
            check=True,
        )

    def write(self, project, names, profiles=None):
        self.set_source(project, rows_of(*names))
        return self.dbt(project, "run", profiles=profiles)

    def dbt(self, project, *arguments, profiles=None):
        return run_dbt_and_capture([*arguments, *self.place(project, profiles)])[1]

    def place(self, project, profiles=None):
        profiles = profiles or project.profiles_dir
        return ["--project-dir", str(project.project_root), "--profiles-dir", str(profiles)]

    def elsewhere(self, project, tmp_path):
        """The profile with the other place as its root, in which the schema is a directory."""
        profiles, root = tmp_path / "profiles", self.moved.parent / "root"
        profiles.mkdir()
        text = (Path(project.profiles_dir) / "profiles.yml").read_text()
        assert str(self.shards.parent) in text
        (profiles / "profiles.yml").write_text(text.replace(str(self.shards.parent), str(root)))
        self.moved = root / project.test_schema
        self.moved.mkdir(parents=True)
        return profiles

    def contents(self, project):
        return self.rows(project, "mv")

    def published(self, root):
        read = [sorted(reader(root / "mv" / "table").elements()) for reader in READERS.values()]
        assert all(each == read[0] for each in read), read
        return read[0]

    def subscribe(self, project, position, *more):
        return CliRunner().invoke(
            cli,
            [
                "subscribe",
                f"{project.test_schema}.mv",
                "--position",
                str(position),
                *more,
                *self.place(project),
            ],
        )

    def test_a_backup_is_whole_and_restored_it_goes_on(self, project, tmp_path):
        position = tmp_path / "position.json"
        assert self.subscribe(project, position, "--snapshot").exit_code == 0
        self.page("backup")
        copied = {path.relative_to(self.backup) for path in self.backup.rglob("*") if path.is_file()}
        assert copied == {p.relative_to(self.shards) for p in self.shards.rglob("*") if p.is_file()}
        self.write(project, "abc")
        assert self.subscribe(project, position).exit_code == 0
        assert self.rows(project, "effects") == [(1, "a"), (2, "b"), (3, "c")]
        self.page("restore")
        with pytest.raises(Exception, match="PATH_NOT_FOUND|FILE_NOT_EXIST|are gone or damaged"):
            self.rows(project, "plain")
        assert self.published(self.shards) == [(1, "a"), (2, "b")]
        refused = self.subscribe(project, position)
        assert refused.exit_code == 1 and "its log was restored from a backup" in refused.output
        self.write(project, "abx")
        assert self.contents(project) == self.published(self.shards) == [(1, "a"), (2, "b"), (3, "x")]
        assert self.rows(project, "effects") == [(1, "a"), (2, "b"), (3, "x")]
        history = CliRunner().invoke(cli, ["history", f"{project.test_schema}.mv", *self.place(project)])
        assert history.exit_code == 0

    def test_moved_it_goes_on(self, project, tmp_path):
        with ShardClient().open_reader(str(self.shards / "mv")) as reader:
            before = reader.state()
        profiles = self.elsewhere(project, tmp_path)
        self.page("move")
        message = self.write(project, "abc", profiles)
        assert message.count("its shard was moved from") == 3
        wanted = [(1, "a"), (2, "b"), (3, "c")]
        assert self.contents(project) == self.published(self.moved) == wanted
        assert self.rows(project, "effects") == wanted
        with ShardClient().open_reader(str(self.moved / "mv")) as reader:
            after = reader.state()
        assert (after.shard_id, after.since, after.holds.keys()) == (
            before.shard_id,
            before.since,
            before.holds.keys(),
        )
        shutil.rmtree(self.shards)
        self.write(project, "abcd", profiles)
        assert self.contents(project) == [*wanted, (4, "d")] == self.rows(project, "effects")
        project.run_sql(f"drop view if exists {project.test_schema}.effects")
