"""The profile: everything dbt-spark's methods accept, and where shards live.

Nothing here touches Spark or the disk; relative places are taken from the project's directory when they are first asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dbt.adapters.spark.connections import SparkConnectionMethod, SparkCredentials
from dbt_common.exceptions import DbtRuntimeError

HOME = ".mvsink"
ANSI = "spark.sql.ansi.enabled"


@dataclass
class MvsinkCredentials(SparkCredentials):
    """``shard_root`` is a path or URI, ``storage_options`` the `deltalake` package's, ``metastore_timeout`` seconds."""

    method: SparkConnectionMethod = SparkConnectionMethod.SESSION
    shard_root: str | None = None
    storage_options: dict[str, str] | None = None
    read_only: bool = False
    metastore_timeout: int = 300

    @classmethod
    def __pre_deserialize__(cls, data: Any) -> Any:
        data = super().__pre_deserialize__(data)
        data.setdefault("method", SparkConnectionMethod.SESSION.value)
        return data

    def __post_init__(self) -> None:
        ansi = self.server_side_parameters.get(ANSI)
        with self._stand_in_host():
            super().__post_init__()
        # dbt-spark forces ANSI mode off; Spark's own default holds unless the profile says otherwise.
        del self.server_side_parameters[ANSI]
        if ansi is not None:
            self.server_side_parameters[ANSI] = str(ansi).lower()
        if not isinstance(self.read_only, bool):
            raise DbtRuntimeError(f"profile: read_only\n  Got: {self.read_only!r}\n  Expected: true or false")
        if self.metastore_timeout < 0:
            raise DbtRuntimeError(
                f"profile: metastore_timeout\n  Got: {self.metastore_timeout!r}\n  Expected: seconds, 0 or more"
            )
        if self.shard_root is None and self.method != SparkConnectionMethod.SESSION:
            raise DbtRuntimeError(
                f"profile: method {self.method} needs `shard_root`: a place that this machine and Spark's can both reach"
            )

    @contextmanager
    def _stand_in_host(self) -> Iterator[None]:
        """A session has no host, but dbt-spark insists on one."""
        missing = self.host is None and self.method == SparkConnectionMethod.SESSION
        if missing:
            self.host = "session"
        try:
            yield
        finally:
            if missing:
                self.host = None

    @property
    def type(self) -> str:
        return "mvsink"

    @property
    def unique_field(self) -> str:
        return self.host or self.home

    @property
    def home(self) -> str:
        """Where the embedded session keeps warehouse, metastore and log: beside the project."""
        return os.path.join(os.getcwd(), HOME)

    @property
    def shards(self) -> str:
        """``shard_root``, absolute; beside the project by default."""
        if self.shard_root is None:
            return os.path.join(self.home, "shards")
        return self.shard_root if "://" in self.shard_root else os.path.abspath(os.path.expanduser(self.shard_root))

    def _connection_keys(self) -> tuple[str, ...]:
        return ("method", "host", "schema", "shard_root", "read_only")
