"""A model whose columns change, beside a task, a subscriber, a published table and a reader of its
past: what was readable stays so, and no one misses a change or sees one twice.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt_and_capture, write_file

from dbt.adapters.mvsink.cli.main import cli
from dbt.adapters.mvsink.shard import ShardClient
from tests.functional.materialization.base import Base
from tests.support.table_readers import READERS

pytestmark = pytest.mark.usefixtures("small_data")
MV = (
    "{{{{ config(materialized='self_correcting_mv', file_format='delta', retain_history='30 days'{}) }}}} "
    "select {} from {{{{ ref('source_rows') }}}}"
)
TASK = (
    "{{ config(materialized='continual_task', column_types={'id': 'bigint', 'name': 'string'}) }} "
    "on input {{ ref('mv') }} as (insert into {{ this }} select cast(id as bigint), name from {{ ref('mv') }})"
)
PAST = "select id, name from {{{{ mv_as_of(ref('mv'), '{}') }}}}"
INT, BIGINT, TEXT = (f"cast(id as {kind}) id, name" for kind in ("int", "bigint", "string"))
DAY = "2026-01-{:02d} 12:00:00"


def rows_of(*names):
    return "select * from values {} as t(id, name)".format(
        ", ".join(f"({number}, '{name}')" for number, name in enumerate(names, 1))
    )


class TestChangedColumns(Base):
    START = {"mv.sql": MV.format("", INT), "effects.sql": TASK}

    @pytest.fixture(scope="class")
    def models(self):
        return {"source_rows.sql": rows_of("a"), "mv.sql": MV.format("", INT), "effects.sql": TASK}

    def run(self, project, day, columns, names, configs="", passes=True):
        self.set_source(project, rows_of(*names))
        self.set_model(project, MV.format(configs, columns))
        variables = json.dumps({"mvsink_run_time": DAY.format(day)})
        return run_dbt_and_capture(["run", "--vars", variables, *self.place(project)], expect_pass=passes)[1]

    def place(self, project):
        return ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]

    def command(self, project, *arguments):
        done = CliRunner().invoke(cli, [*arguments, *self.place(project)])
        assert done.exit_code == 0, done.output
        return done.stdout

    def published(self, project):
        """What each ordinary reader of the Delta table sees."""
        read = [reader(self.uri_of_shard / "table") for reader in READERS.values()]
        assert all(each == read[0] for each in read), read
        return sorted(read[0].elements())

    def effects(self, project):
        return sorted(
            map(tuple, project.run_sql(f"select * from {project.test_schema}.effects", fetch="all"))
        )

    def past(self, project, day):
        write_file(PAST.format(DAY.format(day)), project.project_root, "models", "past.sql")
        run_dbt_and_capture(["run", "--select", "past", *self.place(project)])
        return self.rows(project, "past")

    def test_everyone_goes_on(self, project, shard_root):
        self.uri_of_shard = shard_root / project.test_schema / "mv"
        position = Path(project.project_root) / "position.json"
        subscribe = ["subscribe", f"{project.test_schema}.mv", "--position", str(position)]
        self.run(project, 1, INT, "a")
        self.run(project, 2, INT, "ab")
        self.command(project, *subscribe, "--snapshot")

        # a wider type: in place, and no one sees a change but the new row
        message = self.run(project, 5, BIGINT, "abc")
        assert "columns widened: id bigint" in message
        assert self.published(project) == self.rows(project) == [(1, "a"), (2, "b"), (3, "c")]
        assert self.effects(project) == [(1, "a"), (2, "b"), (3, "c")]
        stream = self.command(project, *subscribe)
        assert stream.count('"_mv_diff":1') == 1 and '"c"' in stream and "-1" not in stream
        assert self.past(project, 1) == [(1, "a")] and self.past(project, 3) == [(1, "a"), (2, "b")]

        # another type would end four days of history
        message = self.run(project, 6, TEXT, "abc", passes=False)
        assert "`id` was bigint, is string" in message and "would end 4.0 days of history" in message
        assert "on_schema_change: new_generation" in message
        assert self.published(project) == self.rows(project) == [(1, "a"), (2, "b"), (3, "c")]

        # with the option it does not end: it is kept
        message = self.run(project, 7, TEXT, "abd", ", on_schema_change='new_generation'")
        assert "rebuilt: columns changed (`id` was bigint, is string)" in message
        wanted = [("1", "a"), ("2", "b"), ("3", "d")]
        assert self.published(project) == self.rows(project) == wanted
        assert self.effects(project)[-2:] == [(3, "c"), (3, "d")] and len(self.effects(project)) == 4
        for day, rows in ((1, 1), (3, 2), (6, 3)):
            assert len(self.past(project, day)) == rows
        assert self.past(project, 7) == wanted
        compared = json.loads(
            self.command(project, "diff", f"{project.test_schema}.mv", "-1", "--output", "json")
        )
        assert compared["a"]["rows"] == 3 and compared["columns"]["retyped"] == {"id": ["bigint", "string"]}
        assert (compared["only_in_a"], compared["only_in_b"]) == (1, 1)
        commits = json.loads(
            self.command(project, "history", f"{project.test_schema}.mv", "--output", "json")
        )["commits"]
        assert any("new generation: columns changed" in str(each["message"]) for each in commits)
        with ShardClient().open_reader(str(self.uri_of_shard)) as reader:
            assert [each.generation for each in reader.state().kept] == [0]
