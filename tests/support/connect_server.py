"""A Spark Connect server for tests: the one in PySpark's jars, on 127.0.0.1."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark

from tests.support.processes import free_port

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
STARTS_IN = 240.0  # seconds


@contextmanager
def connect_server(home: Path, port: int | None = None) -> Iterator[str]:
    """A server that keeps everything below ``home``, until the block ends: its URL."""
    port = port or free_port()
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={home}/metastore;create=true",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    spark = Path(pyspark.__file__).parent
    command = [str(spark / "bin" / "spark-submit"), "--class", SERVER]
    command += [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    environment = {**os.environ, "SPARK_HOME": str(spark), "SPARK_NO_DAEMONIZE": "1"}
    home.mkdir(parents=True, exist_ok=True)
    streams: Any = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
    with (
        (home / "server.log").open("a") as log,
        subprocess.Popen(
            [*command, "spark-internal"], stdout=log, env=environment, cwd=home, **streams
        ) as process,
    ):
        try:
            _wait(port, process, home)
            yield f"sc://127.0.0.1:{port}"
        finally:
            process.kill()


def _wait(port: int, process: subprocess.Popen[bytes], home: Path) -> None:
    deadline = time.monotonic() + STARTS_IN
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.5)
    raise RuntimeError("no Spark Connect server: " + (home / "server.log").read_text()[-2000:])
