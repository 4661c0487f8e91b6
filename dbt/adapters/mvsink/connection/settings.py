"""Spark's settings for an embedded session: defaults, what `formats` need, the profile's own.

A format is a package of jars, which Spark downloads when it starts (once, into Ivy's cache),
extensions of its SQL, and settings. A package is built for one minor version of Spark. `FORMATS`
lists the tested pairs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dbt.adapters.mvsink.connection.iceberg_catalog import spark_catalog
from dbt.adapters.mvsink.credentials import SHARED_METASTORE, MvsinkCredentials
from dbt.adapters.mvsink.exceptions import WrongProfile

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


JARS = "spark.jars"


def session_settings(credentials: MvsinkCredentials) -> dict[str, str]:
    """The defaults, what the profile's ``formats`` need, its ``iceberg_catalog``, then its
    ``server_side_parameters``.
    """
    import pyspark

    own, formats = credentials.server_side_parameters, credentials.formats or ()
    check_jars(own)
    settings = with_formats(defaults(credentials), own, formats, pyspark.__version__, credentials.home)
    catalog = spark_catalog(credentials)
    if catalog is None:
        return settings
    # nothing is left of a format's catalog of that name
    others = {key: value for key, value in settings.items() if key in own or not catalog.has(key)}
    return catalog.settings | others


def check_jars(settings: Mapping[str, str]) -> None:
    """Raises `WrongProfile` for a jar on this machine that does not exist: Spark starts without it,
    and statements fail later, with the name of a class.
    """
    for place in settings.get(JARS, "").split(","):
        path = place.strip().removeprefix("file://").removeprefix("file:")
        if path and ":" not in path and "*" not in path and not os.path.exists(path):
            raise WrongProfile(
                f"profile: server_side_parameters: {JARS}\n  Got: {place.strip()!r}, which does not exist\n"
                f"  Expected: jars on this machine, or coordinates in `{PACKAGES}`, which Spark downloads"
            )


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


PACKAGES = "spark.jars.packages"
EXTENSIONS = "spark.sql.extensions"


@dataclass(frozen=True)
class SessionFormat:
    """``packages``: Maven coordinates by PySpark minor version. ``{home}``: session's directory."""

    packages: Mapping[str, str]
    extension: str
    settings: Mapping[str, str]


FORMATS = {
    "delta": SessionFormat(
        packages={
            "4.0": "io.delta:delta-spark_4.0_2.13:4.4.0",
            "4.1": "io.delta:delta-spark_4.1_2.13:4.4.0",
            "4.2": "io.delta:delta-spark_4.2_2.13:4.4.0",
        },
        extension="io.delta.sql.DeltaSparkSessionExtension",
        settings={
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # Delta reads a table's log in this many tasks, by default 50, for every snapshot.
            "spark.databricks.delta.snapshotPartitions": "2",
        },
    ),
    "iceberg": SessionFormat(
        packages={
            "4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        },
        extension="org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        settings={
            "spark.sql.catalog.iceberg": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.iceberg.type": "hadoop",
            "spark.sql.catalog.iceberg.warehouse": "{home}/iceberg",
        },
    ),
}


def with_formats(
    settings: Mapping[str, str], own: Mapping[str, str], formats: Sequence[str], pyspark: str, home: str
) -> dict[str, str]:
    """Spark's ``settings``, overridden by the formats', overridden by the profile's ``own``.

    Packages and extensions of the profile and of the formats are joined; where both have a package,
    the profile's version wins. `DbtRuntimeError` if a format has no package for this version of
    PySpark and the profile has none either.
    """
    chosen = dict(settings)
    packages, extensions = _listed(own.get(PACKAGES)), _listed(own.get(EXTENSIONS))
    for name in dict.fromkeys(formats):
        wanted = FORMATS[name]
        if not any(_same_library(wanted, package) for package in packages):
            packages.append(_package(name, pyspark))
        extensions += [] if wanted.extension in extensions else [wanted.extension]
        chosen |= {key: value.replace("{home}", home) for key, value in wanted.settings.items()}
    chosen |= own
    if formats:
        chosen |= {PACKAGES: ",".join(packages), EXTENSIONS: ",".join(extensions)}
    return chosen


def missing(extensions: str, formats: Sequence[str]) -> list[str]:
    """Those of ``formats`` that a session with these SQL extensions was started without."""
    return [name for name in formats if FORMATS[name].extension not in _listed(extensions)]


def _package(name: str, pyspark: str) -> str:
    packages = FORMATS[name].packages
    package = packages.get(".".join(re.findall(r"\d+", pyspark)[:2]))
    if package is None:
        raise WrongProfile(
            f"profile: formats\n  Got: {name}, with PySpark {pyspark}\n  Expected: PySpark {' or '.join(packages)}, for which "
            f"{name} has been tested; or a package for yours in `server_side_parameters: {{{PACKAGES}: ...}}`"
        )
    return package


def _same_library(wanted: SessionFormat, package: str) -> bool:
    """Whether ``package`` is the format's, for any Spark and in any version."""
    return any(_library(package) == _library(ours) for ours in wanted.packages.values())


def _library(package: str) -> str:
    """
    >>> _library("io.delta:delta-spark_4.1_2.13:4.4.0"), _library("io.delta:delta-spark_2.13:4.0.0")
    ('io.delta:delta-spark', 'io.delta:delta-spark')
    """
    return re.sub(r"[-_]\d.*", "", package)


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]
