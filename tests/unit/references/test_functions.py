"""What Spark says of the user's functions belongs to the definition; it is asked once."""

from __future__ import annotations

from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.references.shown_functions import shown_functions

SHOWN = [
    "Function: spark_catalog.default.clean",
    "Class: org.apache.spark.sql.classic.UDFRegistration$$Lambda$CREATED/0x00007f71751e4000",
    'Usage: {"a":"1","sqlFunction.createTime":"CREATED","sqlConfig.spark.sql.parquet.writeLegacyFormat":"CREATED","sqlFunction.expression":"BODY"}',
    "Create Time:   CREATED",
    "Body:          BODY",
]


class Engine:
    def __init__(self, body, created="today"):
        self.shown = [line.replace("CREATED", created).replace("BODY", body) for line in SHOWN]
        self.asked = []

    def query(self, query, what):
        self.asked.append(query)
        if "clean" not in query:
            raise EngineError("[UNRESOLVED_ROUTINE]", "42883")
        return [(line,) for line in self.shown]


def shown(engine, invocation, *functions):
    return shown_functions(engine, functions or ("clean",), invocation)


def test_row_m_another_body_is_another_definition_another_creation_is_not():
    first = shown(Engine("x + 1"), "functions 1")
    assert first == shown(Engine("x + 1", "later"), "functions 2") != shown(Engine("x + 2"), "functions 3")


def test_row_m_each_function_is_asked_for_once_in_an_invocation_and_none_without_names():
    engine = Engine("x")
    assert shown(engine, "functions 4", "S.Clean", "b`d") == shown(engine, "functions 4", "b`d", "s.clean")
    assert engine.asked == [
        "describe function extended `b``d`",
        "describe function extended `s`.`clean`",
    ]
    assert shown_functions(engine, (), "functions 4") == [] and len(engine.asked) == 2
