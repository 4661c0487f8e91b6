"""A Spark Thrift server for tests: the one in PySpark's jars, on 127.0.0.1."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark

from tests.support.processes import free_port
from tests.support.small_data import INTERPRETED

SERVER = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
STARTS_IN = 240.0  # seconds


@dataclass(frozen=True)
class ThriftServer:
    port: int
    process: subprocess.Popen[bytes]


@contextmanager
def thrift_server(home: Path, settings: Mapping[str, str] = {}) -> Iterator[ThriftServer]:
    """A server that keeps everything below ``home``, until the block ends."""
    port = free_port()
    configured = {
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={home}/metastore;create=true",
        **INTERPRETED,
        **settings,
    }
    hive = {"hive.server2.thrift.bind.host": "127.0.0.1", "hive.server2.thrift.port": str(port)}
    spark = Path(pyspark.__file__).parent
    command = [str(spark / "bin" / "spark-submit"), "--class", SERVER]
    command += [part for key, value in configured.items() for part in ("--conf", f"{key}={value}")]
    command += ["spark-internal", *(p for k, v in hive.items() for p in ("--hiveconf", f"{k}={v}"))]
    environment = {**os.environ, "SPARK_HOME": str(spark), "SPARK_NO_DAEMONIZE": "1"}
    home.mkdir(parents=True, exist_ok=True)
    streams: Any = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
    with (
        (home / "server.log").open("a") as log,
        subprocess.Popen(command, stdout=log, env=environment, cwd=home, **streams) as process,
    ):
        try:
            _wait(port, process, home)
            yield ThriftServer(port, process)
        finally:
            process.kill()


def _wait(port: int, process: subprocess.Popen[bytes], home: Path) -> None:
    deadline = time.monotonic() + STARTS_IN
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.5)
    raise RuntimeError("no Thrift server: " + (home / "server.log").read_text()[-2000:])
