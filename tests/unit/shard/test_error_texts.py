"""What other libraries say of a failure, on one line."""

from __future__ import annotations

import doctest

import pytest

from dbt.adapters.mvsink.shard import ShardClient, ShardError, errors
from tests.support.moto_server import options
from tests.support.processes import free_port
from tests.support.shards import SCHEMA

MESSAGES = {
    "one line": ("disk full", "disk full"),
    "a stack follows": ("no such file\n\nStack trace:\n  x", "no such file"),
    "nothing": ("", "OSError"),
}


@pytest.mark.parametrize(("text", "message"), MESSAGES.values(), ids=MESSAGES)
def test_a_message_of_one_line(text, message):
    assert errors.message_of(OSError(text)) == message


def test_the_examples():
    done = doctest.testmod(errors)
    assert done.attempted > 0 and done.failed == 0


def test_a_store_that_cannot_be_reached_says_why():
    """`deltalake` writes a chain of causes, in colour; its last is what helps."""
    client = ShardClient(options(free_port()), timeout=5.0)
    with pytest.raises(ShardError) as refused:
        client.open_writer("s3://shards/s", SCHEMA)
    assert "onnection refused" in str(refused.value) and "\x1b" not in str(refused.value)
