"""docs/design/sink.md, *mint*: its three conditions, each needed. Every key of a model's
configuration is a field. And what `since` trails (docs/design/overview.md).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from dbt.adapters.mvsink.exceptions import InvalidOption, OptionNotOffered
from dbt.adapters.mvsink.materialization.options.table import ModelOptions
from dbt.adapters.mvsink.shard import Antichain
from dbt.adapters.mvsink.shard_sql import BatchDescription
from dbt.adapters.mvsink.sink import Mint


@pytest.mark.parametrize(("writes", "ahead", "advanced"), itertools.product([True, False], repeat=3))
def test_it_mints_when_all_three_conditions_hold(writes, ahead, advanced):
    mint = Mint("m", read_only=not writes)
    mint.last_lower = Antichain.of(2 if advanced else 3)
    mint.observe_persist(Antichain.of(3))
    mint.observe_desired(Antichain.of(7 if ahead else 3))
    expected = BatchDescription(Antichain.of(3), Antichain.of(7)) if writes and ahead and advanced else None
    assert mint.mint() == expected


AS_OF = {"nothing is written for times before it": (4, 0, (4, 7)), "a shard past it goes on from there": (4, 5, (5, 7)),
         "it is at the desired frontier": (7, 0, None)}  # fmt: skip


@pytest.mark.parametrize(("as_of", "upper", "minted"), AS_OF.values(), ids=AS_OF)
def test_the_persist_frontier_starts_at_the_as_of(as_of, upper, minted):
    mint = Mint("m")
    mint.observe_as_of(Antichain.of(as_of))
    mint.observe_persist(Antichain.of(upper))
    mint.observe_desired(Antichain.of(7))
    expected = None if minted is None else BatchDescription(*map(Antichain.of, minted))
    assert mint.mint() == expected


def test_frontiers_never_go_back():
    mint = Mint("m")
    mint.observe_persist(Antichain.of(5))
    mint.observe_desired(Antichain.of(9))
    mint.observe_persist(Antichain.of(3))
    mint.observe_desired(Antichain.of(4))
    assert mint.mint() == BatchDescription(Antichain.of(5), Antichain.of(9))


ROWS: dict[str, tuple[Sequence[object], Sequence[object]]] = {
    "refresh": (
        [None, "on_commit", ["on_commit"], "every 1 hour", {"every": "1 hour"}],
        ["never", {"each": "1 hour"}, 5],
    ),
    "retain_history": ([None, "1 second", "1 day"], ["999 ms", "1 month", 5, ""]),
    "assert_not_null": ([None, [], ["a"], "a"], [7, [1], {"a": 1}]),
    "on_error": ([None, "fail", "record"], ["ignore", True]),
    "read_only": ([None, True, False], ["true", 1]),
    "on_schema_change": ([None, "ignore", "sync_all_columns", "append_new_columns", "fail"], ["sync", False]),
}
CASES = [(key, value, True) for key, (good, _) in ROWS.items() for value in good]
CASES += [(key, value, False) for key, (_, bad) in ROWS.items() for value in bad]


@pytest.mark.parametrize(
    ("key", "value", "accepted"), CASES, ids=[f"{key}={value!r}" for key, value, _ in CASES]
)
def test_the_table_of_configs(key, value, accepted):
    if accepted:
        ModelOptions.parse("dev.m", {key: value})
        return
    with pytest.raises((InvalidOption, OptionNotOffered)) as error:
        ModelOptions.parse("dev.m", {key: value})
    assert "dev.m" in str(error.value) and f"`{key}`" in str(error.value) and repr(value) in str(error.value)
