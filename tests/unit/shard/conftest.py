"""A client on each kind of storage, and a writer of one shard."""

from __future__ import annotations

import pytest

from tests.support.shards import SCHEMA, STORAGES, client


@pytest.fixture(params=STORAGES)
def opened(request, tmp_path):
    return client(request.param, tmp_path)


@pytest.fixture
def writer(opened):
    return opened.open_writer("s", SCHEMA)
