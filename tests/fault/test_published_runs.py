"""Whole runs of a project whose models are Delta tables, killed at every step; and two at once.

Of three models one is a view and one a task, both always published; the third becomes a table and a
view again in turns. Whatever is killed, the tables show what the shards had before the run or have
after it, and the next run brings everything up to date.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from random import Random

import pytest
from deltalake.exceptions import TableNotFoundError

from tests.fault.test_runs import ENVIRONMENT, let_both_run, running_at_once
from tests.support.projects import Project
from tests.support.seldom import often
from tests.support.table_readers import by_deltalake

SEED = 43
DRAWN = 2  # kills in CI, drawn by the seed
MODELS = {
    "mv": "{{{{ config(materialized='self_correcting_mv', file_format='delta') }}}} select id, name from parquet.`{source}`",
    "copied": "{{{{ config(materialized='continual_task', file_format='delta') }}}} on input {{{{ ref('mv') }}}} as ("
    "insert into {{{{ this }}}} select id, name from {{{{ ref('mv') }}}})",
    "swing": "{{{{ config(materialized='self_correcting_mv', file_format=env_var('SWING')) }}}} "
    "select name, count(*) as n from {{{{ ref('mv') }}}} group by name",
}
# The points that a run reaches which corrects everything, with `swing` becoming a table.
POINTS = (
    *("staged", "appended", "table to be committed", "table committed"),
    *("looked", "looked", "staged", "appended", "looked", "looked", "table to be committed", "table committed"),
    *("staged", "appended", "table to be committed", "table committed", "entry dropped", "table in the catalog"),
)  # fmt: skip
PROCESS = """
import json, os, sys
from pathlib import Path
from dbt.cli.main import dbtRunner
from dbt.adapters.mvsink.connection.factory import EMBEDDED
from dbt.adapters.mvsink import failpoints
from tests.support.projects import replace_source

reached = []
def run(kill):
    reached.clear()
    def hook(point):
        reached.append(point)
        if kill is not None and len(reached) > kill:
            print("REACHED", json.dumps(reached), flush=True)
            os._exit(9)
    failpoints.install(hook)
    result = dbtRunner().invoke(["run", "--quiet", "--profiles-dir", ".", "--no-use-colors"])
    if not result.success:
        print(result.exception, [r.message for r in result.result or []])
        sys.exit(1)

source, recover, following, swing, kill = json.loads(sys.argv[1])
os.environ["SWING"] = recover
run(None)
spark = EMBEDDED.running()
rows = {name: list(map(list, spark.sql(f"select * from s.{name}").collect())) for name in ("mv", "copied", "swing")}
kind = spark.catalog.getTable("s.swing").tableType
print("RECOVERED", json.dumps([rows, kind]), flush=True)
if following is not None:
    replace_source(Path(source), following)
    os.environ["SWING"] = swing
    run(kill)
    print("REACHED", json.dumps(reached), flush=True)
"""


class Published(Project):
    """The three models, and what they have to hold after each source."""

    def __init__(self, root, shard_root, source):
        super().__init__(root, shard_root, source)
        for name, text in MODELS.items():
            (root / "models" / f"{name}.sql").write_text(text.format(source=source))
        profile = root / "profiles.yml"
        profile.write_text(profile.read_text().replace("schema: s,", "schema: s, formats: [delta],"))
        self.wanted = {name: Counter() for name in MODELS}
        self.before = self.wanted

    def follow(self, rows):
        """From now on the source is to have these."""
        mv = Counter(map(tuple, rows))
        names = Counter(name for _, name in mv.elements())
        copied = self.wanted["copied"] + (mv - self.wanted["mv"])
        self.before, self.wanted = self.wanted, {"mv": mv, "copied": copied, "swing": Counter(names.items())}

    def shown(self):
        """The tables' rows; without those of models that have no table."""
        tables = {}
        for name in MODELS:
            with suppress(TableNotFoundError):
                tables[name] = by_deltalake(self.shard_root / "s" / name / "table")
        return tables


def process(project, recover, following, swing, kill):
    """The rows and the kind of `swing` after the run that recovers, and the points that the second
    run reached.
    """
    arguments = json.dumps([str(project.source), recover, following, swing, kill])
    done = subprocess.run(
        [sys.executable, "-c", PROCESS, arguments],
        cwd=project.root, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=500,
    )  # fmt: skip
    printed = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(("REC", "REA")))
    reached = json.loads(printed.get("REACHED", "[]"))
    killed = kill is not None and len(reached) > kill
    assert done.returncode == (9 if killed else 0), done.stdout[-3000:]
    rows, kind = json.loads(printed["RECOVERED"])
    return {name: Counter(map(tuple, listed)) for name, listed in rows.items()}, kind, reached


def rows_of(number):
    """A source of which half the rows differ from those before, and two are equal."""
    rows = [[i, f"run {number if i % 2 else 0}"] for i in range(10 + number)]
    return [*rows, *[[7, "twice"]] * (2 + number % 2)]


def kills(project, numbers):
    """Kill a run at each of these points, by number; each process first does the run that recovers.
    Returns what `swing` was to become in each run, and the point, or None if it was not reached.
    """
    project.follow(rows_of(0))
    project.set_source(rows_of(0))
    at, swing = [], "view"
    for n, number in enumerate(numbers, 1):
        before, kept = project.wanted, swing
        swing = "delta" if swing == "view" else "view"
        project.follow(rows_of(n))
        rows, kind, reached = process(project, kept, rows_of(n), swing, number)
        check(rows, kind, before, kept)
        at.append((swing, reached[-1] if len(reached) > number else None))
        print(number, at[-1], flush=True)
        tables = project.shown()
        assert {"mv", "copied"} <= tables.keys()
        for name, shown in tables.items():
            assert shown in (project.before[name], project.wanted[name]), (reached, name)
    rows, kind, _ = process(project, swing, None, None, None)
    check(rows, kind, project.wanted, swing)
    tables = project.shown()
    assert ("swing" in tables) == (swing == "delta")
    assert tables == {name: project.wanted[name] for name in tables}
    return at


def check(rows, kind, wanted, swing):
    """After a run that recovered from a kill."""
    assert rows == wanted
    assert (kind == "VIEW") == (swing == "view"), kind


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("which", often(["two points", "all points"], "two points"))
def test_a_run_killed_at(tmp_path, which):
    numbers = sorted(Random(SEED).sample(range(len(POINTS)), DRAWN))
    if which == "all points":  # each with `swing` becoming a table, and becoming a view
        numbers = [number for number in range(len(POINTS)) for _ in range(2)] + [len(POINTS)] * 2
    project = Published(tmp_path / "p", tmp_path / "shards", tmp_path / "source")
    at = kills(project, numbers)
    for number, (swing, point) in zip(numbers, at):
        if swing == "delta":
            assert point == (POINTS[number] if number < len(POINTS) else None)


@pytest.mark.seldom
def test_two_at_once(tmp_path, monkeypatch):
    """With a metastore each, and one shard root."""
    monkeypatch.setenv("SWING", "delta")
    rounds = 5
    shards, source, place = tmp_path / "shards", tmp_path / "source", tmp_path / "rounds"
    place.mkdir()
    projects = [Published(tmp_path / name, shards, source) for name in ("one", "two")]
    with running_at_once(projects, place, rounds) as workers:
        for number in range(rounds):
            projects[0].follow(rows_of(number))
            projects[0].set_source(rows_of(number))
            let_both_run(place, number, workers)
            assert projects[0].shown() == projects[0].wanted, number
