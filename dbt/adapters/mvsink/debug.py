"""What `dbt debug` checks beyond a query: that a shard can be written where the profile says."""

from __future__ import annotations

import time
import uuid

import pyarrow as pa
from dbt.adapters.spark.connections import SparkConnectionMethod
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.credentials import MvsinkCredentials
from dbt.adapters.mvsink.java import check_java
from dbt.adapters.mvsink.shard import Antichain, ShardClient, ShardError

LEAST_PYSPARK = (4, 0)


def check_setup(credentials: MvsinkCredentials) -> None:
    """Raises `DbtRuntimeError` saying what is missing; leaves nothing behind."""
    if credentials.method == SparkConnectionMethod.SESSION:
        check_java()
        check_pyspark()
    check_shard_root(credentials)


def check_pyspark() -> None:
    """PySpark is there and new enough."""
    import pyspark

    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if version < LEAST_PYSPARK:
        raise DbtRuntimeError(
            f"dbt-mvsink needs PySpark 4.0 or newer, found {pyspark.__version__}: pip install 'dbt-mvsink[session]'"
        )


def check_shard_root(credentials: MvsinkCredentials) -> None:
    """One compare-and-append on a throw-away shard."""
    uri = f"{credentials.shards.rstrip('/')}/_mvsink_debug/{uuid.uuid4().hex}"
    now = int(time.time() * 1000)
    updates = pa.table({"ok": [True], "_mv_time": [now], "_mv_diff": [1]})
    client = ShardClient(credentials.storage_options)
    try:
        with client.open_writer(uri, pa.schema([("ok", pa.bool_())]), "dbt debug") as handle:
            handle.compare_and_append(updates, Antichain.of(0), Antichain.of(now + 1))
            handle.storage.delete_directory("")
    except (ShardError, OSError) as error:
        raise DbtRuntimeError(f"cannot write a shard below shard_root {credentials.shards}: {error}") from error
