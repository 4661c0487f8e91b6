"""Before the first run of a session on a shard root: what the engine writes there is found from
here, all of it.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.shard_sql import DifferentPlaces
from dbt.adapters.mvsink.shard_sql.stager import LOCAL_TASKS, TASKS, check_same_place
from tests.support.engines import NoEngine

sessions = itertools.count()


class Writer(NoEngine):
    """Writes the canary as an engine on ``master`` does; ``place`` says where a task's file goes,
    None: nowhere.
    """

    def __init__(self, master, place=lambda directory, task: directory):
        self.master, self.place, self.wrote = master, place, []

    def execute(self, statement, what):
        directory = re.search("directory '([^']*)'", statement)[1]
        token, tasks = re.search("'(\\w{32})' token from range\\(0, (\\d+), 1, \\2\\)", statement).groups()
        for task in range(int(tasks)):
            to = self.place(directory, task)
            if to is not None:
                Path(to).mkdir(parents=True, exist_ok=True)
                pq.write_table(pa.table({"id": [task], "token": [token]}), f"{to}/part-{task:05d}.parquet")
        self.wrote.append((directory, int(tasks)))

    def query(self, query, what):
        if query.startswith("set "):
            if self.master is None:
                raise EngineError("not allowed")
            return [("spark.master", self.master)]
        return [(f"file://elsewhere{self.wrote[-1][0]}/part-0.parquet",)]


MASTERS = {
    "local[*]": LOCAL_TASKS,
    "local": LOCAL_TASKS,
    "local-cluster[2,1,1024]": TASKS,
    "yarn": TASKS,
    "spark://h:7077": TASKS,
    None: TASKS,
}


@pytest.mark.parametrize(("master", "tasks"), MASTERS.items())
def test_all_executors_write_and_nothing_stays(tmp_path, master, tasks):
    engine = Writer(master)
    check_same_place(engine, next(sessions), str(tmp_path), None)
    assert [n for _, n in engine.wrote] == [tasks]
    assert list(tmp_path.iterdir()) == []


def test_it_is_asked_once_for_a_session_and_a_root(tmp_path):
    engine, session = Writer("local"), next(sessions)
    for root in ("a", "b", "a"):
        check_same_place(engine, session, str(tmp_path / root), None)
    check_same_place(engine, next(sessions), str(tmp_path / "a"), None)
    assert [Path(directory).parent.name for directory, _ in engine.wrote] == ["a", "b", "a"]


ELSEWHERE = {
    "another place": (
        lambda directory, task: directory.replace("/root", "/decoded root"),
        "nothing of it is there",
    ),
    "disks of their own": (
        lambda directory, task: directory if task % 2 else None,
        "only 32 of 64 files are there",
    ),
    "one executor has lost its mount": (
        lambda directory, task: directory if task else None,
        "only 63 of 64 files",
    ),
}


@pytest.mark.parametrize(("place", "message"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_other_places_are_named_and_asked_again_the_next_time(tmp_path, place, message):
    root, session = str(tmp_path / "root"), next(sessions)
    for _ in range(2):
        with pytest.raises(DifferentPlaces) as failure:
            check_same_place(Writer("yarn", place), session, root, None)
        for part in (
            f"shard_root {root}",
            "Spark reports that it wrote file://elsewhere",
            f"Python read {root}/",
            message,
        ):
            assert part in str(failure.value)
    check_same_place(Writer("yarn"), session, root, None)


def test_what_another_session_left_there_is_not_taken_for_it(tmp_path):
    def stale(directory, task):
        Path(directory).mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": [task], "token": ["old"]}), f"{directory}/part-{task:05d}.parquet")

    with pytest.raises(DifferentPlaces, match="nothing of it"):
        check_same_place(Writer("yarn", stale), next(sessions), str(tmp_path), None)
