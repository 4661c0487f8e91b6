"""One Spark session a test process, with Delta's jar (merge, snapshots). With Iceberg's, which
``MVSINK_FORMATS=delta,iceberg`` adds, Spark creates no functions of SQL.

Unit and property tests never ask for it. Every process has a metastore and a warehouse of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import quick_dbt, quick_java
from tests.support.moto_server import moto_server

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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--on-spark", action="store_true", help="what is tested on DuckDB (fixture `session`) runs on Spark"
    )


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
def spark(tmp_path_factory: pytest.TempPathFactory, shard_root: Path) -> Iterator[Any]:
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
def dbt_profile_target(spark: Any, shard_root: Path) -> dict[str, Any]:
    """The profile of dbt's own test fixtures; dbt gives each class a schema."""
    return {
        "type": "mvsink",
        "method": "session",
        "threads": 1,
        "shard_root": str(shard_root),
        "progress": False,
    }
