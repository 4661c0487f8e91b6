"""What the embedded session says of itself is remembered as long as it stays as it is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.adapter.dbt_engine import AdapterEngine
from dbt.adapters.mvsink.connection.cursor import SessionConnection
from dbt.adapters.mvsink.connection.factory import EMBEDDED
from dbt.adapters.mvsink.credentials import MvsinkCredentials
from dbt.adapters.mvsink.engine.session import session_of, session_settings

pytestmark = pytest.mark.embedded("a server's connections have sessions of their own")


class Invocation(AdapterEngine):
    """An engine whose adapter is new, as in each invocation; it counts its queries."""

    def __init__(self, connection):
        super().__init__(SimpleNamespace(session_facts={}, connections=self), "m")
        self.connection, self.sent = connection, []

    def get_thread_connection(self):
        return SimpleNamespace(handle=self.connection)

    def query(self, query, what):
        self.sent.append(query)
        cursor = self.connection.cursor()
        cursor.execute(query)
        return [tuple(row) for row in cursor.fetchall()]

    def all(self):
        return session_settings(self), session_of(self)


@pytest.fixture
def begin(spark, shard_root):
    connection = SessionConnection(EMBEDDED, MvsinkCredentials(schema="default", shard_root=str(shard_root)))
    yield lambda: Invocation(connection)
    connection.close()


def changed_by(spark, statement, back, begin):
    before = begin().all()
    spark.sql(statement)  # past the adapter
    try:
        changed = begin()
        assert changed.all() != before and len(changed.sent) == 2
        assert changed.all() == begin().all()
    finally:
        spark.sql(back)
    again = begin()
    assert again.all() == before and again.sent == []


def test_an_invocation_asks_for_what_is_not_known_of_the_session_as_it_is(spark, begin):
    begin().all()
    known = begin()
    assert known.all() == begin().all() and known.sent == []
    changed_by(
        spark, "set spark.sql.session.timeZone = Asia/Tokyo", "reset spark.sql.session.timeZone", begin
    )
    changed_by(spark, "set spark.sql.ansi.enabled = false", "reset spark.sql.ansi.enabled", begin)
    spark.sql("create schema if not exists session_facts")
    changed_by(spark, "use session_facts", "use default", begin)
    spark.sql("drop schema session_facts")


def test_what_another_thread_changes_meanwhile_is_not_remembered(spark, begin, monkeypatch):
    key = "spark.sql.session_facts"
    first = begin()
    query = first.query

    def changed_while_asked(text, what):
        spark.conf.set(key, "1")
        return query(text, what)

    monkeypatch.setattr(first, "query", changed_while_asked)
    spark.conf.set("spark.sql.session_facts.new", "x")  # nothing is known of this session
    try:
        assert session_settings(first)[key] == "1"
        spark.conf.unset(key)
        assert key not in session_settings(begin())
    finally:
        spark.conf.unset(key)
        spark.conf.unset("spark.sql.session_facts.new")
