"""The witness over real servers: how many of the repository's texts are read alike by Spark, by the
texts of plans that a Connect and a Thrift server print.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager

import pytest
from pyhive import hive
from pyspark.sql import SparkSession

from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.engine.plan_text import same_text
from dbt.adapters.mvsink.incremental import Analysed, analyse, claims
from tests.support.spark_servers import connect_server, thrift_server
from tests.unit.incremental.test_texts import SETS, operators, schema, texts

pytestmark = [pytest.mark.seldom, pytest.mark.timeout(3000)]


class Statements:
    """What `same_text` needs of an engine. ``run`` sends a statement and gives its rows."""

    def __init__(self, run):
        self.run = run

    def query(self, query, what):
        try:
            return self.run(query)
        except Exception as error:
            raise EngineError(str(error)) from error

    execute = query

    @contextmanager
    def settings(self, wanted):
        for key, value in wanted.items():
            self.run(f"set {key}={value}")
        yield


@contextmanager
def over_connect(home):
    with connect_server(home) as url:
        session = SparkSession.builder.remote(url).create()
        yield Statements(lambda text: session.sql(text).collect())
        session.stop()


@contextmanager
def over_thrift(home):
    with thrift_server(home) as server:
        cursor = hive.connect("127.0.0.1", server.port, username="tests").cursor()

        def run(text):
            cursor.execute(text)
            return cursor.fetchall() if cursor.description else []

        yield Statements(run)
        cursor.close()


def alike(engine, query, analysed):
    try:
        return all(
            same_text(engine, claim.text, claim.explicit, claim.stand_ins)
            for claim in claims(query, analysed)
        )
    except EngineError:
        return False


@pytest.mark.parametrize("connected", [over_connect, over_thrift])
def test_all_operators_of_the_repository_have_a_witness(connected, tmp_path):
    every, misread = Counter(), {}
    with connected(tmp_path / "server") as engine:
        for name in SETS:
            columns = schema(name)
            for text, query in texts(name).items():
                analysed = analyse(query, lambda relation: columns.get(relation.lower()))  # noqa: B023
                if isinstance(analysed, Analysed):
                    every["operators"] += operators(query).total()
                    every["texts"] += 1
                    if not alike(engine, query, analysed):
                        misread[name, text] = operators(query).total()
    print(every, misread)
    assert misread == {} and every["operators"] > 1_000
