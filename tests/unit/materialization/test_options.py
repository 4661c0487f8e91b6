"""The table of options: values, defaults, every refusal with its message, and what it drives."""

from __future__ import annotations

import dataclasses
import doctest
import re
from types import SimpleNamespace

import pytest
from dbt.adapters.spark.impl import SparkConfig
from dbt.artifacts.resources.v1.config import NodeConfig
from dbt.artifacts.resources.v1.model import ModelConfig

from dbt.adapters.mvsink.configs import MvsinkConfig
from dbt.adapters.mvsink.durations import iso, parse_interval, parse_time
from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.exceptions import InvalidOption, OptionNotOffered
from dbt.adapters.mvsink.inputs.reference import References
from dbt.adapters.mvsink.materialization.evidence import InputEvidence
from dbt.adapters.mvsink.materialization.options import kinds
from dbt.adapters.mvsink.materialization.options.gate_options import AuditConfig
from dbt.adapters.mvsink.materialization.options.table import (
    OPTIONS,
    TASK,
    VIEW,
    ModelOptions,
    ignored_configs,
)
from dbt.adapters.mvsink.refresh_schedule import RefreshSpec
from dbt.adapters.mvsink.shard_sql import OnError
from dbt.adapters.mvsink.shard_sql.properties import Freshness
from dbt.adapters.mvsink.sink import OnSchemaChange
from tests.support.package_edges import ROOT

DEFAULTS = {
    "refresh": RefreshSpec(),
    "retain_history": 86_400_000,
    "assert_not_null": (),
    "on_error": None,
    "read_only": False,
    "on_schema_change": OnSchemaChange.SYNC_ALL_COLUMNS,
    "on_configuration_change": "apply",
    "adopt": False,
    "audit": AuditConfig(),
    "max_change": None,
    "freshness": Freshness(),
    "initial_snapshot": True,
    "column_types": (),
    "on_late_reference": None,
    "input_files": "copied",
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults(name):
    options = ModelOptions.parse("dev.m", {"on_schema_change": "ignore", "column_types": {}})
    assert getattr(options, name) == DEFAULTS[name]


def test_values():
    options = ModelOptions.parse(
        "dev.m",
        {
            "refresh": ["on_commit"],
            "retain_history": "2 hours",
            "assert_not_null": "id",
            "on_error": "record",
            "on_schema_change": "fail",
            "read_only": True,
            "partition_by": ["a"],
            "file_format": "parquet",
        },
    )
    assert options.retain_history == 7_200_000
    assert options.assert_not_null == ("id",)
    assert (options.on_error, options.on_schema_change) == (OnError.RECORD, OnSchemaChange.FAIL)
    assert options.read_only


def test_only_maintained_models_have_ignored_configs():
    nodes = [
        {
            "name": "a",
            "config": {
                "materialized": "self_correcting_mv",
                "partition_by": ["x"],
                "unique_key": "x",
                "file_format": "delta",
            },
        },
        {"name": "b", "config": {"materialized": "table", "partition_by": ["x"]}},
        {
            "name": "c",
            "config": {
                "materialized": "self_correcting_mv",
                "buckets": None,
                "on_schema_change": "append_new_columns",
            },
        },
        {"name": "d", "config": {"materialized": "continual_task", "on_schema_change": "append_new_columns"}},
        {"name": "e", "config": {"materialized": "continual_task", "on_schema_change": "ignore"}},
    ]
    assert ignored_configs(nodes) == {"a": ("partition_by", "unique_key"), "d": ("on_schema_change",)}


INVALID = {
    "a file_format that neither we nor dbt-spark have": (
        {"file_format": "dleta"},
        "'delta', 'iceberg', 'view'",
    ),
    "retain_history below a second": ({"retain_history": "10 ms"}, "at least '1 second'"),
    "retain_history in months": ({"retain_history": "1 month"}, "ms, seconds, minutes, hours, days, weeks"),
    "retain_history as a number": ({"retain_history": 86400}, "at least '1 second'"),
    "assert_not_null as a number": ({"assert_not_null": 3}, "a list of columns' names"),
    "on_error": ({"on_error": "ignore"}, "'fail', 'record'"),
    "on_schema_change": (
        {"on_schema_change": "sync"},
        "'sync_all_columns', 'append_new_columns', 'new_generation', 'fail'",
    ),
    "on_configuration_change": ({"on_configuration_change": "no"}, "'apply', 'continue', 'fail'"),
    "max_change as a number": ({"max_change": 5}, "a mapping of `rows`"),
    "max_change as another text": ({"max_change": "Auto"}, "'auto', or a mapping"),
    "max_change of nothing": ({"max_change": {}}, "a mapping of `rows`"),
    "max_change of something else": ({"max_change": {"row": 5}}, "a mapping of `rows`"),
    "max_change below 0": ({"max_change": {"percent": -1}}, "0 or more"),
    "max_change of a fraction of a row": ({"max_change": {"rows": 1.5}}, "`rows` (a whole number)"),
    "max_change of infinitely many": ({"max_change": {"percent": float("inf")}}, "0 or more"),
    "max_change that is not a number": ({"max_change": {"percent": float("nan")}}, "0 or more"),
    "max_change of true": ({"max_change": {"percent": True}}, "`percent` (a number)"),
    "max_change of true rows": ({"max_change": {"rows": True}}, "`rows` (a whole number)"),
    "audit as a number": ({"audit": 1}, "a test's name as in `dbt ls`"),
    "audit of no name": ({"audit": [""]}, "a test's name as in `dbt ls`"),
    "audit of another scope": ({"audit": {"tests": True, "scope": "new"}}, "'all' or 'changes'"),
    "audit of a scope alone": ({"audit": {"scope": "changes"}}, "a mapping with these as `tests`"),
    "read_only as text": ({"read_only": "yes"}, "true or false"),
    "schedule": ({"schedule": "1 hour"}, "`refresh`"),
    "target_lag": ({"target_lag": "1 hour"}, "`refresh`"),
    "a key in upper case": ({"RETAIN_HISTORY": "1 day"}, "did you mean `retain_history`"),
    "a short key in upper case": ({"ADOPT": True}, "did you mean `adopt`"),
    "a key with hyphens": ({"max-change": {"rows": 1}}, "did you mean `max_change`"),
    "a task's key in upper case": ({"INPUT_FILES": "copied"}, "did you mean `input_files`"),
    "a misspelled key": ({"retain_histroy": "1 day"}, "did you mean `retain_history`"),
}


@pytest.mark.parametrize(("config", "allowed"), INVALID.values(), ids=INVALID)
def test_invalid_values_name_model_option_given_and_allowed(config, allowed):
    [(option, value)] = config.items()
    with pytest.raises(InvalidOption) as error:
        ModelOptions.parse("dev.orders", config)
    message = str(error.value)
    assert (
        "dev.orders" in message and f"`{option}`" in message and repr(value) in message and allowed in message
    )


OF_TASKS = [
    {"initial_snapshot": False},
    {"snapshot": True},
    {"column_types": {"a": "int"}},
    {"on_late_reference": "wait"},
    {"input_files": "append_only"},
]
OF_VIEWS = [{"assert_not_null": ["a"]}, {"audit": True}, {"max_change": {"rows": 1}}, {"up_to": 3}]


@pytest.mark.parametrize(
    ("parse", "config"),
    [
        (ModelOptions.parse, {"up_to": 3}),
        *((ModelOptions.parse, config) for config in OF_TASKS),
        *((ModelOptions.parse_task, config) for config in OF_VIEWS),
    ],
)
def test_what_is_not_offered_is_refused_by_name(parse, config):
    [(option, value)] = config.items()
    with pytest.raises(OptionNotOffered) as error:
        parse("dev.orders", config)
    assert f"dev.orders: config `{option}` (got {value!r})" in str(error.value)


@pytest.mark.parametrize("option", ["refresh", "REFRESH", "On_Late_Reference", "AUDIT"])
def test_a_task_refuses_refresh_and_keys_in_the_wrong_case(option):
    with pytest.raises(InvalidOption, match=rf"dev.orders: invalid config `{option}`"):
        ModelOptions.parse_task("dev.orders", {option: "x"})


def test_an_enforced_contract_comes_before_column_types():
    config = {"column_types": {"a": "int"}}
    contract = {"b": "string", "c": "decimal(10,2)"}
    assert ModelOptions.parse_task("dev.m", config).column_types == (Column("a", parse_type("int", "a")),)
    columns = ModelOptions.parse_task("dev.m", config, contract).column_types
    assert [column.name for column in columns] == ["b", "c"]


@pytest.mark.parametrize("key", ["initial_snapshot", "snapshot"])
def test_an_alias_is_the_same_option_and_messages_name_it_as_it_was_written(key):
    assert ModelOptions.parse_task("dev.m", {key: False}).initial_snapshot is False
    with pytest.raises(InvalidOption, match=f"invalid config `{key}`"):
        ModelOptions.parse_task("dev.m", {key: "no"})


def test_dbt_s_config_class_has_a_field_per_key_of_the_table():
    """`on_schema_change`, `on_configuration_change`, `column_types`, `freshness` are dbt's own, and
    `file_format` is dbt-spark's.
    """
    dbts = {field.name for field in dataclasses.fields(ModelConfig)}
    spark = {field.name for field in dataclasses.fields(SparkConfig)}
    keys = {key for option in OPTIONS.values() for key in option.keys}
    assert {field.name for field in dataclasses.fields(MvsinkConfig)} - spark == keys - dbts - spark
    assert keys & (dbts | spark) == {option.name for option in OPTIONS.values() if option.is_dbts}


def test_no_config_of_dbt_is_taken_for_a_misspelled_one_of_ours():
    configs = {
        **NodeConfig().to_dict(),
        **dict.fromkeys(field.name for field in dataclasses.fields(SparkConfig)),
    }
    ModelOptions.parse("dev.m", configs)
    ModelOptions.parse_task("dev.m", configs)


def test_the_examples_in_the_docstrings():
    done = doctest.testmod(kinds)
    assert done.failed == 0 and done.attempted > 0


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("1 second", 1000), ("250 ms", 250), ("3 Minutes", 180_000), ("2 weeks", 1_209_600_000), ("1day", 86_400_000),
     ("1 year", None), ("-1 day", None), ("day", None), (5, None), ("9999999999999999999 days", None)],
)  # fmt: skip
def test_intervals(text, milliseconds):
    assert parse_interval(text) == milliseconds


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [("1970-01-02", 86_400_000), ("2026-11-20 15:00:00", 1_795_186_800_000), ("2026-11-20T15:00:00Z", 1_795_186_800_000),
     ("2026-11-20T16:00:00+01:00", 1_795_186_800_000), (1_795_186_800_000, 1_795_186_800_000), (1439, None),
     ("noon", None), (True, None), ("1969-12-31", None)],
)  # fmt: skip
def test_times(value, milliseconds):
    assert parse_time(value) == milliseconds


def test_iso():
    assert iso(1_795_186_800_000) == "2026-11-20T15:00:00Z"
    assert iso(1_795_186_800_120) == "2026-11-20T15:00:00.120Z"
    assert iso(2**63 - 2) == str(2**63 - 2)


def functions(value):
    return ModelOptions.parse("dev.m", {"deterministic_functions": value}).deterministic_functions


def test_row_m_a_version_says_that_a_function_was_redefined(monkeypatch):
    assert functions("f").names == ("f",) and functions(["f", "db.G"]).names == ("f", "db.G")
    assert functions({"db.G": 2, "f": "a"}).names == ("db.G", "f")
    assert functions(["f"]).described() == [] and functions({"f": 0}).described() == ["function f = 0"]
    assert functions({"F": "2", "g": 1}).described() == functions({"g": 1, "f": 2}).described()

    def plan(value):
        options = ModelOptions.parse("dev.m", {"deterministic_functions": value})
        evidence = object.__new__(InputEvidence)
        known = {"_settings": ((), True), "_inputs": (), "references": References()}
        engine = SimpleNamespace(query=lambda query, what: [("Body: x",)])
        run = SimpleNamespace(id="options")
        evidence.__dict__.update(
            known,
            context=SimpleNamespace(options=options, query="select f(1)", engine=engine, invocation=run),
        )
        return evidence.plan

    monkeypatch.setattr("dbt.adapters.mvsink.materialization.evidence.assertions", lambda context: ())
    assert plan({"f": 1}) == plan({"F": "1"}) and plan("f") == plan(["f"])
    assert len({plan("f"), plan({"f": 1}), plan({"f": 2})}) == 3


@pytest.mark.parametrize("value", [3, {"f": True}, {"f": None}, {"f": 1.5}, {"f": ""}, {1: "f"}, [{"f": 1}]])
def test_row_m_what_is_no_version(value):
    with pytest.raises(InvalidOption, match=r"`deterministic_functions`(.|\n)*like \{clean: 2\}"):
        functions(value)


PACKAGE = ROOT / "dbt" / "adapters" / "mvsink"
ONLY_FOR = {  # the modules that run one materialization; all others may serve both
    VIEW: ("mv", "evidence", "explanation", "kept_sums", "query_change", "proofs", "commands"),
    TASK: ("task", "task_columns", "task_inputs", "tasks"),
}
# a task's columns cannot change: `ignored_configs` says that it has no effect there
NO_EFFECT = {("on_schema_change", TASK)}


def consumers(name: str) -> set[str]:
    """The modules that use an option, beside the table."""
    used = re.compile(rf"\boptions(\(\w+, \w+\))?\.{name}\b|parse\(.*\)\.{name}\b")
    files = [*(PACKAGE / "materialization").glob("*.py"), *(PACKAGE / "adapter").glob("*.py")]
    files += (PACKAGE / "materialization" / "options").glob("[!t]*.py")
    return {path.stem for path in files if used.search(path.read_text())}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_has_a_consumer_in_each_materialization_that_declares_it(name):
    modules = consumers(name)
    for materialization in OPTIONS[name].of:
        others = {each for other, those in ONLY_FOR.items() if other != materialization for each in those}
        assert modules - others or (name, materialization) in NO_EFFECT, materialization
