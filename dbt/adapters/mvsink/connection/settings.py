"""Spark's settings for an embedded session: defaults, what `formats` need, the profile's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from dbt.adapters.mvsink.connection.formats import with_formats
from dbt.adapters.mvsink.credentials import SHARED_METASTORE, MvsinkCredentials

METASTORE_URL = SHARED_METASTORE[0]
LOCAL = "local[*]"
BROADCAST = "32m"  # a table of this size on disk takes some 200 MB of memory
BROADCAST_MEMORY_MB = 4096  # from here on


def defaults(credentials: MvsinkCredentials) -> dict[str, str]:
    """The settings that suit `dbt run` on one machine."""
    home, cores = Path(credentials.home), os.cpu_count() or 2
    settings = {
        "spark.master": LOCAL,
        "spark.app.name": "dbt-mvsink",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": f"{_driver_memory_mb()}m",
        "spark.sql.shuffle.partitions": str(2 * cores),
        # Sums by up to 2^20 buckets stay in the generated code's own map, which by default ends at
        # 2^16 keys.
        "spark.sql.codegen.aggregate.fastHashMap.capacityBit": "20",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.sql.catalogImplementation": "hive",
        # By default a directory of its own for each process in the temporary folder, which stays.
        "spark.hadoop.hive.downloaded.resources.dir": str(home / "hive-resources"),
        # A batch's directory holds its data files and nothing else.
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "spark.driver.extraJavaOptions": " ".join(
            [  # quoted: a project's directory may have a space in its name
                f'"-Dlog4j2.configurationFile={(home / "log4j2.properties").as_uri()}"',
                f'"-Dderby.stream.error.file={home / "derby.log"}"',
                "-Dspark.logging.silent=true",
            ]
        ),
    }
    if credentials.server_side_parameters.get("spark.master", LOCAL).startswith("local"):
        settings["spark.driver.host"] = "localhost"  # the executors of a cluster need another name
        # Spark's 10 MB suit a cluster, where every executor holds a copy. Here there is one, and to
        # shuffle and sort both sides of a join costs far more. A constant: views remember it.
        memory_is_ours = "spark.driver.memory" not in credentials.server_side_parameters
        if memory_is_ours and _driver_memory_mb() >= BROADCAST_MEMORY_MB:
            settings["spark.sql.autoBroadcastJoinThreshold"] = BROADCAST
    if not any(key in credentials.server_side_parameters for key in SHARED_METASTORE):
        settings[METASTORE_URL] = f"jdbc:derby:;databaseName={home / 'metastore'};create=true"
    return settings


def session_settings(credentials: MvsinkCredentials) -> dict[str, str]:
    """The defaults, what the profile's ``formats`` need, then its ``server_side_parameters``."""
    import pyspark

    own, formats = credentials.server_side_parameters, credentials.formats or ()
    return with_formats(defaults(credentials), own, formats, pyspark.__version__, credentials.home)


def needs_metastore_lock(settings: Mapping[str, str]) -> bool:
    """Whether a session with these settings opens a Derby metastore of its own."""
    hive = settings.get("spark.sql.catalogImplementation") == "hive"
    remote = any(settings.get(key) for key in SHARED_METASTORE[1:])
    return hive and not remote and settings.get(METASTORE_URL, "jdbc:derby").startswith("jdbc:derby")


def _driver_memory_mb() -> int:
    """A quarter of the machine's memory, at least 1 GiB, at most 8."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    except (ValueError, OSError):
        total = 4096
    return max(1024, min(8192, total // 4))
