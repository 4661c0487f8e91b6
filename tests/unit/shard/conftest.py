"""A client on each kind of storage, and a writer of one shard."""

from __future__ import annotations

import uuid

import pytest

from tests.support.moto_server import BUCKET, options
from tests.support.shards import OBJECT_STORES, SCHEMA, STORAGES, client


@pytest.fixture(params=STORAGES)
def opened(request, tmp_path):
    if request.param in OBJECT_STORES:
        port = request.getfixturevalue("s3_port")
        return client(request.param, f"s3://{BUCKET}/{uuid.uuid4().hex}", options(port))
    return client(request.param, tmp_path)


@pytest.fixture
def writer(opened):
    return opened.open_writer("s", SCHEMA)
