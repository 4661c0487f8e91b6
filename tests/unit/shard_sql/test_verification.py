"""When all contents are verified again: what a shard keeps of it, and what follows for people."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.cli.commands.status import verification
from dbt.adapters.mvsink.shard_sql.verification import VerifyPolicy, stored_policy

DAY = 86_400_000
POLICIES = {
    "never": (VerifyPolicy(), {"verify_by": None, "verify_after_seconds": None, "verify_after_runs": None}),
    "interval": (
        VerifyPolicy(interval=DAY),
        {"verify_by": 3 * DAY, "verify_after_seconds": None, "verify_after_runs": None},
    ),
    "runs": (
        VerifyPolicy(runs=20),
        {"verify_by": None, "verify_after_seconds": None, "verify_after_runs": 16},
    ),
    "budget": (
        VerifyPolicy(budget=True),
        {"verify_by": 9 * DAY, "verify_after_seconds": 54.0, "verify_after_runs": None},
    ),
}


def kept(policy, **facts):
    values = {"verified": 2 * DAY, "unverified": 4, "verifying": 6_000, "spent": 6_000, "dropped": None}
    return SimpleNamespace(properties=policy.properties({}), version=1, uri="", **{**values, **facts})


@pytest.mark.parametrize(("policy", "expected"), POLICIES.values(), ids=POLICIES)
def test_a_policy_is_kept_and_says_when_the_next_is_due(policy, expected):
    state = kept(policy)
    assert stored_policy(state) == policy
    assert policy.properties(state.properties) == {}
    assert verification(state) == {"verified": 2 * DAY, **expected}


def test_before_the_first_verification_and_without_a_policy_nothing_is_known():
    assert verification(kept(VerifyPolicy(budget=True), verified=None, verifying=None))["verify_by"] is None
    assert verification(SimpleNamespace(properties={}, dropped=None)) == {}
