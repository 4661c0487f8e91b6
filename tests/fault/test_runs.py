"""Runs that are killed at every step, and runs that meet."""

from __future__ import annotations

import subprocess
import sys
import time

from tests.support.projects import Project

ROUNDS = 20
LOOP = """
import sys, time, pathlib
from dbt.cli.main import dbtRunner
name, place = sys.argv[1], pathlib.Path(sys.argv[2])
for round_ in range(20):
    while not (place / f"go-{round_}").exists():
        time.sleep(0.01)
    result = dbtRunner().invoke(["run", "--quiet", "--profiles-dir", ".", "--no-use-colors"])
    told = "ok" if result.success else repr([r.message for r in result.result or []] or result.exception)
    (place / f"{name}-{round_}.tmp").write_text(told)
    (place / f"{name}-{round_}.tmp").rename(place / f"{name}-{round_}")
"""


def test_two_simultaneous_runs_on_changing_data(tmp_path):
    """Separate metastores, one shard root: both succeed in every round, and the contents are right."""
    shards, source, place = tmp_path / "shards", tmp_path / "source", tmp_path / "rounds"
    place.mkdir()
    projects = [Project(tmp_path / name, shards, source) for name in ("one", "two")]
    workers = [
        subprocess.Popen([sys.executable, "-c", LOOP, name, str(place)], cwd=project.root, stdout=subprocess.DEVNULL)
        for name, project in zip(("one", "two"), projects)
    ]
    try:
        for round_ in range(ROUNDS):
            wanted = [(i, f"round {round_ if i % 2 else 0}") for i in range(20)] + [(7, "twice")] * 2
            projects[0].set_source(wanted)
            (place / f"go-{round_}").touch()
            for name in ("one", "two"):
                assert told(place / f"{name}-{round_}", workers) == "ok"
            assert projects[0].contents() == sorted(wanted), round_
    finally:
        for worker in workers:
            worker.wait(timeout=60) if round_ == ROUNDS - 1 else worker.kill()


def told(path, workers):
    deadline = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < deadline, f"nothing was told in {path.name}"
        assert all(worker.poll() in (None, 0) for worker in workers), "a worker died"
        time.sleep(0.02)
    return path.read_text()
