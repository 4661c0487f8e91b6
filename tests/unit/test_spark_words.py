"""What is shown of an error of Spark, from texts as sessions, Connect and Thrift servers give."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from dbt_common.exceptions import DbtDatabaseError

from dbt.adapters.mvsink.adapter.dbt_engine import engine_error
from dbt.adapters.mvsink.connection.errors import spark_error
from dbt.adapters.mvsink.connection.frames import error_text
from dbt.adapters.mvsink.continual_task.errors import StatementFailed
from dbt.adapters.mvsink.materialization.errors import translate
from dbt.adapters.mvsink.spark_words import own_line, place_in, read

COMMENT = '/* {"app": "dbt", "node_id": "model.shop.m"} */\n'
COMPILED = "\nselect\n    id,\n    amuont\nfrom shop.base"
RAW = "{% set a = 1 %}\nselect\n    id,\n    amuont\nfrom {{ ref('base') }}\n"
SENT = COMMENT + "describe query\n" + COMPILED.replace("shop.base", "(select null as id) base")
NODE = SimpleNamespace(
    resource_type="model",
    name="m",
    original_file_path="models/m.sql",
    compiled_path="target/compiled/shop/models/m.sql",
    compiled_code=COMPILED,
    raw_code=RAW,
    refs=[SimpleNamespace(name="base")],
    sources=[["raw", "orders"]],
)
UNRESOLVED = "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `amuont` cannot be resolved."
PLAN = (
    "\n'Project [*]\n+- 'SubqueryAlias _mv_query\n   +- 'Project [id#238, 'amuont]\n      +- OneRowRelation\n"
)
STACK = "\n\nJVM stacktrace:\norg.apache.spark.sql.AnalysisException\n\tat org.apache.spark.Frame.run(Frame.java:1)"
DIVIDED = "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL instead. SQLSTATE: 22012"
OURS = "\n== SQL (line 5, position 32) ==\nselect cast(`id` as int) `id`, cast(`x` as double) `x`, cast(null as string) _mv_e...\n                               ^^^^^^^^^^^^^^^^^^^\n"
PLACE = (
    "target/compiled/shop/models/m.sql, line 4, column 5 (models/m.sql, line 4):\n        amuont\n        ^"
)


def printed(text, statement=SENT, node=NODE):
    error = spark_error(read(text, statement))
    error.add_node(node)
    return str(error)


@pytest.mark.parametrize(
    "text",
    [
        f"{UNRESOLVED} Did you mean one of the following? [`amount`, `_mv_query`.`id`, `_mv_diff`]. SQLSTATE: 42703; line 6 pos 4;{PLAN}",
        f"{UNRESOLVED} Did you mean one of the following? [`amount`, `id`]. SQLSTATE: 42703; line 6 pos 4;{PLAN}{STACK}",
        f"{UNRESOLVED} SQLSTATE: 42703; line 6 pos 4",
        "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'amuont'. SQLSTATE: 42601 (line 6, pos 4)\n\n== SQL ==\nselect\n----^^^\n",
    ],
    ids=["a session", "Connect", "Thrift", "the parser"],
)
def test_a_place_in_the_statement_is_shown_in_the_compiled_file_and_in_the_model_s(text):
    lines = printed(text)
    assert PLACE in lines
    assert "_mv_" not in lines and "Project" not in lines and "Frame" not in lines


def test_the_code_is_that_of_the_mistake():
    codes = {
        "MVS-601": "[PARSE_SYNTAX_ERROR] x SQLSTATE: 42601",
        "MVS-602": "[TABLE_OR_VIEW_NOT_FOUND] x SQLSTATE: 42P01",
        "MVS-603": "[MISSING_GROUP_BY] x SQLSTATE: 42803",
        "MVS-604": DIVIDED,
        "MVS-605": "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///x/a.csv. SQLSTATE: KD001",
        "MVS-600": "java.lang.OutOfMemoryError: Java heap space",
    }
    assert {spark_error(read(text)).error_code: text for text in codes.values()} == codes


@pytest.mark.parametrize(
    ("condition", "function"),
    [("CAST_INVALID_INPUT", "try_cast"), ("DIVIDE_BY_ZERO", "try_divide"), ("ARITHMETIC_OVERFLOW", "try_add"),
     ("INVALID_ARRAY_INDEX", "get"), ("INVALID_ARRAY_INDEX_IN_ELEMENT_AT", "try_element_at"), ("REMAINDER_BY_ZERO", "try_mod"),
     ("CANNOT_PARSE_TIMESTAMP", "try_to_timestamp"), ("NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", "try_cast")],
)  # fmt: skip
def test_an_error_of_ansi_mode_names_both_ways_on(condition, function):
    text = printed(f"[{condition}] no. SQLSTATE: 22003")
    assert f"`{function}`" in text and 'server_side_parameters: {spark.sql.ansi.enabled: "false"}' in text
    assert "ansi" not in printed("[SCALAR_SUBQUERY_TOO_MANY_ROWS] no. SQLSTATE: 21000")


def test_an_error_in_our_own_text_names_the_column_and_its_line():
    node = SimpleNamespace(**{**vars(NODE), "compiled_code": "select\n  id,\n  id / 0 as x\nfrom s.b", "raw_code": "select\n  id,\n  id / 0 as x\nfrom s.b"})  # fmt: skip
    text = printed(DIVIDED + OURS, "select 1", node)
    assert "while the column `x` was computed" in text and "_mv_" not in text and "cast(" not in text
    assert "m.sql, line 3, column 3 (models/m.sql, line 3):\n      id / 0 as x\n      ^" in text


def test_an_error_in_a_view_names_the_view():
    text = printed(DIVIDED + "\n== SQL of VIEW `s`.`v` (line 1, position 8) ==\nselect 1 / 0\n       ^^^^^\n")
    assert "SQLSTATE: 22012, in the view `s`.`v`" in text and "select 1 / 0" not in text


def test_a_line_that_spark_quotes_is_where_the_statement_has_it():
    words = read(
        DIVIDED + "\n== SQL (line 2, position 8) ==\nselect id / 0 as x\n       ^^^^^^\n",
        "explain\nselect id / 0 as x",
    )
    assert (words.line, words.at) == ("select id / 0 as x", 7)
    assert place_in("select 1;\n  select id / 0 as x", words) == (1, 9)  # indented
    assert place_in("\nselect id / 0 as x", words) == (1, 7)


@pytest.mark.parametrize(
    ("compiled", "line", "at", "place"),
    [
        ("select a, bcd from s.t", "select a, bcd from (select 1) t", 10, (0, 10)),
        ("from s.t where bcd > 1", "from (select 1) t where bcd > 1", 24, (0, 15)),
        ("from s.t\nwhere a\nwhere a", "where (select) a", 0, None),
        ("select a", "merged and changed", 0, None),
        ("", "x", 0, None),
    ],
)
def test_of_a_line_with_a_replaced_relation_the_rest_is_enough_if_it_is_unique(compiled, line, at, place):
    words = read(f"[X] x SQLSTATE: 42703; line 1 pos {at}", line)
    assert place_in(compiled, words) == place


def test_of_equal_lines_the_same_one():
    compiled = "select x\nunion all\nselect x"
    words = read("[X] x SQLSTATE: 42703; line 4 pos 7", f"describe query\n{compiled}")
    assert place_in(compiled, words) == (2, 7)


def test_a_line_that_jinja_wrote_is_not_looked_up_in_the_model():
    assert own_line(NODE, COMPILED, 4) == ""
    assert own_line(NODE, COMPILED, 3) == "models/m.sql, line 4"
    twice = SimpleNamespace(raw_code="{% for i in [1, 2] %}\n x,\n{% endfor %}", original_file_path="m.sql")
    assert own_line(twice, " x,\n x,", 1) == ""


def test_where_the_files_have_no_such_line_the_statement_s_is_shown_unless_it_is_ours():
    text = "[X] x SQLSTATE: 42703; line 1 pos 7"
    assert "in the statement that was sent:\n    select y\n           ^" in printed(text, "select y")
    assert "sent" not in printed(text, "select _mv_y")


@pytest.mark.parametrize(
    ("text", "relation"),
    [
        ("[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:/lake/raw/orders/a.parquet. SQLSTATE: KD001", "that is a file of raw.orders: correct, restore or remove it"),
        ("file:/elsewhere/a.parquet is not a Parquet file (length is too low: 9)", "the query reads raw.orders, base"),
    ],
)  # fmt: skip
def test_a_reader_s_failure_names_the_relation(text, relation):
    assert relation in printed(text)


class Java:
    def __init__(self, message, cause=None):
        self.getMessage, self.getCause = lambda: message, lambda: cause


def from_java(*messages):
    java = None
    for message in reversed(messages):
        java = Java(message, java)
    error = Exception("An error occurred while calling o1.x.\n\tat a.B(C.java:1)")
    error.java_exception = java
    return error_text(error)


def test_of_java_s_chain_the_error_itself_is_shown_and_the_file():
    reading = (
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///x/a.csv. SQLSTATE: KD001"
    )
    malformed = "[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records are detected: [null]. SQLSTATE: 22023"
    assert from_java("Job aborted", reading, malformed, 'For input string: "x"') == (
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///x/a.csv. " + malformed
    )
    assert from_java("Job aborted", reading, "not a Parquet file").endswith("a.csv. not a Parquet file")
    assert from_java("Job aborted", "[TASK_WRITE_FAILED] Task failed. SQLSTATE: 58030", DIVIDED) == DIVIDED
    assert from_java("Job aborted", "disk full") == "disk full"


def test_a_task_s_failed_statement_shows_the_place_too():
    error = spark_error(read(f"{UNRESOLVED} SQLSTATE: 42703; line 6 pos 4;{PLAN}", SENT))
    failed = engine_error(error)
    failed.__cause__ = error
    assert (failed.error_code, failed.message) == ("MVS-602", f"{UNRESOLVED} SQLSTATE: 42703")
    shown = translate("shop.m", StatementFailed("shop.m", "0", failed))
    shown.add_node(NODE)
    assert str(shown).startswith(
        "Runtime Error MVS-517 in model m (models/m.sql)\n  shop.m: statement 0: [UNR"
    )
    assert "m.sql, line 4, column 5 (models/m.sql, line 4):" in str(shown)


def test_errors_of_spark_are_dbts_database_errors():
    assert isinstance(spark_error(read("x")), DbtDatabaseError)
