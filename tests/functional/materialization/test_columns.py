"""Columns added in place, through dbt: the log lines, the view, and readers that keep working."""

from __future__ import annotations

import json

from dbt.tests.util import relation_from_name, run_dbt_and_capture

from dbt.adapters.mvsink.shard import ShardClient
from tests.functional.materialization.base import MV
from tests.functional.materialization.test_time import AT, MINUTE, MORE, OF_MV, T, TimeBase, at, past

WIDER = MV.replace("id, name", "id, upper(name) big, name, id * 10 c")
TASK = """{{ config(materialized='continual_task') }} on input {{ ref('mv') }} as (
insert into {{ this }} select id, 'came' as what from {{ ref('mv') }};
insert into {{ this }} select id, 'went' from {{ mv_deletes(ref('mv')) }})"""


class TestColumnsAreAdded(TimeBase):
    START = {
        "mv.sql": MV,
        "top.sql": OF_MV,
        "watch.sql": TASK,
        "old.sql": f"select * from {past(AT.format(1))}",
    }

    def equal(self, project, name, query):
        contents = f"select * from {relation_from_name(project.adapter, name)}"
        assert project.run_sql(f"({contents}) except all ({query})", fetch="all") == []
        assert project.run_sql(f"({query}) except all ({contents})", fetch="all") == []

    def test_history_readers_and_tasks_go_on(self, project):
        at(0, "run", "--exclude", "old")
        self.set_source(project, MORE)
        at(1)
        before = self.shard(project, "mv")
        assert len(self.rows(project, "old")) == 4
        self.model(project, "mv", WIDER)
        variables = json.dumps({"mvsink_read_only": True, "mvsink_run_time": T + 2 * MINUTE})
        planned = run_dbt_and_capture(["run", "--select", "mv", "--vars", variables])[1]
        assert "read-only: would write +4 -4; columns added: big string, c int" in planned
        assert self.shard(project, "mv") == before
        out = at(2)
        assert (
            f"+4 -4 at {AT.format(2)}; columns added: big string, c int" in out
            and "new generation" not in out
        )
        after = self.shard(project, "mv")
        assert (after.generation, after.shard_id, after.since) == (
            before.generation,
            before.shard_id,
            before.since,
        )
        source = relation_from_name(project.adapter, "source_rows")
        self.equal(project, "mv", f"select id, upper(name) big, name, id * 10 c from {source}")
        assert self.rows(project, "old")[0] == (1, None, "a", None) and len(self.rows(project, "old")) == 4
        self.equal(project, "top", f"select id, name from {source}")
        assert f"+0 -0 at {AT.format(2)}" in out  # `top`, whose columns are the same
        # the rows at 0, one that came at 1; at 2 each went and came
        assert len(self.rows(project, "watch")) == 3 + 1 + 8
        with ShardClient().open_reader(self.uri(project)) as reader:
            [evolve] = [commit for commit in reader.history() if commit.kind == "evolve"]
        assert evolve.note.purpose == "columns added: big string, c int"
        again = at(3)
        assert "columns added" not in again
        assert [self.last(project, name)["rows_affected"] for name in ("mv", "top", "watch")] == [0, 0, 0]
        self.equal(project, "mv", f"select id, upper(name) big, name, id * 10 c from {source}")
