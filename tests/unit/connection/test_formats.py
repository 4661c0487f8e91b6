"""Spark's settings for the profile's `formats`, beside the profile's own settings. No Spark."""

from __future__ import annotations

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink import profile_keys
from dbt.adapters.mvsink.connection.embedded import require_formats
from dbt.adapters.mvsink.connection.settings import (
    EXTENSIONS,
    FORMATS,
    PACKAGES,
    missing,
    session_settings,
    with_formats,
)
from dbt.adapters.mvsink.credentials import MvsinkCredentials

DELTA, ICEBERG = FORMATS["delta"].packages["4.1"], FORMATS["iceberg"].packages["4.1"]
DELTA_SQL, ICEBERG_SQL = FORMATS["delta"].extension, FORMATS["iceberg"].extension
CATALOG = "spark.sql.catalog.spark_catalog"
PARTITIONS = "spark.databricks.delta.snapshotPartitions"


@pytest.mark.parametrize(
    ("formats", "settings", "packages", "extensions"),
    [
        ([], {}, None, None),
        ([], {PACKAGES: "a:b:1"}, "a:b:1", None),
        (["delta"], {}, DELTA, DELTA_SQL),
        (["iceberg"], {}, ICEBERG, ICEBERG_SQL),
        (["delta", "iceberg", "delta"], {}, f"{DELTA},{ICEBERG}", f"{DELTA_SQL},{ICEBERG_SQL}"),
        (
            ["delta"],
            {PACKAGES: "a:b:1, c:d:2", EXTENSIONS: "x.Y"},
            f"a:b:1,c:d:2,{DELTA}",
            f"x.Y,{DELTA_SQL}",
        ),
        (["delta"], {PACKAGES: DELTA, EXTENSIONS: DELTA_SQL}, DELTA, DELTA_SQL),
        (
            ["delta"],
            {PACKAGES: "io.delta:delta-spark_2.13:9.9.9"},
            "io.delta:delta-spark_2.13:9.9.9",
            DELTA_SQL,
        ),
    ],
)
def test_packages_and_extensions_of_the_profile_stay(formats, settings, packages, extensions):
    chosen = with_formats({"spark.app.name": "x"}, settings, formats, "4.1.4", "/home")
    assert (chosen.get(PACKAGES), chosen.get(EXTENSIONS)) == (packages, extensions)
    assert chosen["spark.app.name"] == "x"


@pytest.mark.parametrize(
    ("formats", "settings", "expected"),
    [
        (["delta"], {}, {CATALOG: "org.apache.spark.sql.delta.catalog.DeltaCatalog", PARTITIONS: "2"}),
        (["delta"], {CATALOG: "my.Catalog", PARTITIONS: "9"}, {CATALOG: "my.Catalog", PARTITIONS: "9"}),
        (["iceberg"], {}, {CATALOG: None, "spark.sql.catalog.iceberg.warehouse": "/home/iceberg"}),
        (
            ["iceberg"],
            {"spark.sql.catalog.iceberg.warehouse": "/w"},
            {"spark.sql.catalog.iceberg.warehouse": "/w"},
        ),
    ],
)
def test_other_settings_are_defaults(formats, settings, expected):
    chosen = with_formats({}, settings, formats, "4.1.4", "/home")
    assert {key: chosen.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("name", "pyspark", "settings", "expected"),
    [
        ("delta", "4.9.0", {}, "Got: delta, with PySpark 4.9.0\n  Expected: PySpark 4.0 or 4.1 or 4.2"),
        (
            "iceberg",
            "4.0.0",
            {},
            "Got: iceberg, with PySpark 4.0.0\n  Expected: PySpark 4.1, for which iceberg has been tested",
        ),
        ("delta", "4.9.0", {PACKAGES: "a:b:1"}, PACKAGES),
    ],
)
def test_a_pyspark_that_was_not_tried_is_refused_by_name(name, pyspark, settings, expected):
    with pytest.raises(DbtRuntimeError) as raised:
        with_formats({}, settings, [name], pyspark, "/home")
    assert expected in raised.value.msg


def test_the_profiles_own_package_is_for_any_pyspark():
    own = "io.delta:delta-spark_4.9_2.13:9.0.0"
    assert with_formats({}, {PACKAGES: own}, ["delta"], "4.9.0", "/home")[PACKAGES] == own


def test_a_profile_may_list_exactly_the_known_formats():
    assert set(profile_keys.FORMATS) == FORMATS.keys()


def test_a_session_is_started_with_them_and_one_that_was_started_without_is_refused(monkeypatch):
    made = MvsinkCredentials(schema="s", formats=["delta"])
    monkeypatch.setattr("pyspark.__version__", "4.1.4")
    assert session_settings(made)[PACKAGES] == DELTA
    assert missing("", ["delta"]) == missing(ICEBERG_SQL, ["iceberg", "delta"]) == ["delta"]
    assert missing(f"{ICEBERG_SQL},{DELTA_SQL}", ["iceberg", "delta"]) == []


class Running:
    """A session's configuration."""

    def __init__(self, extensions):
        self.conf = {EXTENSIONS: extensions}


def test_a_running_session_without_a_format_is_an_error_that_names_it():
    profile = MvsinkCredentials(schema="s", formats=["delta", "iceberg"])
    require_formats(Running(f"{DELTA_SQL},{ICEBERG_SQL}"), profile)
    with pytest.raises(DbtRuntimeError, match="formats iceberg: this process already has a Spark session"):
        require_formats(Running(DELTA_SQL), profile)
