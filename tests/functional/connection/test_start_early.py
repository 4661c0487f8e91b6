"""A dbt command that needs no Spark after all ends while Spark starts, and leaves no Java."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.functional.connection.processes import Process, make_project
from tests.support.waiting import wait_for

pytestmark = pytest.mark.embedded("Spark starts in this process only there")

# It says its version, and then never answers; like Java, it ends with the process that started it.
JAVA = """#!/bin/sh
case "$*" in
  *version*) exec '{java}' "$@" ;;
  *) echo started >> '{log}'; cat > /dev/null; echo ended >> '{log}' ;;
esac
"""
# Parsing would be over before Java has begun.
DBT = """
import time
from pathlib import Path
from dbt.cli.main import cli
from dbt.parser.manifest import ManifestLoader

load = ManifestLoader.load


def loaded(self):
    while not Path({log!r}).exists():
        time.sleep(0.01)
    return load(self)


ManifestLoader.load = loaded
cli()
"""


def test_a_parse_error_does_not_wait_for_spark(tmp_path):
    java, log = tmp_path / "java" / "bin" / "java", tmp_path / "java.log"
    java.parent.mkdir(parents=True)
    home = os.environ.get("JAVA_HOME")
    real = f"{home}/bin/java" if home else shutil.which("java")
    java.write_text(JAVA.format(java=real, log=log))
    java.chmod(0o755)
    root = make_project(tmp_path / "p", {"mv": "select {{ nothing( }}"})
    arguments = ("-c", DBT.format(log=str(log)), "run", "--profiles-dir", ".")
    process = Process(tmp_path, "run", *arguments, cwd=root, JAVA_HOME=str(java.parents[1]))
    assert process.end() == 2
    assert "Compilation Error in model mv" in process.out
    wait_for(lambda: log.read_text().split() == ["started", "ended"], "the end of Java")
