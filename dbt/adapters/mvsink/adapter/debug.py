"""What `dbt debug` checks besides a query: that a shard can be written below `shard_root`."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.spark.connections import SparkConnectionMethod

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.adapter.dbt_engine import AdapterEngine
from dbt.adapters.mvsink.connection import factory
from dbt.adapters.mvsink.connection.java import check_java
from dbt.adapters.mvsink.credentials import MvsinkCredentials, check_connect, check_pyspark
from dbt.adapters.mvsink.engine import DataflowError
from dbt.adapters.mvsink.exceptions import MvsinkError
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.physical import DIFF, TIME
from dbt.adapters.mvsink.profile_keys import CONNECT
from dbt.adapters.mvsink.shard import Antichain, ShardClient, ShardError
from dbt.adapters.mvsink.shard_sql.stager import check_same_place

PLACE = "_mvsink_debug"
logger = AdapterLogger("mvsink")


def check_setup(credentials: MvsinkCredentials) -> None:
    """Log each check that passes. Raises `MvsinkError`; leaves nothing behind."""
    if credentials.method == SparkConnectionMethod.SESSION:
        logger.info(f"PySpark {check_pyspark()}, Java {check_java().version}: OK")
        if (server := factory.warm_server(credentials)) is not None:
            logger.info(f"{server.words}: OK")
    if credentials.method == CONNECT:
        logger.info(f"PySpark {check_connect()}, a client of Spark Connect: OK")
    check_shard_root(credentials)
    logger.info(f"shard root {masked(credentials.shards)}: compare-and-append OK")


def check_shard_root(credentials: MvsinkCredentials) -> None:
    """One compare-and-append on a temporary shard."""
    root = credentials.shards.rstrip("/")
    uri = f"{root}/{PLACE}/{uuid.uuid4().hex}"
    now = wall_clock.now_ms()
    updates = pa.table({"ok": [True], TIME: [now], DIFF: [1]})
    client = ShardClient(credentials.storage_options)
    try:
        with (
            _no_new_directories(os.path.join(root, PLACE)),
            client.open_writer(uri, pa.schema([("ok", pa.bool_())]), "dbt debug") as handle,
        ):
            try:
                handle.compare_and_append(updates, Antichain.of(0), Antichain.of(now + 1))
            finally:
                handle.storage.delete_directory("")
    except (ShardError, OSError) as error:
        raise MvsinkError(f"cannot write a shard below shard_root {credentials.shards}: {error}") from error


def check_spark_writes_there(engine: AdapterEngine, credentials: MvsinkCredentials) -> None:
    """`MvsinkError` unless this process sees what Spark writes below the root; leaves nothing."""
    root = credentials.shards.rstrip("/")
    try:
        with _no_new_directories(root):
            check_same_place(engine, uuid.uuid4(), root, credentials.storage_options)
    except (DataflowError, ShardError) as error:
        raise MvsinkError(str(error)) from error


@contextmanager
def _no_new_directories(path: str) -> Iterator[None]:
    """Remove the local directories on the way to ``path`` that were created inside, if empty."""
    path, new = path.removeprefix("file://"), []
    while "://" not in path and path and not os.path.lexists(path):
        new.append(path)
        path = os.path.dirname(path)
    try:
        yield
    finally:
        with suppress(OSError):
            for directory in new:
                os.rmdir(directory)
