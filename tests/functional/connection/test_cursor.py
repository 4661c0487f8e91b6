"""A connection on the shared session: statements, fetching, bindings, job tags, cancelling."""

from __future__ import annotations

import datetime as dt
import re
import threading
import uuid
from contextlib import closing
from decimal import Decimal

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.connection.connect import open_connect
from dbt.adapters.mvsink.connection.cursor import SessionConnection
from dbt.adapters.mvsink.connection.factory import CONNECTIONS, EMBEDDED
from dbt.adapters.mvsink.credentials import MvsinkCredentials
from tests.support.waiting import wait_for

LONG = "select count(*) from range(10000000000000) where id % 7 = 3"  # hours
ROWS = "select id, cast(id as string) as name from range(0, 5, 1, 2)"


@pytest.fixture
def connection(spark, shard_root, method, request):
    place = {"schema": "default", "shard_root": str(shard_root)}
    if method == "connect":
        made = open_connect(MvsinkCredentials(**place, **request.getfixturevalue("server")))
    elif method == "warm":
        made = CONNECTIONS["session"](MvsinkCredentials(**place))
    else:
        made = SessionConnection(EMBEDDED, MvsinkCredentials(**place))
    yield made
    made.close()
    if method == "session":
        spark.sparkContext.cancelJobsWithTag(made.tag)


def ids(rows):
    return [row[0] for row in rows]


def jobs(spark, tag):
    return set(spark.sparkContext._jsc.sc().statusTracker().getJobIdsForTag(tag))


def active(spark, tag):
    return jobs(spark, tag) & set(spark.sparkContext.statusTracker().getActiveJobsIds())


def our_tags(spark):
    return {tag for tag in spark.sparkContext.getJobTags() if tag.startswith("dbt-mvsink")}


class TestFetching:
    @pytest.mark.embedded("over Spark Connect a statement's rows are fetched only once")
    def test_each_row_is_fetched_once_whatever_it_is_fetched_with(self, connection):
        cursor = connection.cursor()
        cursor.execute(ROWS)
        assert tuple(cursor.fetchone()) == (0, "0")
        assert ids(cursor.fetchmany(2)) == [1, 2]
        assert ids(cursor.fetchall()) == [3, 4]
        assert (cursor.fetchall(), cursor.fetchmany(1), cursor.fetchone()) == ([], [], None)

    def test_all_at_once(self, connection):
        connection.execute(ROWS)
        assert ids(connection.fetchall()) == [0, 1, 2, 3, 4]
        assert (connection.fetchall(), connection.fetchone()) == ([], None)

    def test_more_than_there_are(self, connection):
        connection.execute(ROWS)
        assert ids(connection.fetchmany(100)) == [0, 1, 2, 3, 4]
        assert (connection.fetchmany(1), connection.fetchall()) == ([], [])

    @pytest.mark.embedded("over Spark Connect a statement's rows are fetched only once")
    def test_the_first_rows_of_much_do_not_compute_the_rest(self, connection):
        connection.execute("select if(id = 3, raise_error('too far'), id) from range(0, 4, 1, 4)")
        assert ids(connection.fetchmany(2)) == [0, 1]
        with pytest.raises(Exception, match="too far"):
            connection.fetchall()

    def test_nothing_was_executed(self, connection):
        assert (
            connection.fetchall(),
            connection.fetchmany(2),
            connection.fetchone(),
            connection.description,
        ) == (
            [],
            [],
            None,
            [],
        )

    def test_a_new_statement_and_a_new_cursor_forget_the_last_rows(self, connection):
        connection.execute(ROWS)
        assert connection.fetchone() is not None
        connection.execute("select 7 as seven")
        assert ids(connection.fetchall()) == [7]
        connection.execute(ROWS)
        assert connection.cursor().fetchall() == []

    def test_description_is_name_type_and_nullability(self, connection):
        connection.execute("select 1 as one, cast(null as decimal(10, 2)) as d, array('a') as a;")
        assert [(c[0], c[1], c[6]) for c in connection.description] == [
            ("one", "int", False),
            ("d", "decimal(10,2)", True),
            ("a", "array<string>", False),
        ]
        assert {len(column) for column in connection.description} == {7}

    def test_a_statement_without_rows(self, connection):
        connection.execute(f"create database if not exists d{uuid.uuid4().hex}")
        assert (connection.fetchall(), connection.description) == ([], [])


class TestBindings:
    VALUES = (
        "it's \\ a\nline",
        "",
        None,
        True,
        2**53 + 1,
        Decimal("1.10"),
        0.1,
        dt.date(2026, 11, 21),
        dt.datetime(2026, 11, 21, 7, 5, 3, 123456),
    )

    def test_every_value_comes_back_as_it_is(self, connection):
        connection.execute("select " + ", ".join(["%s"] * len(self.VALUES)), list(self.VALUES))
        assert tuple(connection.fetchone()) == self.VALUES

    def test_without_bindings_a_percent_is_a_percent(self, connection):
        connection.execute("select 'a%s' like 'a%'")
        assert ids(connection.fetchall()) == [True]


class TestErrors:
    """dbt-spark's cursor swallows them in its `__exit__`."""

    @pytest.mark.parametrize("sql", ["select no_such_column", "selec", "select * from no_such_table"])
    def test_of_analysis(self, connection, sql):
        connection.execute(ROWS)
        with pytest.raises(Exception, match="SQLSTATE: 42"), closing(connection.cursor()) as cursor:
            cursor.execute(sql)
        assert connection.fetchall() == []  # never the rows of the statement before

    def test_of_running(self, connection):
        with pytest.raises(Exception, match="no such luck"), closing(connection.cursor()) as cursor:
            cursor.execute("select raise_error('no such luck')")
            cursor.fetchall()

    @pytest.mark.parametrize("raised", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3)])
    def test_of_the_code_that_uses_it(self, connection, raised):
        with pytest.raises(type(raised)) as caught, closing(connection.cursor()) as cursor:
            cursor.execute(ROWS)
            raise raised
        assert caught.value is raised

    def test_ansi_is_on(self, connection):
        connection.execute("select cast('x' as int)")
        with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
            connection.fetchall()


@pytest.mark.embedded("tags of jobs are asked for in Java")
class TestJobs:
    def test_a_statement_s_jobs_carry_the_connection_s_tag_and_no_other_s(self, spark, connection):
        # the thread's last connection
        other = SessionConnection(EMBEDDED, MvsinkCredentials(schema="default", shard_root="/"))
        other.execute(ROWS)
        other.fetchall()
        connection.execute(f"create table default.t{uuid.uuid4().hex} as {ROWS}")
        # a broadcast: two threads, two jobs
        connection.execute(f"select count(*) from range(10) r join ({ROWS}) using (id)")
        connection.fetchall()
        assert len(jobs(spark, connection.tag)) >= 3
        assert len(jobs(spark, other.tag)) >= 1
        assert jobs(spark, connection.tag) & jobs(spark, other.tag) == set()
        assert our_tags(spark) == set()

    def test_a_failed_statement_leaves_no_tag(self, spark, connection):
        with pytest.raises(Exception, match="SQLSTATE"):
            connection.execute("selec")
        assert our_tags(spark) == set()

    def test_a_description_is_the_next_cursor_s_only(self, spark, connection):
        described = []
        connection.describe_job("mv_sink(s.m)::write")
        for _ in range(2):
            connection.cursor().execute(ROWS)
            connection.fetchall()
            (job, *_) = sorted(jobs(spark, connection.tag), reverse=True)
            data = spark.sparkContext._jsc.sc().statusStore().job(job)
            described.append(data.description().get() if data.description().isDefined() else None)
        assert described[0] == "mv_sink(s.m)::write" and described[1] != "mv_sink(s.m)::write"
        assert spark.sparkContext.getLocalProperty("spark.job.description") is None


class Running:
    """A statement in a thread of its own, as dbt runs one."""

    def __init__(self, connection, sql=LONG):
        self.connection, self.error = connection, None
        self.thread = threading.Thread(target=self._run, args=(sql,), daemon=True)
        self.thread.start()

    def _run(self, sql):
        try:
            self.connection.cursor().execute(sql)
            self.connection.fetchall()
        except Exception as error:
            self.error = error

    def ended(self):
        self.thread.join(60)
        return not self.thread.is_alive()


def test_a_statement_is_cancelled(connection):
    """Over every kind of connection; whether its jobs end is the subject of `TestCancelling`."""
    statement = Running(connection)
    wait_for(connection._busy.is_set, "it runs")
    connection.cancel()
    assert statement.ended() and re.search("cancell?ed", str(statement.error).lower())


@pytest.mark.embedded("the state of jobs is asked for in Java")
class TestCancelling:
    def test_one_connection_s_jobs_and_no_other_s(self, spark, connection, shard_root):
        other = SessionConnection(EMBEDDED, MvsinkCredentials(schema="default", shard_root=str(shard_root)))
        one, two = Running(connection), Running(other)
        try:
            wait_for(lambda: active(spark, connection.tag) and active(spark, other.tag), "both run")
            connection.cancel()
            assert one.ended()
            assert "cancelled" in str(one.error)
            wait_for(lambda: not active(spark, connection.tag), "no job of the tag")
            assert active(spark, other.tag) and two.error is None
        finally:
            connection.cancel()
            other.cancel()
        assert two.ended() and "cancelled" in str(two.error)
        wait_for(lambda: not active(spark, other.tag), "no job of the tag")

    def test_a_statement_that_has_no_job_yet(self, spark, connection):
        """Cancelled while it is analyzed: its jobs are stopped when they come."""
        analyzing, go_on = threading.Event(), threading.Event()

        def slowly(text):
            analyzing.set()
            assert go_on.wait(60)
            return spark.sql(f"create table default.t{uuid.uuid4().hex} as {text}")

        connection._sent = slowly
        statement = Running(connection)
        assert analyzing.wait(60)
        connection.cancel()
        go_on.set()
        assert statement.ended() and "cancelled" in str(statement.error)
        wait_for(lambda: not active(spark, connection.tag), "no job of the tag")

    def test_nothing_is_begun_after_it(self, spark, connection):
        connection.execute(ROWS)
        connection.cancel()
        for action in (connection.fetchall, connection.fetchone, lambda: connection.execute("select 1")):
            with pytest.raises(DbtRuntimeError, match="cancelled"):
                action()
        assert jobs(spark, connection.tag) == set() and our_tags(spark) == set()

    def test_an_interrupted_statement_stops_its_jobs(self, spark, connection):
        """`--single-threaded`: the interrupt is raised in the thread that awaits the statement."""
        statement = Running(connection)
        wait_for(lambda: active(spark, connection.tag), "it runs")

        def interrupted(text):
            raise KeyboardInterrupt

        connection._sent = interrupted
        with pytest.raises(KeyboardInterrupt):
            connection.execute("select 1")
        assert statement.ended() and "cancelled" in str(statement.error)
        spark.sparkContext.clearJobTags()
