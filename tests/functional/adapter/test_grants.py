"""Grants.

Spark parses neither GRANT nor REVOKE: who may read what is another system's business, an authorizer
that a Hive or Databricks server brings along. So the families about what a grant does cannot run on
the embedded Spark. What can be tested, and is here: a grant that the engine refuses fails the
model, in the engine's words, and a run without grants never asks for any.
"""

from __future__ import annotations

import pytest
from dbt.tests.adapter.grants.test_incremental_grants import BaseIncrementalGrants
from dbt.tests.adapter.grants.test_invalid_grants import BaseInvalidGrants
from dbt.tests.adapter.grants.test_model_grants import BaseModelGrants
from dbt.tests.adapter.grants.test_seed_grants import BaseSeedGrants
from dbt.tests.adapter.grants.test_snapshot_grants import BaseSnapshotGrants

no_grants = pytest.mark.skip(
    reason="open-source Spark has no GRANT: without an authorizer there is nothing to grant on or to read back"
)


@pytest.fixture(scope="module", autouse=True)
def users():
    """The names of users that the families' files ask for."""
    with pytest.MonkeyPatch.context() as patch:
        for i in (1, 2, 3):
            patch.setenv(f"DBT_TEST_USER_{i}", f"user_{i}")
        yield


class TestInvalidGrants(BaseInvalidGrants):
    def grantee_does_not_exist_error(self):
        """Spark refuses the statement itself."""
        return "SQLSTATE: 42601"

    def privilege_does_not_exist_error(self):
        """Spark refuses the statement itself."""
        return "SQLSTATE: 42601"


@no_grants
class TestModelGrants(BaseModelGrants):
    pass


@no_grants
class TestIncrementalGrants(BaseIncrementalGrants):
    pass


@no_grants
class TestSeedGrants(BaseSeedGrants):
    pass


@no_grants
class TestSnapshotGrants(BaseSnapshotGrants):
    pass
