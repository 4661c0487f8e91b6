"""What dbt reports if Java or PySpark is missing. Commands that need no Spark start none, and miss
nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from dbt.adapters.mvsink.connection.metastore import MetastoreLock
from tests.functional.connection.processes import Process, dbt, make_project, set_profile

MODEL = "{{ config(materialized='self_correcting_mv') }} select 1 as one"
COMMANDS = """
import os, sys
import pyspark
from dbt.cli.main import dbtRunner
from dbt.adapters.mvsink.connection.factory import EMBEDDED

def invoke(name, *arguments):
    print("=====", name, flush=True)
    done = dbtRunner().invoke([*arguments, "--profiles-dir", "."])
    print("success" if done.success else "failure", done.exception, flush=True)

os.environ["JAVA_HOME"] = "none"
invoke("parse", "parse")
invoke("ls", "ls")
invoke("compile", "compile", "--no-introspect", "--no-populate-cache")
invoke("run without java", "run")
os.environ["JAVA_HOME"] = "old"
invoke("debug with java 8", "debug")
sys.modules["pyspark"], kept = None, sys.modules["pyspark"]
invoke("run without pyspark", "run")
sys.modules["pyspark"] = kept
pyspark.__version__ = "3.5.1"
invoke("run with pyspark 3.5.1", "run")
assert EMBEDDED.running() is None
"""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    place = tmp_path_factory.mktemp("requirements")
    root = make_project(place / "p", {"mv": MODEL})
    (root / "none").mkdir()
    (root / "old" / "bin").mkdir(parents=True)
    java = root / "old" / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_292\"' >&2\n")
    java.chmod(0o755)
    process = Process(place, "commands", "-c", COMMANDS, cwd=root)
    assert process.end() == 0, process.outputs
    assert not (root / ".mvsink").exists()  # no session, no metastore, no log
    return {part.split("\n", 1)[0]: part for part in process.out.split("===== ")[1:]}


@pytest.mark.parametrize("command", ["parse", "ls", "compile"])
def test_what_needs_no_spark_starts_none(outputs, command):
    assert "success None" in outputs[command], outputs[command]


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (
            "run without java",
            "Spark needs Java, and none was found (JAVA_HOME=none has no bin/java): install Java 17 or newer",
        ),
        (
            "debug with java 8",
            "Spark needs Java 17 or newer, old/bin/java is Java 8: install Java 17 or newer",
        ),
        ("run without pyspark", "method `session` needs PySpark, and it cannot be imported"),
        ("run without pyspark", "pip install 'dbt-mvsink[session]'"),
        (
            "run with pyspark 3.5.1",
            "dbt-mvsink needs PySpark 4.0 or newer, found 3.5.1: pip install 'dbt-mvsink[session]'",
        ),
    ],
)
def test_what_is_missing_is_one_sentence(outputs, command, sentence):
    assert sentence in outputs[command], outputs[command]
    assert "success" not in outputs[command] and "Traceback" not in outputs[command]


@pytest.fixture
def locked_project(tmp_path):
    """A project whose metastore this process holds."""
    root = make_project(tmp_path / "p", {"mv": MODEL})
    lock = MetastoreLock(root / ".mvsink" / "metastore.lock")
    lock.acquire(0, pytest.fail)
    yield root
    lock.release()


@pytest.mark.seldom
def test_a_metastore_that_stays_in_use_is_an_error_naming_its_holder_and_the_alternatives(locked_project):
    set_profile(locked_project, "{type: mvsink, schema: s, metastore_timeout: 0.5}")
    run = dbt(locked_project, "run", "run")
    assert run.end() == 2, run.outputs
    for part in (
        f"in use by process {os.getpid()} on ",
        "`metastore_timeout`",
        "spark.hadoop.hive.metastore.uris",
        "ConnectionURL",
    ):
        assert part in run.out.split("Encountered an error")[1], run.outputs


@pytest.mark.seldom
def test_ctrl_c_while_waiting_for_the_metastore(locked_project):
    run = dbt(locked_project, "run", "run")
    run.until(f"waiting for the embedded metastore, in use by process {os.getpid()}")
    run.popen.send_signal(signal.SIGINT)
    try:
        assert run.popen.wait(100) != 0
    except subprocess.TimeoutExpired:
        run.popen.kill()
        pytest.fail(f"still waiting:\n{run.outputs}")
    assert "KeyboardInterrupt" in run.out, run.outputs
