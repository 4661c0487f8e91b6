"""A whole project in an object store: the logs by `deltalake`, the data by Spark's S3A.

The jars are those that docs/configuration.md lists. Twice: with credentials in the profile, and in
the environment. The secret is then searched for in all that the runs printed and left.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dbt.adapters.mvsink.shard import ShardClient
from tests.support.moto_server import BUCKET, KEY, SECRET, options
from tests.support.processes import free_port
from tests.support.shards import rows
from tests.support.small_data import INTERPRETED

DBT = "from dbt.cli.main import cli; cli()"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
MODELS = {
    "names": "{{ config(materialized='self_correcting_mv') }} select id, name from {{ ref('raw') }}",
    "came": "{{ config(materialized='continual_task') }} on input {{ ref('names') }} as ("
    "insert into {{ this }} select id, name from {{ ref('names') }})",
}
KEYS = {"spark.hadoop.fs.s3a.access.key": KEY, "spark.hadoop.fs.s3a.secret.key": SECRET}


def jars() -> dict[str, str]:
    """What the page says about jars and the file system."""
    names = ("spark.jars.packages", "spark.jars.excludes", "spark.hadoop.fs.s3.impl")
    lines = [line.strip() for line in PAGE.read_text().splitlines()]
    return {name: next(line for line in lines if line.startswith(name)).split(": ", 1)[1] for name in names}


class Project:
    """A seed, a view over it, a task over the view; `dbt` is a process of its own."""

    def __init__(self, place: Path, port: int, in_profile: bool):
        self.place, self.store = place, options(port)
        self.shards = f"s3://{BUCKET}/{place.name}"
        secrets = {key: value for key, value in self.store.items() if "ACCESS_KEY" in key}
        self.environment = {} if in_profile else secrets
        (place / "models").mkdir(parents=True)
        (place / "seeds").mkdir()
        for name, query in MODELS.items():
            (place / "models" / f"{name}.sql").write_text(query)
        (place / "dbt_project.yml").write_text(
            "name: p\nversion: '1.0'\nprofile: p\nflags: {send_anonymous_usage_stats: false}\n"
        )
        self.write_profile(port, in_profile)

    def write_profile(self, port: int, in_profile: bool) -> None:
        store = {key: value for key, value in options(port).items() if in_profile or "ACCESS_KEY" not in key}
        spark = {
            **INTERPRETED,
            **jars(),
            **(KEYS if in_profile else {}),
            "spark.driver.memory": "1g",
            "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}",
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }
        target = {"type": "mvsink", "schema": "s", "shard_root": self.shards, "storage_options": store}
        outputs = {"dev": {**target, "server_side_parameters": spark}}
        (self.place / "profiles.yml").write_text(json.dumps({"p": {"target": "dev", "outputs": outputs}}))

    def seed(self, *names: str) -> None:
        lines = [f"{number},{name}" for number, name in enumerate(names)]
        (self.place / "seeds" / "raw.csv").write_text("\n".join(["id,name", *lines, ""]))

    def run(self, *arguments: str, succeeds: bool = True) -> str:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        done = subprocess.run(
            [sys.executable, "-c", DBT, "--no-use-colors", "--log-level-file", "debug", *arguments],
            cwd=self.place,
            env={**kept, **self.environment},
            capture_output=True,
            text=True,
            timeout=400,
        )
        output = done.stdout + done.stderr
        assert (done.returncode == 0) is succeeds, output
        return output

    def contents(self, model: str) -> list[tuple[object, int]]:
        with ShardClient(self.store).open_reader(f"{self.shards}/s/{model}") as reader:
            return rows(reader.snapshot(reader.upper.stored() - 1))

    def commits(self, model: str) -> str:
        with ShardClient(self.store).open_reader(f"{self.shards}/s/{model}") as reader:
            return repr(reader.history())

    def left(self) -> str:
        """The text of every file beside the project: logs, artifacts, Spark's own log."""
        written = [path for path in self.place.rglob("*") if path.is_file() and path.name != "profiles.yml"]
        return "".join(path.read_bytes().decode("utf-8", "replace") for path in written)


@pytest.mark.parametrize("in_profile", [True, False], ids=["in the profile", "in the environment"])
def test_a_project_in_an_object_store_shows_no_secret(s3_port, tmp_path, in_profile):
    project = Project(tmp_path / ("profile" if in_profile else "environment"), s3_port, in_profile)
    project.seed("a", "b")
    shown = project.run("debug")
    assert f"shard root {project.shards}: compare-and-append OK" in shown
    shown += project.run("build")
    project.seed("a", "c", "d")
    output = project.run("build")
    assert "+2 -1 at" in output, output
    assert project.contents("names") == [((0, "a"), 1), ((1, "c"), 1), ((2, "d"), 1)]
    came = [((0, "a"), 1), ((1, "b"), 1), ((1, "c"), 1), ((2, "d"), 1)]
    assert project.contents("came") == came
    project.write_profile(free_port(), in_profile)  # where no server listens
    failed = project.run("debug", succeeds=False)
    assert "onnection refused" in failed, failed
    everything = shown + output + failed + project.left()
    assert SECRET not in everything + project.commits("names") + project.commits("came")
