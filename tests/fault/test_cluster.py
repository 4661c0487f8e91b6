"""Whole projects on a standalone cluster, whose workers are killed in the middle of a run."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pytest

from dbt.adapters.mvsink.shard import ShardClient
from tests.support.dbt_process import DbtProcess, dbt_process
from tests.support.spark_cluster import DRIVER, Cluster, Worker, spark_cluster
from tests.support.spark_servers import connect_server
from tests.support.waiting import wait_for

GROUPS, COUNTED, ROWS, CHANGED = 997, 4_000_000, 1_000_000, 10_000
# eight tasks of about a second each for the one core of a worker
MODELS = {
    "counts": f"""select id % {GROUPS} id, count(*) n from range(0, {COUNTED}, 1, 8)
      where sha2(cast(id as string), 512) >= '' group by 1""",
    "many": f"""select id, id + if(id % 100 = 0, {{{{ var('more', 0) }}}}, 0) n from range(0, {ROWS}, 1, 8)
      where sha2(cast(id as string), 512) >= ''""",
    "small": "select id, id n from range(3)",
}


def make_project(place: Path, master: str) -> Path:
    (place / "models").mkdir(parents=True)
    (place / "seeds").mkdir()
    for name, query in MODELS.items():
        config = "{{ config(materialized='self_correcting_mv', incremental='never') }} "
        (place / "models" / f"{name}.sql").write_text(config + query)
    (place / "seeds" / "letters.csv").write_text("id,letter\n1,a\n2,b\n")
    (place / "dbt_project.yml").write_text(
        "name: p\nversion: '1.0'\nprofile: p\nflags: {send_anonymous_usage_stats: false}\n"
    )
    set_target(place, {"shard_root": "shards", "server_side_parameters": {**DRIVER, "spark.master": master}})
    return place


def set_target(place: Path, target: dict[str, object]) -> None:
    common = {"type": "mvsink", "schema": "s", "threads": 1, "progress": False}
    outputs = {"dev": {**common, **target}}
    (place / "profiles.yml").write_text(json.dumps({"p": {"target": "dev", "outputs": outputs}}))


def contents(place: Path, model: str) -> tuple[int, int]:
    """How many rows the shard has, each once, and their sum of `n`."""
    reader = ShardClient().open_reader(str(place / "shards" / "s" / model))
    table = reader.snapshot(reader.upper.stored() - 1)
    assert Counter(table.column("_mv_diff").to_pylist()) == {1: table.num_rows}
    return table.num_rows, pc.sum(table.column("n")).as_py()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def started(place):
    with spark_cluster(place / "spark") as cluster:
        yield cluster


@pytest.fixture
def cluster(started):
    """Two workers, whatever was killed before."""
    while len(started.workers) < 2:
        started.add_worker()
    return started


@pytest.fixture(scope="module")
def project(place, started):
    return make_project(place / "p", started.url)


@pytest.fixture(scope="module")
def run(project):
    """dbt with a session on the cluster."""
    with dbt_process(project) as process:
        yield process


def kill_when(run: DbtProcess, cluster: Cluster, ready: Callable[[Worker], object]) -> str:
    """Kill a worker once ``ready`` is true of it, in the middle of the command that was begun. The
    output of the command, which has to succeed.
    """
    victim = cluster.workers[0]
    wait_for(lambda: ready(victim), "the run's stage to kill a worker in")
    cluster.kill(victim)
    cluster.add_worker()
    outcome = run.end()
    assert outcome.success, outcome.output
    return outcome.output


def test_a_worker_dies_while_the_query_runs(cluster, run, project):
    """What it has shuffled is lost with it."""
    run.dbt("build", "--select", "letters", "small")
    before = cluster.workers[0].shuffled()
    run.begin("run", "--select", "counts")
    kill_when(run, cluster, lambda victim: victim.shuffled() - before)
    assert contents(project, "counts") == (GROUPS, COUNTED)


def test_a_worker_dies_while_a_batch_is_staged(cluster, run, project):
    shard = project / "shards" / "s" / "many"
    run.begin("run", "--select", "many")
    kill_when(run, cluster, lambda _: list(shard.rglob("_temporary/**/*.parquet")))
    assert contents(project, "many") == (ROWS, sum(range(ROWS)))


@pytest.mark.seldom
def test_a_worker_dies_while_the_contents_are_compared(cluster, run, project):
    before = cluster.workers[0].shuffled()
    run.begin("run", "--select", "many", "--vars", "{more: 5}")
    output = kill_when(run, cluster, lambda victim: victim.shuffled() - before)
    assert f"+{CHANGED} -{CHANGED} at" in output
    assert contents(project, "many") == (ROWS, sum(range(ROWS)) + 5 * CHANGED)


@pytest.mark.seldom
def test_a_spark_connect_server_on_the_cluster(cluster, place):
    cluster.add_worker()
    on_cluster = {**DRIVER, "spark.master": cluster.url, "spark.cores.max": "1"}
    with connect_server(place / "server", settings=on_cluster) as remote:
        project = make_project(place / "connect", cluster.url)
        set_target(project, {"method": "connect", "remote": remote, "shard_root": str(project / "shards")})
        with dbt_process(project) as run:
            run.dbt("build", "--select", "letters", "small")
    assert contents(project, "small") == (3, 3)


def test_executors_with_disks_of_their_own_are_refused(started, run, project):
    """The only worker has an empty disk where the shards are."""
    shards = project / "own"
    shards.mkdir()
    hidden = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(shards)]
    if subprocess.run([*hidden, "true"], capture_output=True).returncode:
        pytest.skip("no right to mount a disk that only a worker sees")
    for worker in list(started.workers):
        started.kill(worker)
    started.add_worker(hidden)
    session = {**DRIVER, "spark.master": started.url}
    set_target(project, {"schema": "own", "shard_root": str(shards), "server_side_parameters": session})
    outcome = run.outcome("run", "--select", "small")
    assert not outcome.success
    needed = "shard_root must be a place that every executor of Spark and this machine share"
    for part in (f"shard_root {shards}", "nothing of it is there", needed):
        assert part in outcome.output, outcome.output
    assert not (shards / "own").exists()
