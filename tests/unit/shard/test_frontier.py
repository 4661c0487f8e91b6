"""`Antichain`: total order over 64-bit times, with the empty one greatest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbt.adapters.mvsink.shard import LARGEST_TIME, Antichain, InvalidUsage

E = Antichain.empty()
frontiers = st.one_of(st.integers(0, LARGEST_TIME), st.integers(0, 9), st.just(2**63 - 1)).map(Antichain.of)


def of(time):
    return Antichain.of(time)


ORDER = [(of(0), of(1)), (of(3), of(5)), (of(LARGEST_TIME), E), (of(0), E)]


@pytest.mark.parametrize(("lesser", "greater"), ORDER)
def test_order(lesser, greater):
    assert lesser.less_than(greater) and lesser.less_equal(greater) and lesser.less_equal(lesser)
    assert not greater.less_than(lesser) and not greater.less_equal(lesser) and not lesser.less_than(lesser)


CAN_STILL_COME = [
    (5, 4, False),
    (5, 5, True),
    (5, 6, True),
    (None, 0, False),
    (None, LARGEST_TIME, False),
    (0, 0, True),
]


@pytest.mark.parametrize(("frontier", "time", "expected"), CAN_STILL_COME)
def test_less_equal_time(frontier, time, expected):
    assert (E if frontier is None else of(frontier)).less_equal_time(time) is expected


def test_past_the_largest_time_comes_the_empty_one_and_then_nothing():
    assert of(LARGEST_TIME).step_forward() == E and E.step_forward() == E


def test_the_number_that_stands_for_empty_is_no_time():
    assert of(2**63 - 1) == E and E.stored() == 2**63 - 1 and E.as_option() is None and E.is_empty()


@pytest.mark.parametrize("bad", [-1, 2**63, 1.5, "3", True, None])
def test_what_is_no_time(bad):
    with pytest.raises(InvalidUsage, match="is not a time"):
        Antichain.of(bad)
    with pytest.raises(InvalidUsage, match="is not a time"):
        of(0).less_equal_time(bad)


def test_names_and_hashes():
    assert (repr(of(3)), repr(E)) == ("Antichain(3)", "Antichain()")
    assert len({of(3), of(3), E, Antichain.empty()}) == 2


@given(frontiers, frontiers)
def test_join_and_meet_are_total(a, b):
    later, earlier = a.join(b), a.meet(b)
    assert {later, earlier} == {a, b} and earlier.less_equal(later)
    assert a.less_equal(a.step_forward())
