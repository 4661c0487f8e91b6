"""Credentials in what is shown."""

from __future__ import annotations

import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dbt.adapters.mvsink import masking
from dbt.adapters.mvsink.exceptions import OwnedByAnother
from dbt.adapters.mvsink.masking import keep_secret, masked, secrets_in
from dbt.adapters.mvsink.materialization.errors import translate
from dbt.adapters.mvsink.shard import ShardError


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("s3://key:secret@bucket/x", "s3://***@bucket/x"),
        ("s3a://AK:se/cr+et=@bucket/x", "s3a://***@bucket/x"),
        (
            "parquet.`s3://k:s@b/x/part-0.parquet` and s3://k:s@c",
            "parquet.`s3://***@b/x/part-0.parquet` and s3://***@c",
        ),
        ("jdbc:postgresql://me:pw@host/metastore", "jdbc:postgresql://***@host/metastore"),
        ("s3:/key:secret@bucket", "s3:/***@bucket"),
        ("s3://:secret@bucket", "s3://***@bucket"),
        ("abfss://c@a.dfs.core.windows.net/x", "abfss://c@a.dfs.core.windows.net/x"),
        ("http://localhost:9000/bucket", "http://localhost:9000/bucket"),
        ("file:///a/b@c", "file:///a/b@c"),
        ("at 2026-11-20T15:00:00Z by me@host", "at 2026-11-20T15:00:00Z by me@host"),
    ],
)
def test_only_user_and_password_are_replaced(value, shown):
    assert masked(value) == shown
    assert masked(shown) == shown


@pytest.mark.parametrize(
    "error",
    [
        OwnedByAnother("s.m", "s3://key:secret@bucket/m", "a", "b"),
        translate("s.m", ShardError("cannot read the log of shard s3://key:secret@bucket/m")),
    ],
    ids=["ours", "a lower layer's"],
)
def test_no_error_that_leaves_the_adapter_holds_them(error):
    assert "s3://***@bucket/m" in str(error) and "secret" not in str(error)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("https://a.blob/c?sv=2020&sig=aB%2Bc%3D&se=1", "https://a.blob/c?sv=2020&sig=***&se=1"),
        ("jdbc:postgresql://h/db?user=me&password=p@ss", "jdbc:postgresql://h/db?user=me&password=***"),
        ("jdbc:sqlserver://h;user=me;password=pw;x=1", "jdbc:sqlserver://h;user=me;password=***;x=1"),
        ("jdbc:oracle:thin:me/pw@host:1521/x", "jdbc:oracle:thin:***@host:1521/x"),
        ('{"url": "https://a/?x=1\\u0026token=abc"}', '{"url": "https://a/?x=1\\u0026token=***"}'),
        ("https://a/?design=x&sign=y", "https://a/?design=x&sign=y"),
        ("where password = 'x'", "where password = 'x'"),
    ],
)
def test_row_j_a_parameter_of_a_uri_that_names_a_secret_is_masked(value, shown):
    assert masked(value) == shown
    assert masked(shown) == shown


@pytest.fixture
def fresh(monkeypatch):
    monkeypatch.setattr(masking, "_secrets", {})
    monkeypatch.setattr(masking, "_pattern", None)


def test_row_j_of_two_secrets_the_longer_one_is_masked_first(fresh):
    keep_secret(["abcd", "abcdefgh"])
    assert masked("x abcdefgh y abcd") == "x *** y ***"


SPELLED = {
    "as it is": str,
    "JSON": json.dumps,
    "JSON of Unicode": lambda secret: json.dumps(secret, ensure_ascii=False),
    "JSON within JSON": lambda secret: json.dumps(json.dumps({"a": secret})),
    "Python": lambda secret: repr({"key": secret}),
    "a URL's path": quote,
    "a URL's parameter": lambda secret: quote(secret, safe=""),
    "a form": quote_plus,
    "a URL in lower case": lambda secret: quote(secret, safe="").replace("%2F", "%2f").replace("%2B", "%2b"),
    "JSON in a URL": lambda secret: quote(json.dumps(secret), safe=""),
}
TEXT = st.text(st.characters(codec="utf-8"), min_size=4, max_size=20)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(secrets=st.lists(TEXT, min_size=1, max_size=4, unique=True), nested=st.booleans(), data=st.data())
def test_row_j_no_spelling_of_a_kept_secret_is_shown(fresh, secrets, nested, data):
    """Whatever the secrets, also one within another: no spelling is left, in a text of all."""
    if nested:
        secrets = [*secrets, secrets[0] + "x9" + secrets[0]]
    masking._secrets.clear()
    keep_secret(secrets)
    spelling = data.draw(st.sampled_from(sorted(SPELLED)))
    text = " | ".join(SPELLED[spelling](secret) for secret in data.draw(st.permutations(secrets)))
    shown = masked(text)
    assert not [
        secret for secret in secrets if inner(SPELLED[spelling](secret)) in shown.replace("***", "\0")
    ]


def inner(spelled: str) -> str:
    """The spelling without the brackets and quotes around it."""
    return spelled.removeprefix('"{\\"a\\": \\"').removesuffix('\\"}"').removeprefix("{'key': ").strip("\"'}")


@pytest.mark.parametrize(
    ("setting", "value", "secret"),
    [
        ("spark.sql.catalog.prod.credential", "client:s3cr3t", "client:s3cr3t"),
        ("spark.sql.catalog.prod.oauth2-credential", "abcdef", "abcdef"),
        ("spark.hadoop.fs.s3a.encryption.key", "MTIzNDU2", "MTIzNDU2"),
        ("spark.hadoop.parquet.encryption.key.list", "k1:AAECAw==", "k1:AAECAw=="),
        ("spark.hadoop.fs.azure.client-provided-encryption-key", "abcdef", "abcdef"),
        ("spark.hadoop.fs.azure.client-provided-key", "abcdef", "abcdef"),
        (
            "spark.hadoop.javax.jdo.option.ConnectionURL",
            "jdbc:mysql://h/d?user=u&password=hunter2",
            "hunter2",
        ),
        ("spark.sql.catalog.pg.url", "jdbc:postgresql://u:hunter2@h/d", "hunter2"),
        ("spark.x", "https://a.blob/c?sig=hunter2", "hunter2"),
    ],
)
def test_row_j_secrets_are_known_in_all_settings(setting, value, secret):
    assert secret in secrets_in({setting: value})


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.hadoop.fs.s3a.aws.credentials.provider", "org.apache.SimpleAWSCredentialsProvider"),
        ("spark.sql.mapKeyDedupPolicy", "LAST_WIN"),
        ("spark.hadoop.fs.s3a.endpoint", "http://localhost:9000"),
    ],
)
def test_row_j_what_is_no_secret_is_shown(setting, value):
    assert secrets_in({setting: value}) == []
