"""Profiles on the shared session: ANSI, several in one process, threads, and `dbt debug`."""

from __future__ import annotations

import os
import re
from importlib.metadata import version

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture

from dbt.adapters.mvsink.connection.cursor import SessionConnection

CAST = "{{ config(materialized='table') }} select cast('x' as int) as n, typeof(1 + '1') as sum"
BUCKETS = "spark.sql.shuffle.partitions"
SHOWN = {
    "session": ["method", "schema", "shard_root", "read_only"],
    "warm": ["method", "schema", "session", "shard_root", "read_only"],
    "connect": ["method", "remote", "schema", "shard_root", "read_only"],
    "thrift": ["method", "host", "schema", "shard_root", "read_only"],
}


class TestAnsi:
    @pytest.fixture(scope="class")
    def models(self):
        return {"cast.sql": CAST}

    def test_spark_s_default_holds(self, project):
        (result,) = run_dbt(["run"], expect_pass=False)
        assert "CAST_INVALID_INPUT" in result.message


@pytest.mark.embedded(
    "one session for all profiles of the process; test_connect has a profile's own settings"
)
class TestAnsiOff:
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target):
        return {**dbt_profile_target, "server_side_parameters": {"spark.sql.ansi.enabled": False, BUCKETS: 7}}

    @pytest.fixture(scope="class")
    def models(self):
        return {"cast.sql": CAST}

    def test_server_side_parameters_decide_and_hold_for_their_profile_only(
        self, project, spark, profiles_root
    ):
        run_dbt(["run"])
        assert [
            tuple(row) for row in project.run_sql(f"select * from {project.test_schema}.cast", fetch="all")
        ] == [(None, "double")]
        assert (spark.conf.get("spark.sql.ansi.enabled"), spark.conf.get(BUCKETS)) == ("false", "7")
        self.next_profile_in_this_process(project, profiles_root)
        assert (spark.conf.get("spark.sql.ansi.enabled"), spark.conf.get(BUCKETS)) == ("true", "2")

    def next_profile_in_this_process(self, project, profiles_root):
        path = os.path.join(profiles_root, "profiles.yml")
        with open(path) as file:
            text = file.read()
        kept = "\n".join(
            line for line in text.split("\n") if "spark.sql" not in line and "server_side" not in line
        )
        assert kept != text
        with open(path, "w") as file:
            file.write(kept)
        (result,) = run_dbt(["run"], expect_pass=False)
        assert "CAST_INVALID_INPUT" in result.message


@pytest.mark.embedded("tags of jobs are asked for in Java")
class TestThreads:
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target):
        return {**dbt_profile_target, "threads": 4}

    @pytest.fixture(scope="class")
    def models(self):
        kinds = ["table", "self_correcting_mv"] * 4
        return {
            f"m{i}.sql": f"{{{{ config(materialized='{kind}') }}}} select {i} as i, count(*) as n from range(1000)"
            for i, kind in enumerate(kinds)
        }

    def test_eight_models_on_one_session_each_under_its_own_tag(self, project, spark, monkeypatch):
        made = []
        init = SessionConnection.__init__

        def noted(self, *arguments):
            init(self, *arguments)
            made.append(self)

        monkeypatch.setattr(SessionConnection, "__init__", noted)
        results = run_dbt(["run"])
        assert [result.status for result in results] == ["success"] * 8
        assert len({timing.thread_id for timing in results}) > 1
        for i in range(8):
            assert project.run_sql(f"select i, n from {project.test_schema}.m{i}", fetch="one") == (i, 1000)
        tracker = spark.sparkContext._jsc.sc().statusTracker()
        jobs = [job for connection in made for job in tracker.getJobIdsForTag(connection.tag)]
        assert len(jobs) == len(set(jobs)), "a job under two connections' tags"
        assert sum(1 for connection in made if len(tracker.getJobIdsForTag(connection.tag))) >= 8
        assert {connection.session for connection in made} == {spark}


class TestDebug:
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target, tmp_path_factory):
        root = tmp_path_factory.mktemp("debug")
        secret = {"AWS_SECRET_ACCESS_KEY": "hunter2"}
        return {**dbt_profile_target, "shard_root": str(root / "new" / "shards"), "storage_options": secret}

    def test_it_passes_shows_no_secret_and_leaves_nothing(self, project, dbt_profile_target, method):
        _, out = run_dbt_and_capture(["debug"])
        assert "Connection test: [OK connection ok]" in out.replace("\x1b[32m", "").replace("\x1b[0m", "")
        shown = out.split("Connection:")[1].split("Registered adapter")[0]
        assert sorted(re.findall(r"  (\w+): ", shown)) == sorted(SHOWN[method])
        assert "hunter2" not in out
        runs = {"session": ", Java ", "connect": ", a client of Spark Connect: OK"}
        assert method not in runs or f"PySpark {version('pyspark')}{runs[method]}" in out
        assert f"shard root {dbt_profile_target['shard_root']}: compare-and-append OK" in out
        assert not os.path.exists(os.path.dirname(dbt_profile_target["shard_root"]))

    def test_it_leaves_what_was_there(self, project, dbt_profile_target):
        os.makedirs(dbt_profile_target["shard_root"])
        run_dbt(["debug"])
        assert os.listdir(dbt_profile_target["shard_root"]) == []


class TestDebugCannotWrite:
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target, tmp_path_factory):
        file = tmp_path_factory.mktemp("debug") / "file"
        file.write_text("in the way")
        return {**dbt_profile_target, "shard_root": str(file / "shards")}

    def test_it_names_the_place(self, project, dbt_profile_target):
        _, out = run_dbt_and_capture(["debug"], expect_pass=False)
        assert f"cannot write a shard below shard_root {dbt_profile_target['shard_root']}: " in out
        assert "Traceback" not in out


class TestDebugWrongProfile:
    def test_a_profile_that_cannot_be_is_got_and_expected(self, project, profiles_root):
        path = os.path.join(profiles_root, "profiles.yml")
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text.replace("type: mvsink", "type: mvsink\n      read_only: 'yes'"))
        try:
            _, out = run_dbt_and_capture(["debug"], expect_pass=False)
        finally:
            with open(path, "w") as file:
                file.write(text)
        for part in ("profile: read_only", "Got: 'yes'", "Expected: true or false"):
            assert part in out
