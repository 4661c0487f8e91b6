"""Ctrl-C in a long query: nothing of it goes on, and the shard is as before."""

from __future__ import annotations

import re
import signal
import time

import pytest

from dbt.adapters.mvsink.shard import ShardClient
from tests.functional.connection.processes import Process, make_project

pytestmark = pytest.mark.embedded("its jobs are watched in this process")

NUMBERS = "{{ config(materialized='view') }} select id from range({{ var('upto', 1000) }})"
MODEL = "{{ config(materialized='self_correcting_mv') }} select count(*) as n from {{ ref('numbers') }} where id % 7 = 3"
# One process runs the model, then runs it again on numbers that take hours, and says when Spark's
# jobs come and go.
PROCESS = """
import threading, time
from dbt.cli.main import cli, dbtRunner
from dbt.adapters.mvsink.connection.factory import EMBEDDED


def watch():
    tracker, seen = EMBEDDED.running().sparkContext.statusTracker(), False
    while True:
        try:
            found = bool(tracker.getActiveJobsIds())
        except Exception:
            found = False  # Spark has been stopped
        if found != seen:
            seen = found
            print("JOBS" if seen else "NO JOBS", flush=True)
        time.sleep(0.05)

common = ["--profiles-dir", "."]
assert dbtRunner().invoke(["run", *common]).success
print("SECOND RUN", flush=True)
threading.Thread(target=watch, daemon=True).start()
cli(["run", "--vars", "{upto: 10000000000000}", *common])
"""


def shard(root):
    with ShardClient().open_reader(str(root / ".mvsink" / "shards" / "s" / "mv")) as reader:
        state = reader.state()
        return (
            state.version,
            state.upper,
            state.files,
            reader.snapshot(state.upper.as_option() - 1).to_pylist(),
        )


@pytest.mark.seldom
def test_ctrl_c_in_a_long_query(tmp_path):
    root = make_project(tmp_path / "p", {"numbers": NUMBERS, "mv": MODEL})
    process = Process(tmp_path, "run", "-c", PROCESS, cwd=root)
    process.until("SECOND RUN")
    before = shard(root)
    assert before[3][0]["n"] == 143
    process.until("\nJOBS")
    time.sleep(1)  # so that it is in the middle of something
    process.popen.send_signal(signal.SIGINT)
    # dbt ended by itself, with an error, although the query takes hours
    assert process.end(600) not in (0, -signal.SIGINT), process.outputs
    assert "Exited because of keyboard interrupt" in process.out, process.outputs
    assert re.findall(r"^(?:NO )?JOBS$", process.out, re.MULTILINE)[-1] == "NO JOBS", process.outputs
    assert shard(root) == before
