"""A Spark of a process's own for thousands of statements over a handful of rows."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from dbt_common.events.event_manager_client import get_event_manager

from dbt.adapters.mvsink.connection.factory import EMBEDDED
from dbt.adapters.mvsink.credentials import MvsinkCredentials
from tests.support import quick_dbt, quick_java
from tests.support.small_data import INTERPRETED

SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "3g",
    "spark.ui.enabled": "false",
    # what is kept of each statement for a user interface that no one looks at
    "spark.ui.liveUpdate.period": "-1",
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
    "spark.ui.retainedTasks": "10",
    "spark.sql.ui.retainedExecutions": "1",
    "spark.sql.ui.explainMode": "simple",
    **INTERPRETED,
}


@contextmanager
def session(formats: Sequence[str] = (), settings: Mapping[str, str] | None = None) -> Iterator[Any]:
    """The session, with a metastore and a warehouse that go with it."""
    quick_java.install()
    quick_dbt.install()
    get_event_manager().loggers.clear()  # a million lines of dbt that no one reads
    before = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="mvsink-long-") as home:
        os.chdir(home)
        options = f"{os.environ['JDK_JAVA_OPTIONS']} -Dderby.system.durability=test"
        os.environ["JDK_JAVA_OPTIONS"] = options
        try:
            yield EMBEDDED.session(
                MvsinkCredentials(
                    schema="default",
                    shard_root=f"{home}/shards",
                    formats=[*formats] or None,
                    server_side_parameters={**SETTINGS, **(settings or {})},
                )
            )
        finally:
            os.chdir(before)
