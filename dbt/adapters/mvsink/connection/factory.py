"""How a profile's `method` becomes a connection: one line of `CONNECTIONS` per method of our own.

dbt-spark's connection manager opens those of its other methods. The keys of `CONNECTIONS` are what
a profile may say besides dbt-spark's names: `profile_keys.METHODS` has both.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial

from dbt.adapters.spark.connections import SparkConnectionWrapper

from dbt.adapters.mvsink.connection.connect import open_connect
from dbt.adapters.mvsink.connection.cursor import open_session
from dbt.adapters.mvsink.connection.embedded import EmbeddedSpark
from dbt.adapters.mvsink.connection.warm import open_warm
from dbt.adapters.mvsink.connection.warm_sessions import may_be_warm
from dbt.adapters.mvsink.connection.warm_sessions import warm_server as warm_server
from dbt.adapters.mvsink.credentials import MvsinkCredentials, check_connect

EMBEDDED = EmbeddedSpark()  # a process can have only one JVM


def open_embedded_or_warm(credentials: MvsinkCredentials) -> SparkConnectionWrapper:
    """A connection to the warm session that fits the profile, if there is one and this process has
    no Spark of its own; else to the embedded Spark.
    """
    server = None if EMBEDDED.is_here() else warm_server(credentials)
    return open_session(EMBEDDED, credentials) if server is None else open_warm(credentials, server)


CONNECTIONS: Mapping[str, Callable[[MvsinkCredentials], SparkConnectionWrapper]] = {
    "session": open_embedded_or_warm,
    "connect": open_connect,
}


def start_session_early(credentials: MvsinkCredentials) -> None:
    """While dbt parses, start what a connection of method session will need, unless it is there:
    the embedded Spark, or a warm session.
    """
    if EMBEDDED.is_here():
        return
    if not may_be_warm(credentials):
        EMBEDDED.start_early(credentials)
        return
    run = partial(contextvars.copy_context().run, _warm_early, credentials)
    threading.Thread(target=run, name="dbt-mvsink warm session", daemon=True).start()


def _warm_early(credentials: MvsinkCredentials) -> None:
    try:
        if warm_server(credentials) is None:
            EMBEDDED.start_early(credentials)
        else:
            check_connect()  # imports PySpark's client
    except Exception as error:  # a connection raises it again
        logging.getLogger("mvsink.connection").debug("no session while dbt parsed: %s", error)
