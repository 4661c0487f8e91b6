"""When a run compares all contents, whatever is known about the inputs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.exceptions import InvalidOption
from dbt.adapters.mvsink.materialization.evidence import verification_due
from dbt.adapters.mvsink.materialization.options.table import ModelOptions

DAY = 86_400_000


def due(
    config: dict,
    *,
    verified: int | None,
    unverified: int = 0,
    cost: tuple = (None, 0),
    time: int = 10 * DAY,
    **context,
) -> bool:
    options = ModelOptions.parse("a model", config)
    invocation = SimpleNamespace(verify=context.pop("verify", False), time=time)
    context = {"read_only": False, **context}
    verifying, spent = cost
    state = SimpleNamespace(verified=verified, unverified=unverified, verifying=verifying, spent=spent)
    return verification_due(SimpleNamespace(options=options, invocation=invocation, **context), state)


@pytest.mark.parametrize(
    ("option", "verified", "unverified", "expected"),
    [
        ("1 day", 9 * DAY + 1, 99, False),
        ("1 day", 9 * DAY, 0, True),
        (None, 3 * DAY + 1, 99, False),
        (None, 3 * DAY, 0, True),
        ("7 days", 3 * DAY + 1, 99, False),
        ("7 days", 3 * DAY, 0, True),
        ("20 runs", 0, 18, False),
        ("20 runs", 10 * DAY, 19, True),
        ("20 runs", 10 * DAY, 25, True),
        ("1 run", 10 * DAY, 0, True),
        ("1 run", None, 0, True),
        ("never", None, 99, False),
    ],
)
def test_it_is_due_after_some_time_or_some_runs(option, verified, unverified, expected):
    config = {} if option is None else {"verify": option}
    assert due(config, verified=verified, unverified=unverified) is expected


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        ((60_000, 599_999), False),
        ((60_000, 600_000), True),  # a tenth of the time of the runs since
        ((60_000, 0), False),
        ((None, 9_000_000), False),  # of an earlier release's shard it is not known
    ],
)
def test_by_default_it_is_due_when_it_costs_a_tenth_of_the_runs_since(cost, expected):
    assert due({}, verified=10 * DAY - 1, cost=cost) is expected
    assert due({"verify": "auto"}, verified=10 * DAY - 1, cost=cost) is expected
    assert not due({"verify": "7 days"}, verified=10 * DAY - 1, cost=cost)


def test_the_variable_verifies_and_a_run_that_only_reports_does_not():
    assert due({"verify": "never"}, verified=0, verify=True)
    assert not due({}, verified=None, read_only=True)


@pytest.mark.parametrize("value", ["0 runs", "runs", "1/64 a run", 20, "1 ms"])
def test_what_is_neither_is_refused(value):
    with pytest.raises(InvalidOption) as refused:
        ModelOptions.parse("a model", {"verify": value})
    message = str(refused.value)
    assert (
        "verify" in message
        and repr(value) in message
        and "a number of runs, like '20 runs', or 'never'" in message
    )
