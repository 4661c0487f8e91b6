"""The package with PySpark's Connect client alone (`make smoke-client`): the example over a server.

dbt runs in `.venv-client`, whose PATH has no Java; the server is that of this process's PySpark.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from dbt.adapters.mvsink.shard import ShardClient
from tests.support.processes import free_port
from tests.support.spark_servers import connect_server

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / ".venv-client"
NO_PYSPARK = "import sys; sys.modules['pyspark'] = None; from dbt.cli.main import cli; cli()"
FLIGHT = ("flight_date", "carrier", "airline", "flight", "origin", "sched_dep_time", "dep_delay")


class Example:
    """A copy of the example project in January, with targets that work and targets that do not."""

    def __init__(self, place: Path, remote: str):
        self.place, self.shards, self.programs = place / "p", place / "shards", place / "bin"
        self.arrivals = self.place / "data" / "arrivals"
        self.programs.mkdir()
        git = shutil.which("git")
        assert git, "dbt debug looks for git"
        (self.programs / "git").symlink_to(git)
        kept = shutil.ignore_patterns("data", "target", "logs", ".mvsink")
        shutil.copytree(ROOT / "example_project", self.place, ignore=kept)
        january = (
            "import demo; demo.write_seed(); demo.Arrivals.fresh(demo.HERE / 'data' / 'arrivals').january()"
        )
        subprocess.run([sys.executable, "-c", january], cwd=self.place, check=True)
        served = {"type": "mvsink", "method": "connect", "schema": "flights", "threads": 2}
        served |= {"remote": remote, "shard_root": str(self.shards)}
        outputs = {
            "dev": served,
            "wrong_port": {**served, "remote": f"sc://127.0.0.1:{free_port()}"},
            "wrong_host": {**served, "remote": "sc://no-such-host.invalid:15002"},
            "session": {"type": "mvsink", "schema": "flights", "threads": 2},
        }
        profile = {"nyc_flights": {"target": "dev", "outputs": outputs}}
        (self.place / "profiles.yml").write_text(json.dumps(profile))

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A program of the client's environment, where only git is on PATH."""
        variables = json.dumps({"arrivals": str(self.arrivals)})
        return subprocess.run(
            [CLIENT / "bin" / program, *arguments, "--vars", variables],
            cwd=self.place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=400,
            env={"PATH": str(self.programs), "HOME": str(self.place), "DBT_PROFILES_DIR": str(self.place)},
        )  # fmt: skip

    def changes(self) -> dict[str, tuple[int, int]]:
        """Of each maintained model, what the last command inserted and deleted."""
        results = json.loads((self.place / "target" / "run_results.json").read_text())["results"]
        responses = {each["unique_id"].split(".")[-1]: each["adapter_response"] for each in results}
        return {
            name: (response["rows_inserted"], response["rows_deleted"])
            for name, response in responses.items()
            if "rows_inserted" in response
        }

    def contents(self, model: str, *columns: str) -> Counter[tuple[Any, ...]]:
        """What is stored of these columns, read without Spark."""
        with ShardClient().open_reader(str(self.shards / "flights" / model)) as reader:
            stored = reader.snapshot(reader.upper.stored() - 1)
        counted: Counter[tuple[Any, ...]] = Counter()
        for row in stored.to_pylist():
            counted[tuple(row[column] for column in columns)] += row["_mv_diff"]
        return counted

    def arrived(self, what: str) -> list[dict[str, Any]]:
        return pa.concat_tables(map(pq.read_table, (self.arrivals / what).iterdir())).to_pylist()


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    place = tmp_path_factory.mktemp("client")
    with connect_server(place / "server") as remote:
        yield Example(place, remote)


def test_the_environment_has_nothing_of_java(example):
    listed = [CLIENT / "bin" / "uv", "pip", "list", "--python", CLIENT / "bin" / "python", "--format", "json"]
    packages = {each["name"] for each in json.loads(subprocess.check_output(listed, text=True))}
    assert "pyspark-client" in packages and not packages & {"pyspark", "py4j"}, packages
    assert not list(CLIENT.rglob("*.jar"))
    assert os.listdir(example.programs) == ["git"]


def test_debug_checks_the_client_the_server_and_the_storage_and_no_java(example):
    debug = example.run("dbt", "debug")
    assert debug.returncode == 0, debug.stdout
    for part in ("a client of Spark Connect: OK", "compare-and-append OK", "All checks passed!"):
        assert part in debug.stdout, debug.stdout
    for part in ("java", "warning", "traceback"):
        assert part not in debug.stdout.lower(), debug.stdout


def test_the_example_is_built_and_built_again_with_nothing_to_do(example):
    first = example.run("dbt", "build")
    assert first.returncode == 0 and "ERROR=0" in first.stdout, first.stdout
    flights, planes = example.arrived("flights"), example.arrived("planes")
    airlines = dict(zip(*pacsv.read_csv(example.place / "seeds" / "airlines.csv").to_pydict().values()))
    changes = example.changes()
    assert changes["fct_flights"] == changes["latest_reports"] == (len(flights), 0)
    assert example.contents("fct_flights", *FLIGHT) == Counter(
        (_day(row), row["carrier"], airlines[row["carrier"]], *(row[name] for name in FLIGHT[3:]))
        for row in flights
    )
    assert example.contents("dim_planes", "tailnum", "built", "seats") == Counter(
        (row["tailnum"], row["year"], row["seats"]) for row in planes
    )
    reports = defaultdict(list)
    for row in flights:
        reports[row["tailnum"]].append(_day(row))
    del reports[None]
    assert example.contents("planes_seen", "tailnum", "first_flight", "reports") == Counter(
        (plane, min(days), len(days)) for plane, days in reports.items()
    )
    second = example.run("dbt", "build")
    assert second.returncode == 0, second.stdout
    assert example.changes() == dict.fromkeys(changes, (0, 0)) and len(changes) == 10


def test_a_watch_runs_over_the_server(example):
    watch = example.run("mvsink", "watch", "--until", "25 seconds")
    assert watch.returncode == 0, watch.stdout
    assert "dim_planes unchanged" in watch.stdout and "failed" not in watch.stdout, watch.stdout


@pytest.mark.parametrize(
    ("target", "program", "sentences"),
    [
        ("wrong_port", ("dbt",), ("no session on the Spark Connect server sc://127.0.0.1", "Check `remote`")),
        ("wrong_host", ("dbt",), ("server sc://no-such-host.invalid:15002", "Check `remote`")),
        ("session", ("dbt",), ("only its Connect client (pyspark-client) is installed", "`method: connect`")),
        (
            "dev",
            ("python", "-c", NO_PYSPARK),
            ("needs PySpark's Connect client", "pip install 'dbt-mvsink[connect]'"),
        ),
    ],
)
def test_what_is_wrong_is_one_sentence_that_says_what_to_do(example, target, program, sentences):
    debug = example.run(*program, "debug", "--target", target)
    assert debug.returncode != 0 and "Traceback" not in debug.stdout, debug.stdout
    assert all(sentence in debug.stdout for sentence in sentences), debug.stdout


def _day(flight: dict[str, Any]) -> date:
    return date(flight["year"], flight["month"], flight["day"])
