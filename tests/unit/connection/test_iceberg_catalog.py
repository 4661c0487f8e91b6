"""Spark's settings for the profile's `iceberg_catalog`. No Spark."""

from __future__ import annotations

import pytest
from dbt_common.exceptions import DbtRuntimeError
from pyiceberg.catalog import CatalogType, infer_catalog_type

from dbt.adapters.mvsink.connection.iceberg_catalog import CLASS, catalog_type, spark_catalog
from dbt.adapters.mvsink.connection.settings import session_settings
from dbt.adapters.mvsink.credentials import MvsinkCredentials

CATALOG = "spark.sql.catalog."
URI, METASTORE = "https://catalog.example.com", "thrift://metastore:9083"
OF_REST = {
    "type": "rest",
    "uri": URI,
    "warehouse": "main",
    "prefix": "p",
    "token": "of-token",
    "credential": "id:of-credential",
    "scope": "PRINCIPAL_ROLE:ALL",
    "oauth2-server-uri": "https://login.example.com/token",
    "audience": "a",
    "resource": "r",
    "header.X-Iceberg-Access-Delegation": "vended-credentials",
    "s3.endpoint": "http://127.0.0.1:9000",
    "s3.access-key-id": "key",
    "s3.secret-access-key": "of-s3",
    "s3.session-token": "of-session",
}
PATHS, VIRTUAL = {"s3.path-style-access": "true"}, "s3.force-virtual-addressing"
OF_PYICEBERG = {
    "name": "lake",
    "s3.connect-timeout": "3",
    "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
    "rest.sigv4-enabled": "false",
}


def settings(catalog, own=None, formats=("delta", "iceberg")):
    """What the settings of Spark's session have for catalogs other than its own."""
    made = MvsinkCredentials(
        schema="s", formats=list(formats), iceberg_catalog=catalog, server_side_parameters=own or {}
    )
    result = session_settings(made)
    mine = {
        key: value
        for key, value in result.items()
        if key.startswith(CATALOG) and not key.startswith(f"{CATALOG}spark_catalog")
    }
    return {key.removeprefix(CATALOG): value for key, value in mine.items()}


HADOOP = {"iceberg": CLASS, "iceberg.type": "hadoop"}


@pytest.fixture(autouse=True)
def tested_pyspark(monkeypatch):
    monkeypatch.setattr("pyspark.__version__", "4.1.4")


def entry(name, properties):
    """A catalog's settings: these, and no cache."""
    options = {"cache-enabled": "false"} | properties
    return {name: CLASS} | {f"{name}.{key}": value for key, value in options.items()}


@pytest.mark.parametrize(
    ("catalog", "expected"),
    [
        (OF_REST, OF_REST | PATHS),
        (OF_REST | OF_PYICEBERG, OF_REST | PATHS),
        (OF_REST | {VIRTUAL: "false"}, OF_REST | PATHS),
        (OF_REST | {VIRTUAL: "True"}, OF_REST),
        ({"type": "REST", "uri": URI}, {"type": "rest", "uri": URI}),
        ({"uri": URI}, {"type": "rest", "uri": URI}),
        (
            {"type": "rest", "uri": URI, "s3.region": "eu"},
            {"type": "rest", "uri": URI, "client.region": "eu"},
        ),
        (
            {"type": "rest", "uri": URI, "s3.region": "eu", "client.region": "us"},
            {"type": "rest", "uri": URI, "client.region": "eu"},
        ),
        ({"uri": METASTORE}, {"type": "hive", "uri": METASTORE}),
        (
            OF_REST | {"type": "hive", "uri": METASTORE},
            {"type": "hive", "uri": METASTORE, "warehouse": "main"},
        ),
    ],
)
def test_what_has_one_meaning_in_python_and_java_is_set(catalog, expected):
    result = settings(catalog)
    result = {key: value for key, value in result.items() if not key.startswith("iceberg")}
    assert result == entry("lake", expected)


@pytest.mark.parametrize(
    "catalog",
    [
        None,
        {"type": "sql", "uri": "sqlite:///c.db"},
        {"uri": "postgresql://db/c"},
        {"type": "glue"},
        {"type": "in-memory", "uri": URI},
        {"type": "rest"},  # the rest is in pyiceberg's own configuration
        {"name": "any name", "py-catalog-impl": "my.Catalog", "uri": URI},
        {"type": "sql", "name": "any name", "uri": "sqlite:///c.db"},
    ],
)
def test_a_catalog_of_another_kind_is_left_to_the_profile(catalog):
    assert settings(catalog).keys() == {*HADOOP, "iceberg.warehouse"}


@pytest.mark.parametrize("formats", [["delta"], []])
def test_a_session_without_iceberg_has_none(formats):
    assert settings(OF_REST, formats=formats) == {}


def test_a_server_has_its_own_settings(monkeypatch):
    monkeypatch.setattr("dbt.adapters.mvsink.credentials.check_connect", lambda: "4.1.4")
    made = MvsinkCredentials(
        schema="s", method="connect", remote="sc://h", shard_root="/s", iceberg_catalog=OF_REST
    )
    assert spark_catalog(made) is None


@pytest.mark.parametrize(
    ("name", "own", "expected"),
    [
        (
            "lake",
            {"lake.uri": "https://proxy"},
            {"type": "rest", "uri": "https://proxy", "warehouse": "main"},
        ),
        (
            "lake",
            {"lake.cache-enabled": "true", "lake.clients": "1", "other": "my.Catalog"},
            {"type": "rest", "uri": URI, "warehouse": "main", "cache-enabled": "true", "clients": "1"},
        ),
        ("My_Lake2", {}, {"type": "rest", "uri": URI, "warehouse": "main"}),
    ],
)
def test_what_the_profile_sets_itself_wins(name, own, expected):
    catalog = {"type": "rest", "uri": URI, "warehouse": "main", "name": name}
    result = settings(catalog, {CATALOG + key: value for key, value in own.items()})
    assert {key: value for key, value in result.items() if key.partition(".")[0] == name} == entry(
        name, expected
    )


def test_a_catalog_that_the_profile_sets_is_only_the_profiles():
    own = {"lake": CLASS, "lake.type": "rest", "lake.uri": "https://proxy", "lake.token": "of-a-reader"}
    result = settings(OF_REST, {CATALOG + key: value for key, value in own.items()})
    assert {key: value for key, value in result.items() if not key.startswith("iceberg")} == own


def test_the_name_iceberg_replaces_the_formats_catalog():
    assert settings({"name": "iceberg", "uri": URI}) == entry("iceberg", {"type": "rest", "uri": URI})
    own = {f"{CATALOG}iceberg.warehouse": "w"}
    assert settings({"name": "iceberg", "uri": URI}, own) == entry(
        "iceberg", {"type": "rest", "uri": URI, "warehouse": "w"}
    )
    both = {*HADOOP, "iceberg.warehouse", *entry("ice", {"type": "rest", "uri": URI})}
    assert set(settings({"name": "ice", "uri": URI})) == both


@pytest.mark.parametrize(
    "name", ["my-lake", "a.b", "9lives", "", "läke", "lake\n", "spark_catalog", "Spark_Catalog"]
)
def test_a_name_that_spark_cannot_have_is_refused(name):
    with pytest.raises(DbtRuntimeError) as raised:
        settings({"name": name, "uri": URI})
    assert raised.value.msg.startswith(
        f"profile: iceberg_catalog: name\n  Got: {name!r}\n  Expected: letters, digits and `_`"
    )


def test_names_that_only_begin_alike_are_of_other_catalogs():
    result = settings({"uri": URI}, {f"{CATALOG}lakes": "my.Catalog", f"{CATALOG}lakes.type": "x"})
    assert {"lakes": "my.Catalog", "lakes.type": "x", "lake.type": "rest"}.items() <= result.items()


@pytest.mark.parametrize(
    "uri",
    ["http://a", URI, METASTORE, "thrift://a,thrift://b", "sqlite:///c.db", "postgresql://db/c", "other://x"],
)
def test_the_type_is_inferred_as_by_pyiceberg(uri):
    try:
        expected = infer_catalog_type("lake", {"uri": uri})
    except ValueError:
        expected = None
    known = {CatalogType.REST: "rest", CatalogType.HIVE: "hive"}
    assert catalog_type({"uri": uri}) == known.get(expected)
