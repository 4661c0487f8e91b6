"""What opening a connection to a server reports: no answer, another version, and why it failed."""

from __future__ import annotations

import logging
import socket
import threading
from types import SimpleNamespace

import pytest
from dbt.adapters.contracts.connection import Connection, ConnectionState
from dbt.adapters.exceptions.connection import FailedToConnectError
from dbt.adapters.spark.connections import PyhiveConnectionWrapper
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.connection import connect, thrift
from dbt.adapters.mvsink.connection.servers import in_time, require_spark_4
from dbt.adapters.mvsink.connections import MvsinkConnectionManager
from dbt.adapters.mvsink.credentials import MvsinkCredentials

SERVER = {"host": "127.0.0.1", "user": "ann"}


def connection(**options):
    written = {"schema": "s", "method": "thrift", "shard_root": "/shards", **SERVER, **options}
    MvsinkCredentials.validate(written)
    return Connection("mvsink", "c", MvsinkCredentials.from_dict(written))


@pytest.mark.parametrize(
    ("version", "refused"),
    [("3.5.9 a1b2", "3.5.9"), ("2.4.0", "2.4.0"), ("4.0.0 x", None), ("4.1.4", None), ("10.2", None), ("?", None)],
)  # fmt: skip
def test_an_older_spark_is_refused_with_its_version(version, refused):
    if refused is None:
        require_spark_4("the server x", version)
        return
    with pytest.raises(FailedToConnectError, match=f"the server x runs Spark {refused}, .* needs Spark 4.0"):
        require_spark_4("the server x", version)


def test_what_answers_in_time_is_returned_or_raised():
    assert in_time(lambda: 7, 30) == 7
    with pytest.raises(KeyError):
        in_time({}.popitem, 30)
    with pytest.raises(TimeoutError, match=r"^own$"):
        in_time(lambda: (_ for _ in ()).throw(TimeoutError("own")), 30)
    with pytest.raises(TimeoutError, match="no answer in 0 s"):
        in_time(threading.Event().wait, 0.1)


def test_a_server_that_accepts_and_says_nothing_is_reported(monkeypatch):
    """As a web server does that waits for the rest of a request."""
    monkeypatch.setattr(thrift, "OPENS_IN", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(FailedToConnectError) as raised:
            MvsinkConnectionManager.open(connection(port=port))
    assert f"no connection to the Thrift server 127.0.0.1:{port}: no answer in" in raised.value.msg
    assert "Check that a server of Spark 4 runs there, and `host`, `port`, `user`" in raised.value.msg


@pytest.mark.parametrize("options", [{}, {"use_ssl": True}])
def test_nothing_listens_and_thrift_s_client_prints_nothing_of_its_own(options, capfd, monkeypatch):
    monkeypatch.setattr(logging.getLogger("thrift.transport"), "level", logging.ERROR)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(FailedToConnectError) as raised:
        MvsinkConnectionManager.open(connection(port=port, **options))
    assert "Could not connect to any of [('127.0.0.1'" in raised.value.msg
    assert "attribute" not in raised.value.msg
    assert capfd.readouterr() == ("", "")


def wrapper(versions):
    """A connection of dbt-spark's whose server has these versions, one for each question."""
    asked = []

    class Cursor:
        description = [("version()", "STRING_TYPE")]

        def execute(self, sql, _, async_):
            asked.append(sql)

        def poll(self):
            return SimpleNamespace(operationState="FINISHED_STATE", errorMessage=None)

        def fetchall(self):
            return [(versions[len(asked) - 1],)]

        def close(self):
            asked.append("closed")

    handle = SimpleNamespace(cursor=Cursor, close=lambda: asked.append("gone"))
    return PyhiveConnectionWrapper(handle, poll_interval=0, query_retries=0), asked


def opened(versions):
    made, (handle, asked) = connection(port=1), wrapper(versions)

    def opens(connection):
        connection.handle, connection.state = handle, ConnectionState.OPEN
        return connection

    return made, lambda: thrift.open_thrift(opens, made), asked


@pytest.fixture
def unknown_servers(monkeypatch):
    monkeypatch.setattr(thrift, "_checked", set())
    names = ("INITIALIZED_STATE", "RUNNING_STATE", "PENDING_STATE", "FINISHED_STATE")
    monkeypatch.setattr(
        "dbt.adapters.spark.connections.ThriftState", SimpleNamespace(**{name: name for name in names})
    )


def test_a_thrift_server_of_another_version_is_refused_and_nothing_stays_open(unknown_servers):
    made, open_it, asked = opened(["3.5.9 abc"])
    with pytest.raises(FailedToConnectError, match=r"the Thrift server 127.0.0.1:1 runs Spark 3\.5\.9"):
        open_it()
    assert made.state == ConnectionState.FAIL and made.handle is None
    assert asked == ["select version()", "closed", "gone"]


def test_a_thrift_server_is_asked_for_its_version_once(unknown_servers):
    _, open_it, asked = opened(["4.1.4 abc", "4.1.4 abc"])
    open_it()
    open_it()
    assert asked == ["select version()"]


class Session:
    """A session of Spark Connect that refuses one setting."""

    def __init__(self, version, error=None):
        self.version, self.error, self.closed = version, error, False
        self.conf = self
        self.client = SimpleNamespace(
            disable_reattachable_execute=lambda: None,
            set_retry_policies=lambda _: None,
            close=lambda: setattr(self, "closed", True),
        )

    def set(self, name, value):
        if self.error and name == "spark.executor.memory":
            raise self.error


@pytest.mark.parametrize(
    ("session", "message"),
    [
        (Session("3.5.9"), "the Spark Connect server sc://host:15002 runs Spark 3.5.9, and dbt-mvsink needs"),
        (
            Session("4.1.4", ValueError("[CANNOT_MODIFY_CONFIG] no")),
            "refuses a setting of `server_side_parameters`, spark.executor.memory: [CANNOT_MODIFY_CONFIG] no\n  Correct it",
        ),
        (Session("4.1.4", ValueError("UNAVAILABLE: gone")), "no session on the Spark Connect server"),
    ],
)
def test_what_is_wrong_with_a_connect_server_is_what_the_message_says(monkeypatch, session, message):
    from pyspark.sql.connect.session import SparkSession

    monkeypatch.setattr(SparkSession.Builder, "create", lambda _: session)
    settings = {"spark.sql.ansi.enabled": "true", "spark.executor.memory": "1g"}
    profile = MvsinkCredentials(
        schema="s", method="connect", remote="sc://host:15002", shard_root="/s", server_side_parameters=settings
    )  # fmt: skip
    with pytest.raises(FailedToConnectError) as raised:
        connect.open_connect(profile)
    assert message in raised.value.msg
    assert session.closed


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("SSL_ERROR_SSL: CERTIFICATE_VERIFY_FAILED: self signed", "Set GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"),
        ("SSL_ERROR_SSL: WRONG_VERSION_NUMBER", "speaks no TLS: leave out `use_ssl` and `token`"),
        ("Invalid authentication token", "Check `token`"),
        ("Connection refused", "Check `remote` (a server of Spark 4 runs there)"),
    ],
)
def test_the_advice_is_that_of_the_reason(reason, advice):
    assert advice in connect._advice(reason)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "http", "token": None}, "profile: token\n  Got: None"),
        ({"method": "http", "cluster": None}, "profile: cluster\n  Got: None"),
        ({"method": "http", "query_retries": 2}, "profile: query_retries\n  Got: 2\n  Expected: 0: a statement"),
        ({"query_retries": 1}, "profile: query_retries\n  Got: 1\n  Expected: 0: a statement"),
    ],
)  # fmt: skip
def test_what_is_missing_or_would_send_a_statement_twice_is_refused(options, message):
    written = {"token": "daffodil", "cluster": "local", **options}
    with pytest.raises(DbtRuntimeError) as raised:
        connection(**{key: value for key, value in written.items() if value is not None})
    assert message in raised.value.msg and "daffodil" not in str(raised.value)
