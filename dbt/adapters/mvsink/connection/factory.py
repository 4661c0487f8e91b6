"""How a profile's `method` becomes a connection: one line of `CONNECTIONS` per method of our own.

dbt-spark's connection manager opens those of its other methods. The keys of `CONNECTIONS` are what
a profile may say besides dbt-spark's names: see `credentials.register_methods`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from dbt.adapters.spark.connections import SparkConnectionWrapper

from dbt.adapters.mvsink.connection.connect import open_connect
from dbt.adapters.mvsink.connection.cursor import open_session
from dbt.adapters.mvsink.connection.embedded import EmbeddedSpark
from dbt.adapters.mvsink.credentials import MvsinkCredentials

EMBEDDED = EmbeddedSpark()  # a process can have only one JVM

CONNECTIONS: Mapping[str, Callable[[MvsinkCredentials], SparkConnectionWrapper]] = {
    "session": partial(open_session, EMBEDDED),
    "connect": open_connect,
}
