"""`mvsink watch` in a process of its own: data arrive, another dbt wants its turn, the source
breaks, a user presses Ctrl-C.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dbt.adapters.mvsink.cli.commands.status import row_count
from dbt.adapters.mvsink.shard import ShardClient
from tests.functional.connection.processes import Process, dbt, make_project
from tests.support.small_data import INTERPRETED
from tests.support.spark_servers import connect_server, thrift_server

SETTINGS = json.dumps({"spark.driver.memory": "1g", **INTERPRETED})
PROFILE = f"{{type: mvsink, schema: s, server_side_parameters: {SETTINGS}}}"
STG = "{{ config(materialized='view') }} select id, name from parquet.`%s`"
MV = "{{ config(materialized='self_correcting_mv') }} select id, name from {{ ref('stg') }}"
TOP = "{{ config(materialized='self_correcting_mv') }} select count(*) as n from {{ ref('mv') }} m"
SLOW = "{{ config(materialized='self_correcting_mv') }} select count(*) as n from range({{ var('upto', 1000) }}) where id % 7 = 3"
TASK = "{{ config(materialized='continual_task') }} from transform {{ ref('mv') }} using (select id from {{ ref('mv') }})"
STAGING = "insert overwrite directory"
COMMAND = "from dbt.adapters.mvsink.cli.main import main; main()"


def mvsink(project: Path, name: str, *arguments: str) -> Process:
    """The command, for a project."""
    place = ["--project-dir", str(project), "--profiles-dir", str(project)]
    return Process(project.parent, name, "-c", COMMAND, *arguments, *place)


@contextmanager
def watch(project: Path, name: str, *arguments: str) -> Iterator[Process]:
    """It ends with the test, whatever comes of that."""
    process = mvsink(project, name, "watch", *arguments)
    try:
        yield process
    finally:
        if process.popen.poll() is None:
            process.popen.terminate()
            process.end()


def land(source: Path, name: str, *rows: tuple[int, str]) -> None:
    """A file that is there at once."""
    source.mkdir(exist_ok=True)
    table = pa.table({"id": pa.array([row[0] for row in rows], pa.int32()), "name": [row[1] for row in rows]})
    pq.write_table(table, source / f".{name}")
    os.replace(source / f".{name}", source / f"{name}.parquet")


def state(project: Path, name: str):
    with ShardClient().open_reader(str(project / ".mvsink" / "shards" / "s" / name)) as reader:
        return reader.state()


def test_a_watch_from_start_to_end(tmp_path):
    source = tmp_path / "source"
    land(source, "1", (1, "a"))
    project = make_project(tmp_path / "p", {"stg": STG % source, "mv": MV, "top": TOP}, PROFILE)
    with watch(project, "watch") as process:
        process.until("mv +1 -0, top +1 -0  (first round;")

        # Data arrive: what reads them runs, and what is downstream.
        landed = time.monotonic()
        land(source, "2", (2, "b"), (3, "c"))
        process.until("mv +2 -0, top +1 -1")
        fresh, ran = map(
            float, re.findall(r"mv \+2 -0.*fresh ([\d.]+) s after the change, ran ([\d.]+) s", process.out)[0]
        )
        assert ran - 0.1 <= fresh <= time.monotonic() - landed + 0.1  # whatever time it took
        time.sleep(3)
        # named once, and two scheduler: nothing runs in vain
        assert process.out.count("top") == 3, process.outputs

        # Another dbt gets the metastore between rounds, and what it writes is no surprise.
        assert dbt(project, "other", "run", "--select", "mv").end() == 0
        land(source, "3", (4, "d"))
        process.until("mv +1 -0, top +1 -1")

        # A source that breaks is reported, and tried again; nothing is lost.
        (source / "4.parquet").write_text("not Parquet")
        process.until("mv failed: ")
        process.until("trying again in ")
        assert process.popen.poll() is None
        land(source, "4", (5, "e"))
        process.until_true(lambda: process.out.count("mv +1 -0, top +1 -1") == 2, "a second change")
        assert row_count(state(project, "mv").files) == 5

        process.popen.send_signal(signal.SIGTERM)
        assert process.end() == 0 and process.out.endswith("stopped\n"), process.outputs


def test_on_a_warm_session_others_work_beside_it_and_its_server_may_die(tmp_path):
    source = tmp_path / "source"
    land(source, "1", (1, "a"))
    project = make_project(
        tmp_path / "p", {"stg": STG % source, "mv": MV, "top": TOP}, PROFILE[:-1] + ", session: warm}"
    )
    with watch(project, "watch") as process:
        process.until("mv +1 -0, top +1 -0  (first round;")
        other = dbt(project, "other", "run", "--select", "mv")
        assert other.end() == 0 and "starting Spark" not in other.outputs
        land(source, "2", (2, "b"), (3, "c"))
        process.until("mv +2 -0, top +1 -1")

        [session] = sessions(project)
        os.kill(session["process"], signal.SIGKILL)
        land(source, "3", (4, "d"))
        process.until("mv +1 -0, top +1 -1")
        assert row_count(state(project, "mv").files) == 4
        assert process.err.count("has ended without a word") == 1

        process.popen.send_signal(signal.SIGTERM)
        assert process.end() == 0 and process.out.endswith("stopped\n"), process.outputs
    [another] = sessions(project)
    assert another["process"] != session["process"]
    assert mvsink(project, "stop", "session", "stop", "--force").end() == 0


def sessions(project: Path) -> list[dict]:
    """The warm sessions of the project, as `mvsink session status` lists them."""
    process = mvsink(project, "status", "session", "status", "--output", "json")
    assert process.end() == 0, process.outputs
    return json.loads(process.out)["sessions"]


def test_a_task_runs_when_its_input_changed(tmp_path):
    source = tmp_path / "source"
    land(source, "1", (1, "a"))
    project = make_project(tmp_path / "p", {"stg": STG % source, "mv": MV, "log": TASK}, PROFILE)
    with watch(project, "watch", "--interval", "1 second") as process:
        process.until("log +1 -0")
        land(source, "2", (2, "b"), (3, "c"))
        process.until("log +2 -0")
        # a new time of the input, without a change
        assert dbt(project, "other", "run", "--select", "mv").end() == 0
        time.sleep(5)
        assert re.findall(r"log (\S+)", process.out.split("\n", 1)[1]) == ["+1", "+2"], process.outputs
        assert "cannot tell" not in process.out


@contextmanager
def target(kind: str, place: Path) -> Iterator[str]:
    """A running server's profile."""
    common = f"type: mvsink, schema: s, method: {kind}, shard_root: {place / 'p' / '.mvsink' / 'shards'}"
    if kind == "connect":
        with connect_server(place / "server") as remote:
            yield f"{{{common}, remote: '{remote}'}}"
    else:
        with thrift_server(place / "server") as server:
            yield f"{{{common}, host: 127.0.0.1, port: {server.port}, user: dbt}}"


@pytest.mark.parametrize("kind", ["connect", "thrift"])
def test_over_a_server_shards_are_tracked(tmp_path, kind):
    """Below a view too, and outside what is watched; a model over them alone has no interval."""
    base = "{{ config(materialized='self_correcting_mv') }} select id from range({{ var('upto', 3) }})"
    view = "{{ config(materialized='view') }} select id from {{ ref('base') }} where id >= 0"
    top = "{{ config(materialized='self_correcting_mv') }} select count(*) n from {{ ref('v') }}"
    land(tmp_path / "source", "1", (1, "a"))
    ticks = "{{ config(materialized='self_correcting_mv') }} " + STG.split("}} ")[1] % (tmp_path / "source")
    with target(kind, tmp_path) as profile:
        project = make_project(tmp_path / "p", {"base": base, "v": view, "top": top, "ticks": ticks}, profile)
        assert dbt(project, "first", "run", "--select", "base").end() == 0
        with watch(project, "watch", "--select", "v", "top", "ticks", "--interval", "3 seconds") as process:
            process.until("top +1 -0")
            process.until_true(lambda: process.out.count("its interval") > 1, "a second interval")
            assert dbt(project, "other", "run", "--select", "base", "--vars", "{upto: 5}").end() == 0
            process.until("top +1 -1")
            # once more after the first round, as its input may have changed during it
            runs = re.findall(r"top (\S+)", process.out.split("\n", 1)[1])
            assert runs == ["+1", "unchanged", "+1"], process.outputs
            assert "cannot determine" not in process.outputs


def test_ctrl_c_cancels_a_running_query_and_leaves_the_shard_as_it_was(tmp_path):
    project = make_project(tmp_path / "p", {"mv": SLOW}, PROFILE)
    assert dbt(project, "first", "run").end() == 0
    before, log = state(project, "mv"), project / "logs" / "dbt.log"
    staged = log.read_text().count(STAGING)
    with watch(project, "watch", "--vars", json.dumps({"upto": 10_000_000_000_000})) as process:
        process.until("watching mv")
        process.until_true(lambda: log.read_text().count(STAGING) > staged, "a query that runs")
        time.sleep(2)  # so that it is in the middle of it
        process.popen.send_signal(signal.SIGINT)
        assert process.end() == 0, process.outputs
        assert process.out.endswith("stopped\n")
    after = state(project, "mv")
    assert (after.version, after.files) == (before.version, before.files)
