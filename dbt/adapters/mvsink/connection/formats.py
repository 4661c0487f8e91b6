"""The profile's ``formats``: what the embedded Spark needs for table formats beyond its own.

A format is a package of jars, which Spark downloads when it starts (once, into Ivy's cache),
extensions of its SQL, and settings. A package is built for one minor version of Spark. `FORMATS`
lists the tested pairs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbt_common.exceptions import DbtRuntimeError

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
        raise DbtRuntimeError(
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
