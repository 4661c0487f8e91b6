"""When a run compares all contents, whatever is known about the inputs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.exceptions import InvalidOption
from dbt.adapters.mvsink.materialization.evidence import verification_due
from dbt.adapters.mvsink.materialization.options.table import ModelOptions

DAY = 86_400_000


def due(config: dict, *, verified: int | None, unverified: int = 0, time: int = 10 * DAY, **context) -> bool:
    options = ModelOptions.parse("a model", config)
    invocation = SimpleNamespace(verify=context.pop("verify", False), time=time)
    context = {"read_only": False, **context}
    state = SimpleNamespace(verified=verified, unverified=unverified)
    return verification_due(SimpleNamespace(options=options, invocation=invocation, **context), state)


@pytest.mark.parametrize(
    ("option", "verified", "unverified", "expected"),
    [
        (None, 9 * DAY + 1, 99, False),
        (None, 9 * DAY, 0, True),
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
