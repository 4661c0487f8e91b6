"""A project over a Thrift server, what its errors say and its values are, and the server killed
in the middle of a statement.
"""

from __future__ import annotations

import datetime
import threading
import time
from decimal import Decimal

import pytest
from dbt.adapters.exceptions.connection import FailedToConnectError
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from tests.functional.materialization.base import responses
from tests.support.spark_servers import thrift_server

EVENTS = "{{{{ config(materialized='self_correcting_mv') }}}} select id, name, date'2026-01-01' as day from {{{{ ref('people') }}}}{}"
TASK = """{{ config(materialized='continual_task') }}
on input {{ ref('events') }} as (insert into {{ this }} select id, name from {{ ref('events') }})"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with thrift_server(tmp_path_factory.mktemp("thrift") / "server") as running:
        yield running


@pytest.fixture(scope="module")
def dbt_profile_target(server, tmp_path_factory):
    shards = str(tmp_path_factory.mktemp("thrift_shards"))
    target = {"type": "mvsink", "method": "thrift", "host": "127.0.0.1", "port": server.port, "user": "dbt"}
    return {**target, "threads": 1, "shard_root": shards}


class TestOverThrift:
    @pytest.fixture(scope="class")
    def seeds(self):
        return {"people.csv": "id,name\n1,Ann\n2,\n3,Zoë\n"}

    @pytest.fixture(scope="class")
    def models(self):
        return {
            "events.sql": EVENTS.format(""),
            "counted.sql": "{{ config(materialized='self_correcting_mv') }} select name, count(*) n from {{ ref('events') }} group by name",
            "task.sql": TASK,
            "plain.sql": "{{ config(materialized='table') }} select max(day) as last from {{ ref('events') }}",
            "broken.sql": "{{ config(materialized='self_correcting_mv', enabled=var('broken', false)) }} select id / (id - 2) q from {{ ref('people') }}",
        }  # fmt: skip

    def rows(self, project, query):
        return sorted(map(tuple, project.run_sql(query.format(s=project.test_schema), fetch="all")), key=repr)

    def test_a_project(self, project, monkeypatch):
        run_dbt(["build"])
        assert responses(project)["events"]["rows_inserted"] == 3
        assert self.rows(project, "select id, name from {s}.events") == [(1, "Ann"), (2, None), (3, "Zoë")]
        assert self.rows(project, "select * from {s}.plain") == [(datetime.date(2026, 1, 1),)]
        write_file(EVENTS.format(" where id <> 1"), project.project_root, "models", "events.sql")
        pauses, sleep = [], time.sleep
        monkeypatch.setattr(time, "sleep", lambda seconds: (pauses.append(seconds), sleep(seconds)))
        run_dbt(["run"])
        assert max(pauses, default=0) < 5, "no statement is asked for only every 5 seconds"
        assert responses(project)["events"]["_message"].startswith("+0 -1 at 20")
        assert self.rows(project, "select * from {s}.counted") == [("Zoë", 1), (None, 1)]
        assert self.rows(project, "select * from {s}.task") == [(1, "Ann"), (2, None), (3, "Zoë")]
        run_dbt(["run", "--select", "counted"])
        assert "(inputs unchanged)" in responses(project)["counted"]["_message"]
        _, shown = run_dbt_and_capture(["show", "--select", "counted", "--limit", "1"])
        assert "| name" in shown

    def test_a_failing_model_is_said_in_one_line(self, project):
        results = run_dbt(["run", "--select", "broken", "--vars", "{broken: true}"], expect_pass=False)
        [message] = [result.message for result in results]
        assert "[DIVIDE_BY_ZERO]" in message and "SQLSTATE: 22012" in message, message
        assert "\tat " not in message and "org.apache" not in message and len(message.splitlines()) < 5, (
            message
        )

    ERRORS = {
        "select * from nope": "[TABLE_OR_VIEW_NOT_FOUND] The table or view `nope` cannot be found. Verify",
        "selec 1": "[PARSE_SYNTAX_ERROR] Syntax error at or near 'selec'. SQLSTATE: 42601",
        "select 1/0": "[DIVIDE_BY_ZERO] Division by zero.",
        "select raise_error('it is\nwrong')": "[USER_RAISED_EXCEPTION] it is wrong SQLSTATE: P0001",
        "select * from parquet.`/no/where`": "[PATH_NOT_FOUND] Path does not exist: file:/no/where. SQLSTATE: 42K03",
    }

    @pytest.mark.parametrize("statement", ERRORS)
    def test_a_statement_s_error_is_one_line(self, project, statement):
        with project.adapter.connection_named("test"), pytest.raises(Exception) as caught:
            project.adapter.execute(statement)
        message = caught.value.msg
        assert message.startswith(self.ERRORS[statement]) and "SQLSTATE: " in message
        assert "\n" not in message

    def test_values(self, project):
        query = (
            "select date'2026-01-02' a, timestamp'2026-01-02 03:04:05.000006' b, 1.50BD c, array(1, null) d, map('k', 1) e, "
            "named_struct('x', date'2026-01-02') f, cast(null as date) g, date'0001-01-01' h, true i, 1.5D j"
        )
        [row] = self.rows(project, query)
        assert row == (
            datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2, 3, 4, 5, 6), Decimal("1.50"), "[1,null]", '{"k":1}',
            '{"x":2026-01-02}', None, datetime.date(1, 1, 1), True, 1.5,
        )  # fmt: skip

    def test_no_statement_is_repeated_after_the_server_is_lost(self, project, server):
        """The last one: the server is not started again."""
        threading.Timer(3, server.process.kill).start()
        slow = "select count(*) from range(10000000000000) where sqrt(id) < 0"
        with project.adapter.connection_named("test"):
            with pytest.raises(
                Exception,
                match=r"the Thrift server 127\.0\.0\.1\S* cannot be reached any more .*run again",
            ):
                project.adapter.execute(slow)
            project.adapter.connections.get_thread_connection().state = "closed"
        with pytest.raises(
            FailedToConnectError, match=rf"no connection to the Thrift server 127\.0\.0\.1:{server.port}: "
        ):
            project.run_sql("select 1")
