"""Runs that are killed at every step, and runs that meet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from dbt.adapters.mvsink.shard import ShardClient, WriteHandle
from dbt.adapters.mvsink.shard.storage import is_part
from tests.support.clocks import collect_at
from tests.support.projects import Project
from tests.support.shards import live, staged
from tests.support.waiting import wait_for

ROUNDS = 8
# no test here reads a manifest
ENVIRONMENT = {"DBT_WRITE_JSON": "false", "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
KILLED = """
import json, os, sys
from pathlib import Path
from dbt.cli.main import dbtRunner
from dbt.adapters.mvsink.connection.factory import EMBEDDED
from dbt.adapters.mvsink import failpoints
from tests.support.projects import replace_source

def run():
    result = dbtRunner().invoke(["run", "--quiet", "--profiles-dir", ".", "--no-use-colors"])
    if not result.success:
        print(result.exception, [r.message for r in result.result or []])
        sys.exit(1)

source, recover, point, rows = sys.argv[1:]
if recover:
    run()
    print("RECOVERED", json.dumps(sorted(list(row) for row in EMBEDDED.running().sql("select * from s.mv").collect())), flush=True)
if point:
    replace_source(Path(source), json.loads(rows))
    failpoints.install(lambda reached: os._exit(9) if reached == point else None)
    run()
"""
# and is it committed by then?
POINTS = {"upper raised": False, "staged": False, "appended": True, "view published": True}
LOOP = """
import sys, time, pathlib
from dbt.cli.main import dbtRunner
from tests.support import quick_dbt
quick_dbt.install()
name, place = sys.argv[1], pathlib.Path(sys.argv[2])
for round_ in range(int(sys.argv[3])):
    while not (place / f"go-{round_}").exists():
        time.sleep(0.01)
    result = dbtRunner().invoke(["run", "--quiet", "--profiles-dir", ".", "--no-use-colors"])
    outcome = "ok" if result.success else repr([r.message for r in result.result or []] or result.exception)
    (place / f"{name}-{round_}.tmp").write_text(outcome)
    (place / f"{name}-{round_}.tmp").rename(place / f"{name}-{round_}")
"""


def test_a_run_killed_at_every_step(tmp_path):
    """The shard is as before or as after; the next run ends right; nothing doubled, nothing lost,
    no stray file.

    Each process first does the next run after the one that was killed, then is killed itself, one
    step later.
    """
    project = Project(tmp_path / "p", tmp_path / "shards", tmp_path / "source")
    committed, wanted = [], []
    for n, point in enumerate([*POINTS, ""]):
        following = [[i, f"{point} {i % 3}"] for i in range(10 + n)]
        arguments = [str(project.source), "recover" if n else "", point, json.dumps(following)]
        done = subprocess.run(
            [sys.executable, "-c", KILLED, *arguments],
            cwd=project.root, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == (9 if point else 0), (point, done.stdout[-2000:])
        if n:
            assert json.loads(done.stdout.split("RECOVERED ")[1].split("\n")[0]) == sorted(wanted), point
            committed = sorted(wanted)
        if point:
            wanted = following
            assert [list(row) for row in project.contents()] == (
                sorted(wanted) if POINTS[point] else committed
            ), point
    handle = WriteHandle.from_read(ShardClient().open_reader(project.uri))
    collect_at(handle, 4 * 10**12, staged_grace_ms=0)
    # Hadoop adds checksums
    assert {path for path in staged(handle) if is_part(path)} == live(handle)


def test_two_simultaneous_runs_on_changing_data(tmp_path):
    """Separate metastores, one shard root: both succeed in every round, with the right contents."""
    shards, source, place = tmp_path / "shards", tmp_path / "source", tmp_path / "rounds"
    place.mkdir()
    projects = [Project(tmp_path / name, shards, source) for name in ("one", "two")]
    with running_at_once(projects, place, ROUNDS) as workers:
        for round_ in range(ROUNDS):
            wanted = [(i, f"round {round_ if i % 2 else 0}") for i in range(20)] + [(7, "twice")] * 2
            projects[0].set_source(wanted)
            let_both_run(place, round_, workers)
            assert projects[0].contents() == sorted(wanted), round_


@contextmanager
def running_at_once(projects, place, rounds):
    """A process for each of two projects, `one` and `two`, that runs it in each round."""
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", LOOP, name, str(place), str(rounds)],
            cwd=project.root,
            env={**os.environ, **ENVIRONMENT},
            stdout=subprocess.DEVNULL,
        )
        for name, project in zip(("one", "two"), projects)
    ]
    try:
        yield workers
    except BaseException:
        for worker in workers:
            worker.kill()
        raise
    finally:
        for worker in workers:
            worker.wait(timeout=550)


def let_both_run(place, number, workers):
    """A round: both must succeed."""
    (place / f"go-{number}").touch()
    for name in ("one", "two"):
        assert outcome(place / f"{name}-{number}", workers) == "ok"


def outcome(path, workers):
    """What a worker wrote into the file, once it is there."""
    wait_for(path.exists, f"an outcome in {path.name}", *workers)
    return path.read_text()
