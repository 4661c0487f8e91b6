"""Spark servers for tests: those in PySpark's jars, on 127.0.0.1. Each keeps everything below its
``home``, with a metastore of its own, until the block ends.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest

from dbt.adapters.mvsink.connection import factory
from dbt.adapters.mvsink.connection.embedded import downloading
from dbt.adapters.mvsink.connection.warm import WarmConnection, open_warm
from dbt.adapters.mvsink.connection.warm_sessions import IDLE, WarmPlace, WarmServer, start, stop
from dbt.adapters.mvsink.credentials import MvsinkCredentials
from tests.support.processes import free_port
from tests.support.small_data import INTERPRETED

CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
THRIFT = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
STARTS_IN = 240.0  # seconds


@dataclass(frozen=True)
class ThriftServer:
    port: int
    process: subprocess.Popen[bytes]


@contextmanager
def connect_server(home: Path, port: int | None = None, settings: Mapping[str, str] = {}) -> Iterator[str]:
    """A Spark Connect server: its URL."""
    port = port or free_port()
    connect = {
        "spark.sql.catalogImplementation": "hive",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    with _server(CONNECT, home, port, {**connect, **settings}):
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def warm_session(home: Path, settings: Mapping[str, str], formats: Sequence[str]) -> Iterator[str]:
    """A warm session, which every profile of method session in this process uses instead of one of
    its project: its URL, with the token. Settings of a profile are set in its connections.
    """
    credentials = MvsinkCredentials(
        schema="default", progress=False, formats=list(formats), server_side_parameters=dict(settings)
    )
    credentials.belong_to(str(home))
    server = start(credentials, IDLE)
    place = WarmPlace.of(credentials)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factory, "warm_server", lambda _: server)
        patch.setattr(factory, "open_warm", _with_settings)
        try:
            yield server.remote
        finally:
            stop(place, server)


def _with_settings(credentials: MvsinkCredentials, server: WarmServer) -> WarmConnection:
    connection = open_warm(credentials, server)
    for name, value in credentials.server_side_parameters.items():
        connection.session.conf.set(name, value)
        connection._session_changed()
    return connection


@contextmanager
def thrift_server(
    home: Path, settings: Mapping[str, str] = {}, http: Mapping[str, str] | None = None
) -> Iterator[ThriftServer]:
    """A Thrift server. ``http``: the further settings of one that is asked over HTTP."""
    port = free_port()
    hive = {"hive.server2.thrift.bind.host": "127.0.0.1"}
    if http is None:
        hive["hive.server2.thrift.port"] = str(port)
    else:
        hive |= {"hive.server2.transport.mode": "http", "hive.server2.thrift.http.port": str(port), **http}
    arguments = [part for key, value in hive.items() for part in ("--hiveconf", f"{key}={value}")]
    with _server(THRIFT, home, port, {**INTERPRETED, **settings}, arguments) as process:
        yield ThriftServer(port, process)


@contextmanager
def _server(
    main: str, home: Path, port: int, settings: Mapping[str, str], arguments: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    configured = {
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={home}/metastore;create=true",
        **settings,
    }
    spark = Path(pyspark.__file__).parent
    command = [str(spark / "bin" / "spark-submit"), "--class", main]
    command += [part for key, value in configured.items() for part in ("--conf", f"{key}={value}")]
    environment = {**os.environ, "SPARK_HOME": str(spark), "SPARK_NO_DAEMONIZE": "1"}
    home.mkdir(parents=True, exist_ok=True)
    log = home / "server.log"
    streams: Any = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
    with log.open("a") as output, ExitStack() as running:
        with downloading(configured):
            process = running.enter_context(
                subprocess.Popen(
                    [*command, "spark-internal", *arguments],
                    stdout=output,
                    env=environment,
                    cwd=home,
                    **streams,
                )
            )
            running.callback(process.kill)
            _wait(port, process, log)
        yield process


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + STARTS_IN
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.5)
    raise RuntimeError("no server: " + log.read_text()[-2000:])
