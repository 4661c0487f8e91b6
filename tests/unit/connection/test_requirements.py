"""Java and PySpark that are missing or too old: one sentence that says what to install."""

from __future__ import annotations

import sys

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.connection.java import check_java
from dbt.adapters.mvsink.credentials import MvsinkCredentials, check_pyspark

INSTALL = "install Java 17 or newer"


def fake_java(directory, output, mode=0o755):
    (directory / "bin").mkdir()
    java = directory / "bin" / "java"
    java.write_text(f"#!/bin/sh\nprintf '%s\\n' '{output}' >&2\n")
    java.chmod(mode)


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "21" 2023-09-19 LTS', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
    ],
)
def test_a_java_that_is_new_enough(monkeypatch, tmp_path, output, version):
    fake_java(tmp_path, output)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert check_java().version == version


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ('java version "1.8.0_292"', "Spark needs Java 17 or newer, {java} is Java 8"),
        ('openjdk version "11.0.2" 2019-01-15', "Spark needs Java 17 or newer, {java} is Java 11"),
        ("no such jvm", "{java} does not report its version (no such jvm)"),
    ],
)
def test_a_java_that_is_not(monkeypatch, tmp_path, output, message):
    fake_java(tmp_path, output)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert_refused(check_java, message.format(java=tmp_path / "bin" / "java"), INSTALL)


def test_no_java(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert_refused(check_java, f"JAVA_HOME={tmp_path} has no bin/java", INSTALL)
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert_refused(check_java, "no `java` on PATH", INSTALL)


def test_a_java_that_cannot_run(monkeypatch, tmp_path):
    fake_java(tmp_path, "", mode=0o644)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert_refused(check_java, "does not run (Permission denied)", INSTALL)


@pytest.mark.parametrize(
    "ask", [check_pyspark, lambda: MvsinkCredentials(schema="s")], ids=["directly", "by a profile"]
)
def test_no_pyspark_names_our_package_and_not_dbt_spark_s(monkeypatch, ask):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    message = assert_refused(ask, "method `session` needs PySpark", "pip install 'dbt-mvsink[session]'")
    assert "dbt-spark" not in message


def test_the_client_alone_is_not_enough_for_a_session(monkeypatch):
    monkeypatch.delattr("pyspark.SparkContext")
    assert_refused(check_pyspark, "only its Connect client", "`method: connect`", "'dbt-mvsink[session]'")


@pytest.mark.parametrize("version", ["3.5.1", "2.4", "3.5.0.dev0"])
def test_a_pyspark_that_is_too_old(monkeypatch, version):
    monkeypatch.setattr("pyspark.__version__", version)
    assert_refused(
        check_pyspark, f"needs PySpark 4.0 or newer, found {version}", "pip install 'dbt-mvsink[session]'"
    )


@pytest.mark.parametrize("version", ["4.0.0", "4.1.4", "4.2.0.dev1", "10.0"])
def test_a_pyspark_that_is_new_enough(monkeypatch, version):
    monkeypatch.setattr("pyspark.__version__", version)
    check_pyspark()


def assert_refused(action, *parts):
    with pytest.raises(DbtRuntimeError) as raised:
        action()
    message = raised.value.msg
    assert all(part in message for part in parts), message
    assert "\n" not in message, message
    return message
