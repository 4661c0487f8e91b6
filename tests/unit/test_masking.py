"""Credentials in what is shown."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.exceptions import OwnedByAnother
from dbt.adapters.mvsink.masking import masked
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
