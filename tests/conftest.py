"""One Spark session a test process, with Delta's jar (merge, snapshots). With Iceberg's, which
``MVSINK_FORMATS=delta,iceberg`` adds, Spark creates no functions of SQL.

Unit and property tests never ask for it. Every process has a metastore and a warehouse of its own.

With `--incremental never` models of functional tests are always evaluated, with `wherever` never
where their change is known: tables must be the same. With `--tables delta` or `mixed` all of them,
or half, are also Delta tables, which other engines read after each run.

With `--method connect` or `thrift` the functional tests run over a server of that kind, one a
process. What a test needs of the embedded Spark alone, its mark `embedded` says, and it is skipped.
With `--method warm` the target is of method session, and uses a warm session.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from dbt.adapters.mvsink.connection.settings import with_formats
from dbt.adapters.mvsink.shard import authored_by
from tests.support import incremental_modes, quick_dbt, quick_java, table_modes
from tests.support.moto_server import moto_server
from tests.support.small_data import INTERPRETED
from tests.support.spark_servers import connect_server, thrift_server, warm_session

quick_java.install()
quick_dbt.install()
pytest_plugins = ["dbt.tests.fixtures.project"]

FORMATS = os.environ.get("MVSINK_FORMATS", "delta").split(",")
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.properties.defaults.checkpointInterval": "100",
    # Renaming a file, Hadoop asks a process of its own whether it is a link: 16 processes a commit.
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}

# What tests set in the one session of the process, where every connection has a session of its own.
ON_SERVERS = {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--on-spark", action="store_true", help="what is tested on DuckDB (fixture `session`) runs on Spark"
    )
    parser.addoption(
        "--method",
        choices=("session", "warm", "connect", "thrift"),
        default="session",
        help="how dbt connects to Spark in functional tests: embedded, or to a server",
    )
    parser.addoption(
        "--incremental",
        choices=incremental_modes.MODES,
        default="auto",
        help="whether models of functional tests are computed from the changes of their inputs",
    )
    parser.addoption(
        "--tables",
        choices=table_modes.MODES,
        default="auto",
        help="whether models of functional tests are published as Delta tables, which other engines then read",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    method = config.getoption("--method")
    for item in items:
        marks = (item.get_closest_marker("embedded"), item.get_closest_marker(f"not_over_{method}"))
        for mark in marks if method != "session" else ():
            if mark is not None:
                item.add_marker(pytest.mark.skip(reason=f"{method}: {mark.args[0]}"))


@pytest.fixture(autouse=True)
def no_author_in_the_log() -> None:
    """No test's commits record who ran the command of the test before."""
    authored_by(dict)


@pytest.fixture(scope="session")
def shard_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where this process's shards live."""
    return tmp_path_factory.mktemp("shards")


@pytest.fixture(scope="session")
def s3_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of this process's S3 server."""
    with moto_server(tmp_path_factory.mktemp("s3") / "moto.log") as port:
        yield port


@pytest.fixture(scope="session")
def method(request: pytest.FixtureRequest) -> str:
    """How dbt connects to Spark."""
    return str(request.config.getoption("--method"))


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, method: str) -> Any:
    """The process's session: embedded, or one of its own on the Connect server."""
    if method == "thrift":
        pytest.skip("thrift: the test has a session of its own, which a Thrift server does not offer")
    return request.getfixturevalue("embedded_spark" if method == "session" else "remote_spark")


@pytest.fixture(scope="session")
def embedded_spark(tmp_path_factory: pytest.TempPathFactory, shard_root: Path) -> Iterator[Any]:
    """The process's session, started as a profile with only these settings would start it."""
    from dbt.adapters.mvsink.connection.factory import EMBEDDED
    from dbt.adapters.mvsink.credentials import MvsinkCredentials

    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("home"))
    try:
        # what starts here is never killed: its metastore need not survive that
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(
                "JDK_JAVA_OPTIONS", f"{os.environ['JDK_JAVA_OPTIONS']} -Dderby.system.durability=test"
            )
            started = EMBEDDED.session(
                MvsinkCredentials(
                    schema="default",
                    shard_root=str(shard_root),
                    formats=list(FORMATS),
                    server_side_parameters=dict(SETTINGS),
                )
            )
        yield started
    finally:
        os.chdir(before)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, method: str) -> Iterator[dict[str, Any]]:
    """The profile's keys of the server of this process."""
    home = tmp_path_factory.mktemp(method)
    settings = {**SETTINGS, **INTERPRETED, **ON_SERVERS}
    if method == "warm":
        with warm_session(home, settings, FORMATS) as address:
            yield {"method": "session", "session": "warm", "remote": address}
        return
    if method == "connect":
        settings = with_formats({}, settings, FORMATS, pyspark.__version__, str(home))
        with connect_server(home, settings=settings) as url:
            yield {"method": method, "remote": url}
    else:  # without formats: a Thrift server's statements do not find the classes of such jars
        with thrift_server(home, settings) as thrift:
            yield {"method": method, "host": "127.0.0.1", "port": thrift.port, "user": "tests"}


@pytest.fixture(scope="session")
def remote_spark(server: dict[str, Any]) -> Iterator[Any]:
    session = SparkSession.builder.remote(server["remote"]).create()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def dbt_profile_target(request: pytest.FixtureRequest, method: str, shard_root: Path) -> dict[str, Any]:
    """The profile of dbt's own test fixtures; dbt gives each class a schema."""
    request.getfixturevalue("embedded_spark" if method == "session" else "server")
    place = {"method": method} if method == "session" else dict(request.getfixturevalue("server"))
    if method == "warm":
        del place["remote"]  # which tests alone connect to
    return {
        "type": "mvsink",
        **place,
        "threads": 1,
        "shard_root": str(shard_root),
        "progress": False,
    }
