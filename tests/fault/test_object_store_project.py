"""A whole project with its shards in an object store: Spark writes there through S3A, Python
through the store of the logs. The secret key shows nowhere.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.shard import ShardClient
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from tests.support.dbt_process import dbt_process
from tests.support.moto_server import BUCKET, KEY, options
from tests.support.processes import command_lines, free_port
from tests.support.small_data import INTERPRETED

SECRET = "wJal/K7MDENG+bPxRfiCY=EXAMPLEKEY"  # with what URLs and JSON spell differently
ROOT = f"s3://{BUCKET}/project"
LANDING = f"s3://{BUCKET}/landing"
ELSEWHERE = "elsewhere"  # a bucket at which Spark is refused
# 17 MB of jars; hadoop-aws alone would bring all of Amazon's services, 641 MB
JARS = {
    "spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.4.2,software.amazon.awssdk:s3-transfer-manager:2.29.52",
    "spark.jars.excludes": "software.amazon.awssdk:bundle",
}
MODELS = {
    "orders": "{{ config(materialized='self_correcting_mv') }} select id, kind from parquet.`"
    + LANDING
    + "`",
    "totals": """{{ config(materialized='self_correcting_mv') }}
      select label, count(*) n from {{ ref('orders') }} join {{ ref('kinds') }} using (kind) group by label""",
    "newest": """{{ config(materialized='continual_task') }}
      on input {{ ref('orders') }} as (
        delete from {{ this }} where kind in (select kind from {{ ref('orders') }});
        insert into {{ this }} select kind, max(id) id from {{ ref('orders') }} group by kind)""",
}


SECRET_FROM = "{{ env_var('STORE_SECRET') }}"


def settings(port: int) -> dict[str, str]:
    """What Spark needs for a store at ``port``."""
    return {
        "spark.driver.memory": "1g",
        **INTERPRETED,
        **JARS,
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }


def make_project(place: Path, port: int, refusing: int) -> None:
    """Its targets differ in where the credentials are, and in which server they name."""
    (place / "models").mkdir(parents=True)
    (place / "seeds").mkdir()
    for name, text in MODELS.items():
        (place / "models" / f"{name}.sql").write_text(text)
    (place / "seeds" / "kinds.csv").write_text("kind,label\n1,one\n2,two\n")
    (place / "dbt_project.yml").write_text(
        "name: p\nversion: '1.0'\nprofile: p\nflags: {send_anonymous_usage_stats: false}\n"
    )
    with_keys = {
        **settings(port),
        "spark.hadoop.fs.s3a.access.key": KEY,
        "spark.hadoop.fs.s3a.secret.key": SECRET_FROM,
        "spark.hadoop.fs.s3a.attempts.maximum": "1",
        f"spark.hadoop.fs.s3a.bucket.{ELSEWHERE}.endpoint": f"http://127.0.0.1:{refusing}",
    }
    common = {"type": "mvsink", "threads": 2, "progress": False}
    shards = {**common, "schema": "s", "shard_root": ROOT}
    elsewhere = {**common, "schema": "t", "shard_root": f"s3://{ELSEWHERE}/project"}
    stores = {
        "profile": ({**shards, "schema": "in_profile"}, port),
        "spark_refused": (elsewhere, port),
        "refused": (elsewhere, refusing),
        "no_server": (elsewhere, free_port()),
    }
    outputs = {"environment": {**shards, "server_side_parameters": settings(port)}} | {
        name: {
            **profile,
            "server_side_parameters": with_keys,
            "storage_options": {**options(at, SECRET_FROM), "max_retries": "0"},
        }
        for name, (profile, at) in stores.items()
    }
    (place / "profiles.yml").write_text(json.dumps({"p": {"target": "environment", "outputs": outputs}}))


def land(port: int, *pairs: tuple[int, int]) -> None:
    """Replace the rows of the input."""
    table = pa.table({"id": [i for i, _ in pairs], "kind": [kind for _, kind in pairs]})
    part = DeltaStorage(LANDING, options(port)).write_part("part-0.parquet", table.schema)
    part.write(table)
    part.close()


def contents(port: int, schema: str) -> dict[str, list[tuple[object, ...]]]:
    """The rows of every model's shard, each once."""
    shards: dict[str, list[tuple[object, ...]]] = {}
    for model in MODELS:
        reader = ShardClient(options(port)).open_reader(f"{ROOT}/{schema}/{model}")
        table = reader.snapshot(reader.upper.stored() - 1).to_pylist()
        assert {row.pop("_mv_diff") for row in table} == {1}
        shards[model] = sorted(tuple(row[name] for name in reader.schema.names) for row in table)
    return shards


@contextmanager
def refusing_server() -> Iterator[int]:
    """A store that refuses every request, as one does whose secret is another."""

    class Refusal(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<Error><Code>SignatureDoesNotMatch</Code><Message>Not yours</Message></Error>"
            self.send_response(403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusal) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def shows_secret(text: str) -> bool:
    """Whether the secret is in ``text``, as it is or as URLs and headers spell it."""
    spelled = (SECRET, quote(SECRET, safe=""), base64.b64encode(SECRET.encode()).decode())
    return any(each in text for each in spelled)


def assert_no_file_shows_it(project: Path, port: int) -> None:
    """Logs, artifacts, Spark's log, the shards' logs: all that a run leaves."""
    files = [path for path in project.rglob("*") if path.is_file()]
    assert {"dbt.log", "spark.log", "run_results.json", "manifest.json"} <= {path.name for path in files}
    assert not [path for path in files if shows_secret(path.read_text(errors="replace"))]
    store = DeltaStorage(ROOT, options(port))
    logs = [file.path for file in store.list_files("") if "_delta_log" in file.path]
    assert len(logs) > len(MODELS)
    assert not [path for path in logs if shows_secret(store.read_text(path) or "")]


@pytest.fixture(scope="module")
def project(tmp_path_factory, s3_port):
    DeltaStorage(f"s3://{BUCKET}", options(s3_port)).list_files("")  # it answers
    urlopen(Request(f"http://127.0.0.1:{s3_port}/{ELSEWHERE}", method="PUT"), timeout=30).close()
    with refusing_server() as refusing:
        place = tmp_path_factory.mktemp("store") / "p"
        make_project(place, s3_port, refusing)
        yield place


@pytest.mark.seldom
def test_a_project_with_credentials_from_the_environment(project, s3_port):
    with dbt_process(project, options(s3_port, SECRET)) as run:
        output = run.dbt("debug")
        assert "All checks passed!" in output
        land(s3_port, (1, 1), (2, 2), (3, 2))
        output += run.dbt("build")
        assert contents(s3_port, "s") == {
            "orders": [(1, 1), (2, 2), (3, 2)],
            "totals": [("one", 1), ("two", 2)],
            "newest": [(1, 1), (2, 3)],
        }
        land(s3_port, (1, 1), (3, 2), (4, 2), (5, 1))
        output += run.dbt("run")
        assert "+2 -1 at" in output
        assert contents(s3_port, "s") == {
            "orders": [(1, 1), (3, 2), (4, 2), (5, 1)],
            "totals": [("one", 2), ("two", 2)],
            "newest": [(1, 5), (2, 4)],
        }
        output += "".join(command_lines(run.pid).values())
    assert not shows_secret(output)
    assert_no_file_shows_it(project, s3_port)


def test_credentials_in_the_profile_are_shown_nowhere(project, s3_port):
    with dbt_process(project, {"STORE_SECRET": SECRET}) as run:
        output = run.dbt("debug", "--target", "profile")
        assert "All checks passed!" in output
        lines = command_lines(run.pid)
        assert any("spark-shell" in line or "SparkSubmit" in line for line in lines.values())
        assert not [line for line in lines.values() if shows_secret(line)]
        land(s3_port, (7, 1), (8, 2))
        output += run.dbt("--debug", "build", "--target", "profile")
        assert contents(s3_port, "in_profile")["orders"] == [(7, 1), (8, 2)]
        assert contents(s3_port, "in_profile")["newest"] == [(1, 7), (2, 8)]
        for target in ("spark_refused", "refused"):
            failed = run.outcome("--debug", "run", "--target", target, "--select", "orders")
            assert not failed.success and "ERROR creating sql" in failed.output
            output += failed.output
        failed = run.outcome("debug", "--target", "spark_refused")
        assert not failed.success and "Forbidden" in failed.output
        output += failed.output
    status = [str(Path(sys.executable).with_name("mvsink")), "status", "--target", "no_server"]
    environment = {**os.environ, "STORE_SECRET": SECRET}
    done = subprocess.run(status, cwd=project, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0 and "cannot list the shards below" in done.stderr
    assert not shows_secret(output + done.stdout + done.stderr)
    assert_no_file_shows_it(project, s3_port)
