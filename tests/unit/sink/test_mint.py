"""The table of docs/design/sink.md's *mint*, row by row."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.shard import Antichain
from dbt.adapters.mvsink.shard_sql import BatchDescription
from dbt.adapters.mvsink.sink import Mint

CASES = {
    "read-only mints nothing": (True, 0, 3, 7, None, None),
    "first description": (False, 0, 3, 7, None, (3, 7)),
    "not twice from the same lower": (False, 0, 3, 7, 3, None),
    "persist has reached desired": (False, 0, 7, 7, 3, None),
    "another writer is ahead": (False, 0, 9, 7, 3, None),
    "another writer was part of the way": (False, 0, 5, 7, 3, (5, 7)),
    "a new shard starts at its as-of": (False, 4, 0, 7, None, (4, 7)),
}


@pytest.mark.parametrize(
    ("read_only", "as_of", "upper", "desired", "last", "minted"), CASES.values(), ids=CASES
)
def test_the_table_of_mint(read_only, as_of, upper, desired, last, minted):
    mint = Mint("m", read_only=read_only)
    mint.observe_as_of(Antichain.of(as_of))
    mint.last_lower = None if last is None else Antichain.of(last)
    mint.observe_persist(Antichain.of(upper))
    mint.observe_desired(Antichain.of(desired))
    expected = None if minted is None else BatchDescription(Antichain.of(minted[0]), Antichain.of(minted[1]))
    assert mint.mint() == expected


def test_lowers_are_unique_and_strictly_increasing_and_uppers_never_decrease():
    mint = Mint("m")
    minted = []
    for persist, desired in [(0, 3), (0, 5), (2, 5), (2, 4), (5, 9), (9, 9), (9, 12)]:
        mint.observe_persist(Antichain.of(persist))
        mint.observe_desired(Antichain.of(desired))
        description = mint.mint()
        if description is not None:
            minted.append((description.lower.as_option(), description.upper.as_option()))
    lowers = [lower for lower, _ in minted]
    uppers = [upper for _, upper in minted]
    assert minted == [(0, 3), (2, 5), (5, 9), (9, 12)]
    assert lowers == sorted(set(lowers)) and uppers == sorted(uppers)


def test_read_only_previews_the_description_that_a_writing_mint_mints():
    minted = []
    for read_only in (True, False):
        mint = Mint("m", read_only=read_only)
        mint.observe_persist(Antichain.of(3))
        mint.observe_desired(Antichain.of(7))
        minted.append((mint.peek(), mint.mint()))
    description = BatchDescription(Antichain.of(3), Antichain.of(7))
    assert minted == [(description, None), (description, description)]


def test_an_as_of_no_longer_counts_once_the_shard_has_contents():
    mint = Mint("m")
    mint.observe_as_of(Antichain.of(9))
    mint.observe_persist(Antichain.of(0))
    mint.observe_desired(Antichain.of(10))
    assert mint.peek() == BatchDescription(Antichain.of(9), Antichain.of(10))
    mint.observe_as_of(Antichain.of(0))  # another run has written the first contents, at 4
    mint.observe_persist(Antichain.of(5))
    assert mint.mint() == BatchDescription(Antichain.of(5), Antichain.of(10))


def test_desired_may_reach_the_empty_frontier():
    mint = Mint("m")
    mint.observe_persist(Antichain.of(3))
    mint.observe_desired(Antichain.empty())
    assert mint.mint() == BatchDescription(Antichain.of(3), Antichain.empty())
