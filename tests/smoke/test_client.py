"""The example project where there is no Java: PySpark's client, with a Spark Connect server.

`make smoke-client` runs this with the full PySpark, which has the server; `MVSINK_CLIENT` is the
environment of the client, whose programs find nothing else on their path.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dbt.adapters.mvsink.shard import ShardClient
from tests.support.spark_servers import connect_server

EXAMPLE = Path(__file__).resolve().parents[2] / "example_project"
MARTS = ("dim_planes", "fct_flights", "delays_by_carrier_and_hour")
CLIENT = os.environ.get("MVSINK_CLIENT")

pytestmark = pytest.mark.skipif(
    CLIENT is None, reason="MVSINK_CLIENT names no environment: make smoke-client"
)


class Client:
    """The example with January's data, and the client's programs."""

    def __init__(self, place: Path, remote: str):
        self.place, self.home = place, Path(str(CLIENT)).resolve()
        shutil.copytree(EXAMPLE, place, ignore=shutil.ignore_patterns(".mvsink", "data", "target", "logs"))
        make = (
            "import demo; demo.Arrivals.fresh(demo.HERE / 'data' / 'arrivals').january(); demo.write_seed()"
        )
        subprocess.run([sys.executable, "-c", make], cwd=place, check=True)
        target = {"type": "mvsink", "method": "connect", "remote": remote, "schema": "flights"}
        outputs = {"dev": {**target, "shard_root": str(place / "shards"), "threads": 4}}
        (place / "profiles.yml").write_text(
            json.dumps({"nyc_flights": {"target": "dev", "outputs": outputs}})
        )
        (place / "programs").mkdir()
        (place / "programs" / "git").symlink_to(str(shutil.which("git")))  # `dbt debug` wants it

    def run(self, *arguments: str) -> str:
        path = f"{self.home / 'bin'}{os.pathsep}{self.place / 'programs'}"
        arrivals = json.dumps({"arrivals": str(self.place / "data" / "arrivals")})
        command = [str(self.home / "bin" / "dbt"), "--no-use-colors", *arguments, "--vars", arrivals]
        kept = {
            name: value for name, value in os.environ.items() if "JAVA" not in name and "SPARK" not in name
        }
        done = subprocess.run(
            command, cwd=self.place, env={**kept, "PATH": path}, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stderr == ""
        return done.stdout

    def rows(self, model: str) -> int:
        with ShardClient().open_reader(str(self.place / "shards" / "flights" / model)) as reader:
            snapshot = reader.snapshot(reader.upper.stored() - 1)
        return int(sum(snapshot.column("_mv_diff").to_pylist()))


def test_the_example_is_built_where_there_is_no_java(tmp_path):
    with connect_server(tmp_path / "server") as remote:
        client = Client(tmp_path / "example", remote)
        debug = client.run("debug")
        assert "a client of Spark Connect: OK" in debug and "Java" not in debug
        first, second = client.run("build"), client.run("build")
    assert "ERROR=0" in first and "WARN=0" in first
    assert (client.rows("fct_flights"), client.rows("latest_reports")) == (26_503, 26_503)
    for model in MARTS:
        assert re.search(rf"flights\.{model} \.*\s+\[\+0 -0 at ", second), second
