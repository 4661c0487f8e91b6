"""Runs that are killed at every step, and runs that meet."""

from __future__ import annotations

import subprocess
import sys
import time

from dbt.adapters.mvsink.shard import ShardClient, WriteHandle, collect_garbage
from tests.support.projects import Project
from tests.support.shards import live, staged

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


def test_a_run_killed_at_every_step(tmp_path):
    """The shard is as before or as after; the next run ends right; nothing doubled, nothing lost, no stray file."""
    project = Project(tmp_path / "p", tmp_path / "shards", tmp_path / "source")
    held: list[tuple[int, str]] = []
    for n, (point, committed) in enumerate(
        {"upper raised": False, "staged": False, "appended": True, "view published": True}.items()
    ):
        wanted = [(i, f"{point} {i % 3}") for i in range(10 + n)]
        project.set_source(wanted)
        if point == "view published":  # something to publish again
            project.run()
            wanted = [*wanted, (99, "more")]
            project.set_source(wanted)
        code, out = project.run(kill_at=point)
        assert code == 9, (point, out)
        assert project.contents() == (sorted(wanted) if committed else held), point
        code, out = project.run()
        assert (code, out) == (0, str(sorted(wanted))), point
        assert project.contents() == sorted(wanted)
        held = sorted(wanted)
    handle = WriteHandle.from_read(ShardClient().open_reader(project.uri))
    collect_garbage(handle, now_ms=4 * 10**12, staged_grace_ms=0)
    assert staged(handle) == live(handle)


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


def test_two_runs_from_two_terminals_share_the_default_metastore(tmp_path):
    project = Project(tmp_path / "p", tmp_path / "shards", tmp_path / "source")
    project.set_source([(1, "a")])
    both = [project.start(), project.start()]
    outs = [process.communicate(timeout=200)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outs
    assert all(out.strip().endswith("[(1, 'a')]") for out in outs), outs
