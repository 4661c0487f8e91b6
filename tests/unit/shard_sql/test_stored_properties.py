"""Row e of issue 41: what a shard's properties keep for the adapter. Another tool can set them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from dbt.adapters.mvsink.inputs.reads import Reads
from dbt.adapters.mvsink.shard import ShardState
from dbt.adapters.mvsink.shard.errors import LogDamaged
from dbt.adapters.mvsink.shard.stored import Unreadable, parsed
from dbt.adapters.mvsink.shard_sql.properties import (
    Freshness,
    held_shards,
    is_sample,
    owner_of,
    pause_of,
    stored_definition,
    stored_freshness,
    stored_spec,
    watched_shard,
)
from dbt.adapters.mvsink.shard_sql.verification import stored_policy
from tests.support.shards import SCHEMA

STATE = ShardState(7, UUID(int=1), SCHEMA, 0, uri="/shards/mart/orders")
READS: dict[str, tuple[Any, str, list[str]]] = {
    # the property, what reads it, what is refused beside texts that are not JSON
    "owner": (owner_of, "owner", ["[]", '{"project": "p"}', '{"project": 1, "unique_id": "u", "target": "t"}']),
    "definition": (stored_definition, "definition", ["[]", "null", "3"]),
    "schedule": (stored_spec, "definition", ['{"refresh": 3}', '{"refresh": {"every": [[0, 1]]}}', '{"refresh": {"every": [[1]]}}',
                                             '{"refresh": {"at": ["x"]}}', '{"refresh": {"at_creation": 1}}']),
    "watched input": (watched_shard, "input", ["[]", '{"shard_uri": "u"}', '{"shard_uri": 3, "deletes": true}']),
    "holds": (held_shards, "held", ["{}", "[3]", '"abc"']),
    "freshness": (stored_freshness, "freshness", ["[]", '{"warn_after": "x"}', '{"error_after": 1.5}']),
    "pause": (pause_of, "paused", ["[]", "3", '{"by": "me"}', '{"by": 1, "at": 2}', '{"by": "me", "at": "x"}']),
    "verification": (stored_policy, "verify", ["[]", '{"interval": "x"}', '{"runs": 1.5}', '{"budget": 1}']),
    "sample": (is_sample, "sampled", ["[]", "3", "null"]),
}  # fmt: skip
NO_JSON = ["", "{", "1e400", "NaN", "[" * 10_000, '"\udcff"', "9" * 5000]


@pytest.mark.parametrize(("read", "name", "wrong"), READS.values(), ids=READS)
def test_row_e_a_property_that_we_did_not_write_is_named(read, name, wrong):
    for value in (*NO_JSON, *wrong):
        with pytest.raises(
            LogDamaged,
            match=f"shard /shards/mart/orders .*at version 7 the table property mvsink.{name} is .*--full-refresh",
        ):
            read(replace(STATE, properties={name: value}))


def test_row_e_a_property_that_is_not_there_is_the_default():
    assert owner_of(STATE) == {} and held_shards(STATE) == set() and stored_freshness(STATE) == Freshness()
    assert pause_of(STATE) is None and watched_shard(STATE) is None and not is_sample(STATE)
    assert stored_spec(STATE).on_commit and stored_definition(STATE) == {}


def test_row_e_what_a_query_read_is_only_a_help():
    """`evidence.recollection` does without what is `Unreadable`."""
    reads = Reads(("a.b.v",), ("a.b.t",), "", {"a.b.v": Reads((), ("a.b.u",), "no")})
    assert Reads.from_stored(parsed('{"views":["a.b.v"],"tables":["a.b.t"],"unknown":"","below":{"a.b.v":{"views":[],"tables":["a.b.u"],'
                                    '"unknown":"no","below":{}}}}')) == reads  # fmt: skip
    for wrong in ("[]", "{}", '{"views":[1],"tables":[],"unknown":"","below":{}}', '{"views":[],"tables":[],"unknown":"","below":{"a":3}}',
                  '{"views":"ab","tables":[],"unknown":"","below":{}}', *NO_JSON):  # fmt: skip
        with pytest.raises(Unreadable):
            Reads.from_stored(parsed(wrong))
