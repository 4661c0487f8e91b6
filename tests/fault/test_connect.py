"""Whole projects over a Spark Connect server, which is killed in three stages of a run, and in a
fourth is back before the run goes on.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dbt.adapters.mvsink.shard import ShardClient
from tests.support.dbt_process import DbtProcess, Outcome, dbt_process
from tests.support.processes import free_port
from tests.support.shards import rows
from tests.support.spark_servers import connect_server
from tests.support.waiting import wait_for

DBT = "from dbt.cli.main import cli; cli()"
SLOW = 10**13  # rows of a query that no server of this size ends
MODELS = {
    "names": "select id, name as x from parquet.`{source}`",
    "hourly": "select x, count(*) n from {{{{ ref('names') }}}} group by x",
    "slow": "select cast(id % 3 as string) x from range({{{{ var('rows', 9) }}}}) where sqrt(id) >= 0",
}
TASK = """{{ config(materialized='continual_task') }}
  on input {{ ref('names') }} as (insert into {{ this }} select x from {{ ref('names') }})"""


class Project:
    """Three views and a task; `dbt run` is a process of its own."""

    def __init__(self, place: Path, remote: str):
        self.place, self.shards, self.source = place, place / "shards", place / "source"
        (place / "models").mkdir(parents=True)
        self.source.mkdir()
        for name, query in MODELS.items():
            text = "{{ config(materialized='self_correcting_mv') }} " + query.format(source=self.source)
            (place / "models" / f"{name}.sql").write_text(text)
        (place / "models" / "every.sql").write_text(TASK)
        (place / "dbt_project.yml").write_text(
            "name: p\nversion: '1.0'\nprofile: p\nflags: {send_anonymous_usage_stats: false}\n"
        )
        target = {"type": "mvsink", "method": "connect", "remote": remote, "schema": "s"}
        outputs = {"dev": {**target, "shard_root": str(self.shards), "threads": 2}}
        (place / "profiles.yml").write_text(json.dumps({"p": {"target": "dev", "outputs": outputs}}))

    def write(self, *names: str | None) -> None:
        """Replace the source's rows."""
        table = pa.table({"id": range(len(names)), "name": pa.array(names, pa.string())})
        pq.write_table(table, self.source / "part-0.parquet")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", DBT, "--no-use-colors", *arguments]
        return subprocess.Popen(
            command, cwd=self.place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def run(self, *arguments: str) -> str:
        process = self.start("run", *arguments)
        output = process.communicate(timeout=300)[0]
        assert process.returncode == 0, output
        return output

    def contents(self, model: str) -> list[tuple[object, int]]:
        reader = ShardClient().open_reader(str(self.shards / "s" / model))
        return rows(reader.snapshot(reader.upper.stored() - 1))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("connect")


@pytest.mark.seldom
def test_a_server_that_is_killed_in_the_middle_of_a_run_leaves_nothing_wrong(place):
    port = free_port()
    project = Project(place / "p", f"sc://127.0.0.1:{port}")
    with ExitStack() as first:
        first.enter_context(connect_server(place / "server", port))
        project.write("a", "b", None, "a")
        assert "+4 -0 at" in project.run("--select", "names", "hourly", "every")
        assert project.contents("hourly") == sorted([("a", 1), ("b", 1), (None, 1)], key=repr)
        project.write("a", "b", "b")
        output = project.run("--select", "names", "hourly")
        assert "+1 -2 at" in output, output
        running = project.start("run", "--select", "slow", "--vars", json.dumps({"rows": SLOW}))
        log = project.shards / "s" / "slow" / "_delta_log"
        wait_for(log.exists, "the shard, after which the query runs", running)
        time.sleep(3)
    output = running.communicate(timeout=550)[0]
    assert running.returncode != 0 and "is not repeated; run again" in output, output
    assert "keyboard interrupt" not in output and "Encountered an error" not in output, output
    with dbt_process(project.place) as dbt:
        _without_a_server(dbt)
        with connect_server(place / "server", port):
            project.write("a", "b", "b", "c")
            dbt.dbt("run")
            assert project.contents("names") == [("a", 1), ("b", 1), ("b", 1), ("c", 1)]
            assert project.contents("slow") == [("0", 3), ("1", 3), ("2", 3)]
            before = project.contents("every")
            project.write("a", "b", "b", "c", "d")
            dbt.dbt("run", "--select", "names")
            dbt.start("staged", "run", "--select", "every")
        outcome = dbt.go_on()
        assert not outcome.success and "is not repeated; run again" in outcome.output, outcome.output
        with connect_server(place / "server", port):
            dbt.dbt("run")
            assert project.contents("every") == sorted([*before, ("d", 1)], key=repr)
            assert ("d", 1) in project.contents("names")
            project.write("a", "b", "b", "c", "d", "e")
            dbt.start("staged", "run", "--threads", "1", "--select", "names", "hourly")
        with connect_server(place / "server", port):
            _over_a_restarted_server(dbt.go_on())
            dbt.dbt("run")
        assert ("e", 1) in project.contents("names") and ("e", 1) in project.contents("hourly")
        assert project.contents("every") == sorted([*before, ("d", 1), ("e", 1)], key=repr)


def _over_a_restarted_server(outcome: Outcome) -> None:
    """The new server does not know the session, and no statement is sent to it in another one."""
    assert not outcome.success
    assert "has dropped the session (" in outcome.output and "run again" in outcome.output, outcome.output
    assert "Traceback" not in outcome.output, outcome.output


def _without_a_server(dbt: DbtProcess) -> None:
    """No model is opened, and the message says what to check."""
    outcome = dbt.outcome("run")
    assert not outcome.success
    assert "no session on the Spark Connect server" in outcome.output, outcome.output
    assert "Check `remote` (a server of Spark 4 runs there)" in outcome.output, outcome.output
