"""Which incremental runs are compared with the query, and until when."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from dbt.adapters.mvsink.incremental import RULES
from dbt.adapters.mvsink.sink import trust
from dbt.adapters.mvsink.sink.trust import Proving, unproven


def runs(
    number: int,
    recorded: dict[str, int],
    reading: Callable[[int], int] = lambda at: 7,
    verified: Callable[[int], bool] = lambda at: False,
    admitted: Callable[[int], bool] = lambda at: True,
) -> list[int]:
    """Which of so many incremental runs prove the reading by themselves; the first is 1."""
    proved = []
    for at in range(1, number + 1):
        proof = Proving(recorded.get, lambda at=at: admitted(at))
        due = proof.due(reading(at))
        proved += [at] if due else []
        recorded |= proof.after(reading(at), compared=due or verified(at))
    return proved


def test_a_new_model_and_another_definition():
    recorded = dict(unproven())  # what a run of another definition records, whose contents are evaluated
    assert runs(40, recorded, admitted=lambda at: False) == [1, 2, 4, 8, 16, 32]
    recorded |= unproven()
    assert runs(5, recorded, admitted=lambda at: False) == [1, 2, 4]


def test_another_reading_of_an_input_or_a_setting_begins_again():
    assert runs(9, dict(unproven()), reading=lambda at: 7 if at < 6 else 8) == [1, 2, 4, 6, 7, 9]


@pytest.mark.parametrize(("every", "proved"), [(5, [1, 2, 4]), (20, [1, 2, 4, 8, 16]), (1, [1, 2])])
def test_it_ends_when_all_is_verified_between_two_proofs(every, proved):
    assert runs(70, dict(unproven()), verified=lambda at: at % every == 0) == proved


def test_a_difference_begins_again():
    recorded = dict(unproven())
    runs(3, recorded)
    recorded |= unproven()
    assert runs(2, recorded) == [1, 2]


@pytest.mark.parametrize("earlier", [{}, {trust.READING: 7, trust.RULE_NUMBER: RULES + 1, trust.RUNS: 99}])
def test_other_rules_are_proved_by_models_that_are_admitted(earlier: Mapping[str, int]):
    recorded = dict(earlier)
    assert runs(3, recorded, admitted=lambda at: False) == []
    assert recorded == earlier
    assert runs(4, recorded) == [1, 2, 4]
