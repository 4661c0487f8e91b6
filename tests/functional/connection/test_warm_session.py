"""A warm session: who uses it, who cannot, and what is left of clients and servers that die."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from dbt.adapters.mvsink.connection import warm_server
from tests.functional.connection.processes import Process, dbt, make_project, set_profile
from tests.support.processes import command_lines
from tests.support.waiting import wait_for

WARM = "type: mvsink, schema: s, threads: 2, server_side_parameters: {spark.driver.memory: 1g}"
MODELS = {
    "numbers": "{{ config(materialized='table') }} select id, id % 7 k from range(100)",
    "sums": "{{ config(materialized='self_correcting_mv') }} select k, sum(id) total from {{ ref('numbers') }} group by k",
}
STARTED = "mvsink adapter: starting Spark"


def mvsink(project: Path, name: str, *arguments: str) -> Process:
    code = "from dbt.adapters.mvsink.cli.main import main; main()"
    place = ["--project-dir", str(project), "--profiles-dir", str(project)]
    return Process(project.parent, name, "-c", code, *arguments, *place)


def answer(project: Path, name: str, *arguments: str) -> dict:
    """The JSON of a command that has to succeed."""
    process = mvsink(project, name, *arguments, "--output", "json")
    assert process.end() == 0, process.outputs
    return json.loads(process.out)


def stored(project: Path, session: dict) -> dict:
    return json.loads(Path(session["token_file"]).read_text())


def rows(remote: str, query: str) -> list[tuple]:
    """What an ordinary reader of the session reads."""
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(remote).create()
    try:
        return [tuple(row) for row in session.sql(query).collect()]
    finally:
        session.stop()


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Path:
    """A project with models that the embedded Spark has run once."""
    project = make_project(tmp_path_factory.mktemp("warm") / "my shop", MODELS, f"{{{WARM}}}")
    process = dbt(project, "embedded", "run")
    assert process.end() == 0 and STARTED in process.out, process.outputs
    return project


@pytest.fixture(scope="module")
def session(shop):
    """Its warm session, as JSON."""
    started = answer(shop, "start", "session", "start")
    assert started["started_now"] and started["state"] == "ready"
    yield started
    assert mvsink(shop, "end", "session", "stop", "--all", "--force").end() == 0


@pytest.fixture(scope="module")
def remote(shop, session) -> str:
    """Its address, with the token."""
    return f"{session['remote']}/;token={stored(shop, session)['token']}"


def test_it_and_the_embedded_spark_read_a_model_alike(shop, session):
    """Neither finds the other's settings to be others, so nothing is evaluated again."""
    process = dbt(shop, "unchanged", "run", "--select", "sums")
    assert process.end() == 0 and "inputs unchanged" in process.out, process.outputs


def test_commands_use_it_and_start_no_spark(shop, session, remote):
    process = dbt(shop, "run", "run")
    assert process.end() == 0, process.outputs
    assert STARTED not in process.out
    assert rows(remote, "select sum(total), count(*) from s.sums") == [(4950, 7)]


def test_several_commands_at_once(shop, session, remote):
    processes = [dbt(shop, f"beside {number}", "run", "--select", "sums") for number in range(3)]
    processes.append(mvsink(shop, "status beside", "status"))
    for process in processes:
        assert process.end() == 0, process.outputs
    assert rows(remote, "select sum(total), count(*) from s.sums") == [(4950, 7)]


def test_plan_and_explain_use_it(shop, session):
    for command in ("plan", "explain"):
        process = mvsink(shop, command, command, "sums")
        assert process.end() == 0 and "sums" in process.out, process.outputs
        assert "starting Spark" not in process.outputs


def test_what_it_does_to_be_warm_works_and_leaves_nothing(shop, session, remote):
    before = rows(remote, "show tables in default")
    port = int(session["remote"].rpartition(":")[2])
    warm_server.warm_up(port, stored(shop, session)["token"])
    assert rows(remote, "show tables in default") == before


def test_who_starts_one_that_runs_gets_it(shop, session):
    again = answer(shop, "start again", "session", "start")
    assert (again["started_now"], again["process"]) == (False, session["process"])
    [listed] = answer(shop, "status", "session", "status")["sessions"]
    assert (listed["state"], listed["used_by_this_target"], listed["clients"]) == ("ready", True, [])


def test_only_this_user_can_read_its_files_and_no_command_line_has_the_token(shop, session):
    token = stored(shop, session)["token"]
    directory = Path(session["token_file"]).parent
    assert directory.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in directory.rglob("*"))
    lines = command_lines(session["process"])
    assert lines and not any(token in line for line in lines.values())
    assert token not in Path(f"/proc/{session['process']}/cmdline").read_text()
    assert token not in "".join(path.read_text(errors="replace") for path in directory.glob("*.log"))


@pytest.mark.parametrize("parameters", ["", "/;token=wrong"])
def test_who_does_not_have_the_token_is_refused(session, parameters):
    with pytest.raises(Exception, match="(?i)token|unauthenticated|authentication"):
        rows(f"{session['remote']}{parameters}", "select 1")


CLIENT = """
import sys, time
from dbt.adapters.mvsink.connection.warm import open_warm
from dbt.adapters.mvsink.connection.warm_sessions import warm_server
from dbt.adapters.mvsink.credentials import MvsinkCredentials

credentials = MvsinkCredentials(
    schema="s", progress=False, server_side_parameters={"spark.driver.memory": "1g"}
)
credentials.belong_to(sys.argv[1])
connection = open_warm(credentials, warm_server(credentials))
connection.execute("create temporary view left_behind as select 1")
connection.execute(sys.argv[2])
print("ready", flush=True)
print(connection.fetchall(), flush=True)
time.sleep(600)
"""


def test_a_killed_client_leaves_nothing(shop, session, remote):
    """Neither its statement, which would take for ever on all cores, nor its presence."""
    endless = "select sum(id % 7) from range(100000000000000)"
    client = Process(shop.parent, "killed", "-c", CLIENT, str(shop), endless)
    client.until("ready")
    with pytest.raises(Exception, match="(?i)left_behind"):
        rows(remote, "select * from left_behind")
    process = mvsink(shop, "in use", "session", "stop")
    assert process.end() == 1 and str(client.popen.pid) in process.err, process.outputs
    client.popen.kill()
    client.popen.wait()
    directory = Path(session["token_file"]).with_suffix(".clients")
    wait_for(lambda: not list(directory.iterdir()), "the client's file is removed")
    assert rows(remote, "select count(*) from range(10)") == [(10,)]
    assert answer(shop, "status after", "session", "status")["sessions"][0]["clients"] == []


def test_a_target_with_other_settings_does_not_use_it_and_does_not_wait(shop, session):
    set_profile(shop, f"{{{WARM.replace('1g', '1100m')}}}")
    try:
        process = dbt(shop, "other", "run", "--select", "sums")
        assert process.end() != 0, process.outputs
        assert "in use by a warm session of other settings or versions" in process.out
        assert "mvsink session stop --all" in process.out
        [listed] = answer(shop, "status of another", "session", "status")["sessions"]
        assert (listed["used_by_this_target"], listed["process"]) == (False, session["process"])
        process = mvsink(shop, "stop of another", "session", "stop")
        assert process.end() == 0 and "1 of other settings or versions" in process.out, process.outputs
    finally:
        set_profile(shop, f"{{{WARM}}}")


@pytest.fixture
def small(tmp_path) -> Path:
    """A project of one model with `session: warm`; its session ends with the test."""
    models = {"one": "{{ config(materialized='self_correcting_mv') }} select 1 a"}
    project = make_project(tmp_path / "small", models, f"{{{WARM}, session: warm}}")
    yield project
    assert mvsink(project, "end", "session", "stop", "--all", "--force").end() == 0


def test_two_that_start_one_at_the_same_time_get_one_and_a_killed_one_is_replaced(small):
    both = [dbt(small, f"first {number}", "run") for number in range(2)]
    for process in both:
        assert process.end() == 0, process.outputs
    [listed] = answer(small, "status", "session", "status")["sessions"]
    os.kill(listed["process"], signal.SIGKILL)
    process = dbt(small, "after", "run")
    assert process.end() == 0, process.outputs
    words = f"the warm session \\(process {listed['process']}\\) has ended without a word"
    assert len(re.findall(words, process.out)) == 1, process.outputs
    [new] = answer(small, "status after", "session", "status")["sessions"]
    assert new["process"] != listed["process"] and new["state"] == "ready"


def test_it_ends_by_itself(small):
    started = answer(small, "start", "session", "start", "--idle", "1")
    wait_for(lambda: not Path(f"/proc/{started['process']}").exists(), "the session ends")
    assert not Path(started["token_file"]).exists()
    process = mvsink(small, "status", "session", "status")
    assert process.end() == 0 and "there is no warm session" in process.out, process.outputs


def test_one_that_does_not_start_says_why(small):
    set_profile(small, "{type: mvsink, schema: s, server_side_parameters: {spark.driver.memory: nonsense}}")
    process = mvsink(small, "wrong", "session", "start")
    assert process.end() == 1, process.outputs
    assert "the warm session did not start" in process.err and "Its log: " in process.err
    set_profile(small, f"{{{WARM}, session: warm}}")


def test_own_never_uses_it_and_others_have_none(small):
    set_profile(small, "{type: mvsink, schema: s, method: connect, remote: 'sc://h:1', shard_root: /s}")
    process = mvsink(small, "connect", "session", "start")
    assert process.end() == 2 and "only method session has a warm session" in process.err, process.outputs
    set_profile(small, f"{{{WARM}, session: own}}")
    process = dbt(small, "own", "run")
    assert process.end() == 0 and STARTED in process.out, process.outputs
    assert not (small / ".mvsink" / "session").exists()
