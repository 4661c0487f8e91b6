"""The catalog of the profile's `iceberg_catalog`, as an embedded Spark names it.

The profile has pyiceberg's properties of the catalog, Spark those of Iceberg's library for Java.
For a catalog of type rest or hive Spark gets those that mean the same in both. Catalogs of other
types differ, or need jars, so they are left to the profile's `server_side_parameters`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from dbt.adapters.mvsink.credentials import MvsinkCredentials
from dbt.adapters.mvsink.exceptions import WrongProfile
from dbt.adapters.mvsink.profile_keys import SESSION

CATALOGS = "spark.sql.catalog."
CLASS = "org.apache.iceberg.spark.SparkCatalog"
DEFAULT_NAME = "lake"
REST, HIVE = "rest", "hive"
HEADER, VIRTUAL = "header.", "s3.force-virtual-addressing"
# By type, Iceberg's name in Java of each of pyiceberg's properties. Of two with one name, the later
# one wins, as in pyiceberg.
# https://iceberg.apache.org/docs/latest/catalog-properties/, .../docs/latest/aws/
# https://py.iceberg.apache.org/configuration/
_SAME = ("uri", "warehouse")
_OF_REST = ("prefix", "token", "credential", "oauth2-server-uri", "scope", "audience", "resource")
_OF_S3 = ("client.region", "s3.endpoint", "s3.access-key-id", "s3.secret-access-key", "s3.session-token")
PROPERTIES = {
    REST: {name: name for name in _SAME + _OF_REST + _OF_S3} | {"s3.region": "client.region"},
    HIVE: {name: name for name in _SAME},
}
# Iceberg caches a table for 30 s. pyiceberg publishes a model, so the session would not notice, and
# its readers would see the model as it was before the run.
READ_AGAIN = {"cache-enabled": "false"}
_NAME = re.compile(r"(?!spark_catalog$)[a-z_][a-z0-9_]*", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class SparkCatalog:
    """A catalog's name in Spark, and its properties, some of which are secret."""

    name: str
    properties: Mapping[str, str] = field(repr=False)

    @property
    def settings(self) -> dict[str, str]:
        """Spark's settings for it."""
        key = CATALOGS + self.name
        return {key: CLASS} | {f"{key}.{name}": value for name, value in self.properties.items()}

    def has(self, setting: str) -> bool:
        """Whether ``setting`` is one for a catalog of this name."""
        return f"{setting}.".startswith(f"{CATALOGS}{self.name}.")


def spark_catalog(credentials: MvsinkCredentials) -> SparkCatalog | None:
    """The catalog to be set in an embedded session; None if there is none, or if it is left to the
    profile's ``server_side_parameters``. `DbtRuntimeError` if Spark can have none of its name.
    """
    properties = credentials.iceberg_catalog or {}
    kind = catalog_type(properties)
    if credentials.method != SESSION or "iceberg" not in (credentials.formats or ()) or kind is None:
        return None
    name = properties.get("name", DEFAULT_NAME)
    if CATALOGS + name in credentials.server_side_parameters:
        return None
    if not _NAME.fullmatch(name):
        raise WrongProfile(
            f"profile: iceberg_catalog: name\n  Got: {name!r}\n  Expected: letters, digits and `_`, and no digit first, "
            "for Spark gets a catalog of that name; not spark_catalog, which is Spark's own"
        )
    return SparkCatalog(name, {"type": kind, **_in_java(properties, kind)})


def catalog_type(properties: Mapping[str, str]) -> str | None:
    """`REST` or `HIVE` if pyiceberg takes the catalog with these properties for one of that type.
    None for other types, and where pyiceberg's own configuration has the URI.

    >>> catalog_type({"uri": "https://catalog.example.com"}), catalog_type({"type": "sql", "uri": "sqlite://"})
    ('rest', None)
    """
    uri, kind = properties.get("uri", ""), properties.get("type", "").lower()
    if not uri or "py-catalog-impl" in properties:
        return None
    if not kind:
        kind = REST if uri.startswith("http") else HIVE if uri.startswith("thrift") else ""
    return kind if kind in PROPERTIES else None


def _in_java(properties: Mapping[str, str], kind: str) -> dict[str, str]:
    """Iceberg's properties in Java of a catalog of this type."""
    in_java = {java: properties[name] for name, java in PROPERTIES[kind].items() if name in properties}
    if kind == REST:
        in_java |= {name: value for name, value in properties.items() if name.startswith(HEADER)}
    if "s3.endpoint" in in_java and properties.get(VIRTUAL, "").lower() != "true":
        in_java["s3.path-style-access"] = "true"  # as pyiceberg addresses buckets at an endpoint
    return in_java | READ_AGAIN
