"""What a profile may say, what it means, and what is shown of it. No Spark, no disk."""

from __future__ import annotations

import io
import os
import traceback
from multiprocessing import get_context
from types import SimpleNamespace

import pytest
from dbt_common.events.base_types import EventLevel
from dbt_common.events.event_manager import EventManager
from dbt_common.events.functions import env_scrubber
from dbt_common.events.logger import LoggerConfig
from dbt_common.events.types import Note
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink import masking
from dbt.adapters.mvsink.connection.settings import defaults, needs_metastore_lock, session_settings
from dbt.adapters.mvsink.connections import MvsinkConnectionManager
from dbt.adapters.mvsink.credentials import MvsinkCredentials
from dbt.adapters.mvsink.masking import is_secret

ANSI = "spark.sql.ansi.enabled"
CATALOG = "spark.sql.catalogImplementation"
URIS = "spark.hadoop.hive.metastore.uris"
JDBC = "spark.hadoop.javax.jdo.option.ConnectionURL"

HTTP = {"method": "http", "host": "h", "token": "a-token", "cluster": "c"}


def profile(**options):
    """As dbt reads a profile: checked, then made."""
    data = MvsinkCredentials.translate_aliases({"schema": "s", **options})
    MvsinkCredentials.validate(data)
    return MvsinkCredentials.from_dict(data)


def test_type_and_schema_are_enough():
    made = profile()
    assert (made.type, made.method, made.schema, made.host, made.read_only) == (
        "mvsink",
        "session",
        "s",
        None,
        False,
    )
    assert made.server_side_parameters == {}
    assert made.metastore_timeout == 300


@pytest.mark.parametrize(
    ("set_by_dbt_spark", "parameters", "expected"),
    [
        ({ANSI: "false"}, {}, {}),  # 1.10 and newer
        ({ANSI: "false"}, {ANSI: True}, {ANSI: "true"}),
        ({}, {}, {}),  # 1.9
        ({}, {ANSI: False}, {ANSI: "false"}),
    ],
)
def test_ansi_mode_is_spark_s_or_the_profile_s_whichever_dbt_spark_it_is(
    monkeypatch, set_by_dbt_spark, parameters, expected
):
    def post_init(self):
        self.server_side_parameters = {**self.server_side_parameters, **set_by_dbt_spark}

    monkeypatch.setattr("dbt.adapters.spark.connections.SparkCredentials.__post_init__", post_init)
    assert profile(server_side_parameters=parameters).server_side_parameters == expected


@pytest.mark.parametrize(
    ("options", "got", "expected"),
    [
        ({"read_only": "yes"}, "read_only\n  Got: 'yes'", "true or false"),
        ({"read_only": 1}, "read_only\n  Got: 1", "true or false"),
        ({"read_only": None}, "read_only\n  Got: None", "true or false"),
        ({"metastore_timeout": -1}, "metastore_timeout\n  Got: -1", "seconds, 0 or more"),
        ({"metastore_timeout": "soon"}, "metastore_timeout\n  Got: 'soon'", "seconds, 0 or more"),
        ({"metastore_timeout": True}, "metastore_timeout\n  Got: True", "seconds, 0 or more"),
        ({"metastore_timeout": float("nan")}, "metastore_timeout\n  Got: nan", "seconds, 0 or more"),
        ({"method": "embedded"}, "method\n  Got: 'embedded'", "one of thrift, http, odbc, session"),
        ({"progress": "no"}, "progress\n  Got: 'no'", "true or false"),
        ({"class_archive": "no"}, "class_archive\n  Got: 'no'", "true or false"),
        ({"unsupported_grants": "ignore"}, "unsupported_grants\n  Got: 'ignore'", "refuse"),
        ({"unsupported_grants": None}, "unsupported_grants\n  Got: None", "skip (with a warning)"),
        ({"formats": "delta"}, "formats\n  Got: 'delta'", "a list of any of delta, iceberg"),
        ({"formats": [{"name": "delta"}]}, "formats\n  Got: [{'name'", "a list of any of delta, iceberg"),
        (
            {"formats": ["delta", "hudi"]},
            "formats\n  Got: ['delta', 'hudi']",
            "a list of any of delta, iceberg",
        ),
        (
            {**HTTP, "shard_root": "/r", "formats": ["delta"]},
            "formats is for method session",
            "with http",
        ),
        ({"shard_root": 5}, "shard_root\n  Got: 5", "a path or a URI"),
        (
            {"shard_root": "~nosuchuser/x"},
            "shard_root\n  Got: '~nosuchuser/x'",
            "there is no user 'nosuchuser'",
        ),
        ({"shard_root": "/data/a%20b"}, "shard_root\n  Got: '/data/a%20b'", "without %XX"),
        ({"shard_root": "file:///data/a%2520b"}, "shard_root", "without %XX"),
        ({"shard_root": "s3://bucket/a%20b"}, "shard_root", "without %XX"),
        ({"shard_root": "s3://bucket/a?b"}, "shard_root", "without `?` and `#`"),
        ({"shard_root": "/data/${env:HOME}"}, "shard_root", "`:`"),
        ({"shard_root": "/data/a\\b"}, "shard_root", "backslashes"),
        ({"shard_root": "file://host/data"}, "shard_root", "no host"),
        (HTTP, "method http needs `shard_root`", "can reach"),
    ],
)
def test_a_wrong_value_is_shown_with_its_name_and_what_is_expected(monkeypatch, options, got, expected):
    # as if PyHive were installed
    monkeypatch.setattr("dbt.adapters.spark.connections.ThriftState", object())
    monkeypatch.setattr("dbt.adapters.spark.connections.THttpClient", object())
    monkeypatch.setattr("dbt.adapters.spark.connections.hive", object())
    with pytest.raises(DbtRuntimeError) as raised:
        profile(**options)
    assert got in raised.value.msg and expected in raised.value.msg


def test_what_is_no_scalar_is_no_server_side_parameter():
    with pytest.raises(DbtRuntimeError, match=r"server_side_parameters.x: a list is not of type 'string'"):
        profile(server_side_parameters={"x": ["a", "b"]})


SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"storage_options": {"AWS_KEY": {"value": SECRET}}}, "storage_options: AWS_KEY\n  Got: a mapping"),
        ({"storage_options": {"AWS_KEY": [SECRET]}}, "storage_options: AWS_KEY\n  Got: a list"),
        (
            {"storage_options": {"AWS_KEY": SECRET, "AWS_REGION": None}},
            "storage_options: AWS_REGION\n  Got: nothing",
        ),
        ({"iceberg_catalog": {"token": [SECRET]}}, "iceberg_catalog: token\n  Got: a list"),
        ({"iceberg_catalog": f"sqlite:///{SECRET}"}, "iceberg_catalog\n  Got: a text"),
        ({"storage_options": f"AWS_KEY={SECRET}"}, "storage_options\n  Got: a text"),
        ({"storage_options": [SECRET]}, "storage_options\n  Got: a list"),
        (
            {"server_side_parameters": {"spark.hadoop.fs.s3a.secret.key": [SECRET]}},
            "secret.key: a list is not of type 'string'",
        ),
        ({"token": [SECRET]}, "token: a list is not of type 'string' or 'null'"),
        ({"storage_options": {"AWS_KEY": SECRET}, "port": "x"}, "port: a text is not of type 'integer'"),
    ],
)
def test_a_refused_profile_shows_keys_and_never_a_value(options, message, monkeypatch):
    monkeypatch.setattr(masking, "_pattern", None)  # of other tests' secrets
    with pytest.raises(DbtRuntimeError) as raised:
        profile(**options)
    assert message in raised.value.msg
    trace = "".join(traceback.format_exception(raised.value))
    assert SECRET not in trace.replace(repr(options), "")


def test_numbers_and_booleans_are_text_to_a_store():
    made = profile(storage_options={"allow_http": True, "timeout": 30})
    assert made.storage_options == {"allow_http": "true", "timeout": "30"}


def test_nothing_secret_is_in_what_python_or_dbt_shows_of_credentials():
    options = {"AWS_SECRET_ACCESS_KEY": SECRET}
    made = profile(
        storage_options=options,
        iceberg_catalog={"type": "rest", "uri": f"https://me:{SECRET}@host", "credential": SECRET},
        shard_root=f"s3://key:{SECRET}/x@bucket/shards",
        token=SECRET,
        password=SECRET,
    )
    for shown in (
        repr(made),
        str(made),
        f"{made}",
        str(dict(made.connection_info())),
        str(dict(made.connection_info(with_aliases=True))),
    ):
        assert SECRET not in shown and "s3://***@bucket/shards" in shown
    assert "AWS_SECRET_ACCESS_KEY" in repr(made)
    assert made.shards == f"s3://key:{SECRET}/x@bucket/shards"  # what is used is whole


def test_dbt_masks_them_in_whatever_it_logs(monkeypatch):
    manager, lines = EventManager(), io.StringIO()
    config = {
        "name": "log",
        "level": EventLevel.DEBUG,
        "use_colors": False,
        "scrubber": env_scrubber,
        "output_stream": lines,
    }
    manager.add_logger(LoggerConfig(**config))
    monkeypatch.setattr("dbt_common.events.event_manager_client.get_event_manager", lambda: manager)
    monkeypatch.setattr("dbt.adapters.mvsink.masking._secrets", {})
    options = {"AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "eu-central-1", "sas_token": "abc"}
    for _ in range(2):
        profile(storage_options=options, shard_root="s3://key:other-secret@bucket/shards")
    manager.fire_event(Note(msg=f"select 1 -- {SECRET} s3://key:other-secret@bucket eu-central-1 abc"))
    assert lines.getvalue().endswith("select 1 -- *** s3://***@bucket eu-central-1 abc\n")
    settings = {
        "spark.hadoop.fs.s3a.secret.key": "a secret of Spark",
        "spark.authenticate.secretFile": "true",
        "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    }
    profile(server_side_parameters=settings, token="of-http", password="of-ldap", user="ann")
    manager.fire_event(Note(msg="of-http of-ldap ann"))
    assert lines.getvalue().endswith("*** *** ann\n")
    catalog = {
        "type": "sql",
        "uri": "postgresql://ann:of-db@host/c",
        "header.X-Key": "of-header",
        "s3.region": "eu",
    }
    profile(iceberg_catalog=catalog)
    manager.fire_event(Note(msg="postgresql://ann:of-db@host/c of-db of-header sql eu"))
    assert lines.getvalue().endswith("postgresql://***@host/c *** *** sql eu\n")
    manager.fire_event(Note(msg="set x = a secret of Spark, true, EXCEPTION"))
    assert lines.getvalue().endswith("set x = ***, true, EXCEPTION\n")


@pytest.mark.parametrize(
    ("setting", "secret"),
    {
        "spark.hadoop.fs.s3a.access.key": True,
        "spark.hadoop.fs.s3a.bucket.other.secret.key": True,
        "spark.hadoop.fs.s3a.session.token": True,
        "spark.hadoop.fs.azure.account.key.me.dfs.core.windows.net": True,
        "spark.hadoop.fs.azure.sas.container.me.blob.core.windows.net": True,
        "spark.hadoop.fs.gs.auth.service.account.private.key": True,
        "spark.hadoop.javax.jdo.option.ConnectionPassword": True,
        "spark.hadoop.fs.s3a.endpoint": False,
        "spark.hadoop.fs.s3a.aws.credentials.provider": False,
        "spark.authenticate.enableSaslEncryption": False,
        "spark.sql.mapKeyDedupPolicy": False,
        "spark.jars.packages": False,
    }.items(),
)
def test_which_of_spark_s_settings_are_secret(setting, secret):
    assert is_secret(setting) == secret


@pytest.mark.parametrize("timeout", [0, 0.5, 3600])
def test_a_timeout_is_any_number_of_seconds(timeout):
    assert profile(metastore_timeout=timeout).metastore_timeout == timeout


@pytest.mark.parametrize(
    ("parameters", "kept"),
    [({}, {}), ({ANSI: False}, {ANSI: "false"}), ({ANSI: "TRUE", "x": 1}, {ANSI: "true", "x": "1"})],
)
def test_ansi_is_spark_s_default_unless_the_profile_says(parameters, kept):
    assert profile(server_side_parameters=parameters).server_side_parameters == kept


@pytest.mark.parametrize(
    ("shard_root", "shards"),
    [
        (None, "/project/.mvsink/shards"),
        ("shards", "/project/shards"),
        ("./a/../b", "/project/b"),
        ("~/shards", "/home/me/shards"),
        ("/data/shards", "/data/shards"),
        ("s3://bucket/shards", "s3://bucket/shards"),
        ("file:///data/shards", "/data/shards"),
        ("file:/data/a%20b/", "/data/a b"),
        ("file://localhost/data", "/data"),
        ("/data/100%/${HOME}#?", "/data/100%/${HOME}#?"),
        ("hdfs://host:8020/shards", "hdfs://host:8020/shards"),
        ("abfss://c@a.dfs.core.windows.net/x", "abfss://c@a.dfs.core.windows.net/x"),
    ],
)
def test_shard_root_is_taken_from_the_project(monkeypatch, shard_root, shards):
    monkeypatch.setenv("HOME", "/home/me")
    made = profile(shard_root=shard_root)
    made.belong_to("/project")
    assert made.shards == shards
    assert made.home == "/project/.mvsink"


def test_a_project_in_a_directory_that_spark_cannot_read_is_refused():
    with pytest.raises(DbtRuntimeError, match=r"shard_root\s+Got: '/my%20project/.mvsink/shards'"):
        profile().belong_to("/my%20project")


def manager(made, **config):
    MvsinkConnectionManager(SimpleNamespace(credentials=made, **config), get_context("spawn"))
    return made


def test_the_project_is_what_dbt_s_configuration_says_then_its_flags_then_the_working_directory(
    monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    flags = SimpleNamespace(PROJECT_DIR=None)
    monkeypatch.setattr("dbt.flags.get_flags", lambda: flags)
    here = os.getcwd()
    assert profile().home == f"{here}/.mvsink"
    assert manager(profile()).home == f"{here}/.mvsink"
    flags.PROJECT_DIR = "below"  # `dbt debug`: a profile and no project
    assert manager(profile()).home == f"{here}/below/.mvsink"
    assert manager(profile(), project_root="/project").home == "/project/.mvsink"


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, {"method": "session", "schema": "s", "read_only": False}),
        (
            {"formats": ["delta"]},
            {"method": "session", "schema": "s", "formats": ["delta"], "read_only": False},
        ),
        (
            {"host": "h", "shard_root": "/r", "read_only": True},
            {"method": "session", "host": "h", "schema": "s", "shard_root": "/r", "read_only": True},
        ),
    ],
)
def test_what_is_shown_holds_no_secret(options, shown):
    made = profile(
        storage_options={"AWS_SECRET_ACCESS_KEY": "hunter2"}, token="hunter2", password="hunter2", **options
    )
    assert dict(made.connection_info()) == shown


@pytest.mark.parametrize(
    ("parameters", "locked"),
    [
        ({}, True),
        ({CATALOG: "in-memory"}, False),
        ({URIS: "thrift://h:9083"}, False),
        ({"spark.hive.metastore.uris": "thrift://h:9083"}, False),
        ({JDBC: "jdbc:postgresql://h/metastore"}, False),
        ({JDBC: "jdbc:derby:;databaseName=/elsewhere;create=true"}, True),
    ],
)
def test_only_a_derby_metastore_is_locked_and_only_ours_is_placed(parameters, locked):
    made = profile(server_side_parameters=parameters)
    made.belong_to("/my project")
    chosen = session_settings(made)
    assert needs_metastore_lock(chosen) == locked
    assert (chosen.get(JDBC) == "jdbc:derby:;databaseName=/my project/.mvsink/metastore;create=true") == (
        not {URIS, JDBC, "spark.hive.metastore.uris"} & set(parameters)
    )


@pytest.mark.parametrize("memory, threshold", [(1024, None), (4095, None), (4096, "32m"), (8192, "32m")])
def test_larger_tables_are_broadcast_where_one_process_has_the_memory(monkeypatch, memory, threshold):
    monkeypatch.setattr("dbt.adapters.mvsink.connection.settings._driver_memory_mb", lambda: memory)
    key = "spark.sql.autoBroadcastJoinThreshold"
    assert defaults(profile()).get(key) == threshold
    assert key not in defaults(profile(server_side_parameters={"spark.master": "spark://h:7077"}))
    assert key not in defaults(profile(server_side_parameters={"spark.driver.memory": "1g"}))


def test_the_profile_s_parameters_are_over_our_defaults():
    made = profile(server_side_parameters={"spark.master": "local[3]", "spark.x": 1})
    assert session_settings(made) == {**defaults(made), "spark.master": "local[3]", "spark.x": "1"}
    assert "spark.driver.host" in defaults(made)
    on_cluster = profile(server_side_parameters={"spark.master": "spark://h:7077"})
    assert "spark.driver.host" not in defaults(on_cluster)  # executors elsewhere would call themselves
    assert defaults(made)["spark.master"] == "local[*]" and defaults(made)["spark.ui.enabled"] == "false"
