"""A profile of a type and a schema: quiet, everything beside the project, and two terminals at
once.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

import pytest

from dbt.adapters.mvsink.connection.metastore import MetastoreLock, _is_java
from dbt.adapters.mvsink.shard import ShardClient
from tests.functional.connection.processes import Process, dbt, make_project, set_profile
from tests.support.processes import command_lines

pytestmark = pytest.mark.embedded("what a profile of a type and a schema starts")

MV = "{{ config(materialized='self_correcting_mv') }} "
SETTINGS = (
    MV + "select '${spark.master}' as master, '${spark.ui.enabled}' as ui, typeof(1 + '1') as sum, "
    "'${spark.own.setting}' as own, '${spark.sql.catalogImplementation}' as catalog, '${spark.sql.warehouse.dir}' as warehouse"
)
DBT_LINE = re.compile(r"\d\d:\d\d:\d\d  .*|\s*")


OPEN = "an open setting: a=b"
PROFILE = (
    "{type: mvsink, schema: s, server_side_parameters: {spark.own.setting: '" + OPEN + "', "
    "spark.sql.catalog.none.credential: me:hunter22}}"
)


def settings_of(project):
    """The row of the model `settings`."""
    with ShardClient().open_reader(str(project / ".mvsink" / "shards" / "s" / "settings")) as reader:
        (row,) = reader.snapshot(reader.state().upper.as_option() - 1).to_pylist()
    return row


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("default")


@pytest.fixture(scope="module")
def project(place):
    return make_project(place / "my project", {"settings": SETTINGS}, PROFILE)  # with a space, as many have


@pytest.fixture(scope="module")
def runs(place, project):
    """Two `dbt run`s at once, from a directory that is not the project's."""
    elsewhere, temporary = place / "elsewhere", place / "temporary"
    elsewhere.mkdir()
    temporary.mkdir()
    places = {"TMPDIR": str(temporary), "JDK_JAVA_OPTIONS": f"-Djava.io.tmpdir={temporary}"}
    both = [dbt(project, name, "run", cwd=elsewhere, **places) for name in ("one", "two")]
    while not any(map(java_of, both)) and any(run.popen.poll() is None for run in both):
        time.sleep(0.2)
    for run in both:
        run.end()
    return both


def java_of(run):
    """The command line of its Java with Spark, kept with the run; "" before there is one."""
    lines = command_lines(run.popen.pid).values()
    started = [line for line in lines if "SparkSubmit" in line and "-Xmx" in line and "launcher" not in line]
    run.java = started[0] if started else run.java
    return run.java


def test_row_j_no_setting_is_on_java_s_command_line(runs):
    (started,) = [run.java for run in runs if run.java]  # the other waits for the metastore
    assert "--properties-file" in started
    assert not [each for each in (OPEN, "hunter22", "--conf", "log4j2") if each in started]


def test_row_j_java_has_them_all_the_same_and_their_files_are_gone(runs, project):
    assert OPEN in settings_of(project)["own"]
    assert not [name for name in os.listdir(project / ".mvsink") if name.startswith("java-")]


def test_row_l_a_run_leaves_nothing_in_the_temporary_folder(runs, place):
    assert os.listdir(place / "temporary") == []


def test_two_runs_from_two_terminals_both_succeed(runs):
    assert [run.popen.returncode for run in runs] == [0, 0], [run.outputs for run in runs]
    assert all("PASS=1 " in run.out for run in runs)


def test_the_second_says_whom_it_waits_for(runs):
    waiting = [
        f"waiting for the embedded metastore, in use by process {run.popen.pid} on" in runs[1 - i].out
        for i, run in enumerate(runs)
    ]
    assert sorted(waiting) == [False, True], [run.out for run in runs]


def test_dbt_s_output_is_dbt_s_lines_and_nothing_else(runs):
    for run in runs:
        assert run.err == ""
        assert [line for line in run.out.splitlines() if not DBT_LINE.fullmatch(line)] == []
        assert "WARN " not in run.out and "Stage" not in run.out


def test_everything_is_beside_the_project_wherever_dbt_is_called_from(runs, place, project):
    assert os.listdir(place / "elsewhere") == []
    kept = set(os.listdir(project / ".mvsink"))
    assert {"metastore", "warehouse", "shards", "spark.log"} <= kept
    assert os.listdir(project / ".mvsink" / "warehouse") == ["s.db"]
    assert os.listdir(project / ".mvsink" / "shards") == ["s"]


def test_the_session_is_local_without_a_ui_and_with_spark_s_ansi_default(runs, project):
    row = settings_of(project)
    assert (row["master"], row["ui"], row["catalog"]) == ("local[*]", "false", "hive")
    assert row["sum"] == "bigint"  # without ANSI it is a double
    assert row["warehouse"].endswith("/my project/.mvsink/warehouse")


IN_MEMORY = """
import os, signal, sys
from dbt.cli.main import dbtRunner
from dbt.adapters.mvsink.connection.factory import EMBEDDED
def dbt(*arguments):
    return dbtRunner().invoke([*arguments, "--quiet", "--profiles-dir", "."])
assert dbt("run").success
print("catalog", EMBEDDED.running().conf.get("spark.sql.catalogImplementation"), flush=True)
from pyspark import SparkContext
jvm = SparkContext._gateway.proc
os.kill(jvm.pid, signal.SIGKILL)
jvm.wait()
print("then", dbt("run").exception, dbt("run").result, flush=True)
"""


@pytest.fixture(scope="module")
def in_memory(place):
    root = make_project(place / "in-memory", {"settings": SETTINGS})
    set_profile(
        root,
        "{type: mvsink, schema: s, server_side_parameters: {spark.sql.catalogImplementation: in-memory}}",
    )
    process = Process(place, "in-memory-run", "-c", IN_MEMORY, cwd=root)
    process.end()
    return root, process


def test_an_in_memory_catalog_needs_no_hive_and_takes_no_lock(in_memory):
    root, process = in_memory
    assert "catalog in-memory" in process.out, process.outputs
    assert {"metastore", "metastore.lock"} & set(os.listdir(root / ".mvsink")) == set()


def test_a_spark_that_was_killed_is_named_with_the_place_of_its_last_words(in_memory):
    root, process = in_memory
    assert (
        f"the embedded Spark has ended (exit code -9; out of memory?); its last messages are in {root}/.mvsink/spark.log"
        in process.out
    )


RESTARTED = """
import signal, time
from pyspark import SparkContext
from dbt.adapters.mvsink.credentials import MvsinkCredentials
from dbt.adapters.mvsink.connection.factory import EMBEDDED
credentials = MvsinkCredentials(schema="s", metastore_timeout=0)
first = EMBEDDED.session(credentials)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler  # PySpark's breaks the call that it interrupts
first.sql("show databases").collect()
first.stop()
assert EMBEDDED.session(credentials) is not first
EMBEDDED.session(credentials).sql("show databases").collect()
print("running on", SparkContext._gateway.proc.pid, flush=True)
time.sleep(600)
"""


def test_a_session_started_again_is_not_in_its_own_way_and_a_killed_holder_frees_the_metastore(place):
    """`acquire` returns when the killed process's Java has gone, not before."""
    holder = Process(place / "restarted", "holder", "-c", RESTARTED)
    holder.until("running on")
    lock = MetastoreLock(place / "restarted" / ".mvsink" / "metastore.lock")
    jvm = int(holder.out.split()[-1])
    assert lock._stored()["jvm"] == jvm and _is_java(jvm)
    holder.popen.kill()
    holder.end()
    lock.acquire(60, lambda _: None)
    try:
        assert not _is_java(jvm)
    finally:
        lock.release()


CARRIED = """
from dbt.adapters.mvsink.connection.factory import EMBEDDED
from dbt.adapters.mvsink.connection.embedded import CLUSTERS
from dbt.adapters.mvsink.credentials import MvsinkCredentials

session = EMBEDDED.session(MvsinkCredentials(schema="default"))
session.sql("create table t using parquet as select 1 a")
hadoop = session._jsparkSession.sessionState().newHadoopConf()
print(sum(hadoop.getPropsWithPrefix(prefix).size() for prefix in CLUSTERS))
"""


def test_no_defaults_of_clusters_once_hive_has_begun(tmp_path):
    """Hive loads files of Hadoop when the session's catalog is made: then all defaults are back."""
    ran = subprocess.run([sys.executable, "-c", CARRIED], cwd=tmp_path, capture_output=True, text=True)
    assert ran.stdout.splitlines()[-1:] == ["2"], ran
