"""dbt's own expectations of an adapter: the basic families."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.basic.test_adapter_methods import BaseAdapterMethod
from dbt.tests.adapter.basic.test_base import BaseSimpleMaterializations
from dbt.tests.adapter.basic.test_empty import BaseEmpty
from dbt.tests.adapter.basic.test_ephemeral import BaseEphemeral
from dbt.tests.adapter.basic.test_generic_tests import BaseGenericTests
from dbt.tests.adapter.basic.test_incremental import (
    BaseIncremental,
    BaseIncrementalBadStrategy,
    BaseIncrementalNotSchemaChange,
)
from dbt.tests.adapter.basic.test_singular_tests import BaseSingularTests
from dbt.tests.adapter.basic.test_singular_tests_ephemeral import BaseSingularTestsEphemeral
from dbt.tests.adapter.basic.test_table_materialization import BaseTableMaterialization
from dbt.tests.adapter.basic.test_validate_connection import BaseValidateConnection
from dbt.tests.util import run_dbt

ARTIFACTS = True


@pytest.mark.seldom
class TestAdapterMethod(BaseAdapterMethod):
    pass


class TestSimpleMaterializations(BaseSimpleMaterializations):
    pass


class TestEmpty(BaseEmpty):
    pass


@pytest.mark.seldom
class TestEphemeral(BaseEphemeral):
    pass


@pytest.mark.seldom
class TestGenericTests(BaseGenericTests):
    pass


@pytest.mark.seldom
class TestIncremental(BaseIncremental):
    pass


@pytest.mark.seldom
class TestIncrementalBadStrategy(BaseIncrementalBadStrategy):
    def test_incremental_invalid_strategy(self, project):
        """dbt-spark's validation speaks first, in its own words."""
        results = run_dbt(["seed"])
        assert len(results) == 2
        results = run_dbt(["run", "--select", "incremental"], expect_pass=False)
        assert "Invalid incremental strategy provided: bad_strategy" in results.results[0].message


@pytest.mark.seldom
class TestIncrementalNotSchemaChange(BaseIncrementalNotSchemaChange):
    pass


@pytest.mark.seldom
class TestSingularTests(BaseSingularTests):
    pass


@pytest.mark.seldom
class TestSingularTestsEphemeral(BaseSingularTestsEphemeral):
    pass


@pytest.mark.seldom
class TestTableMaterialization(BaseTableMaterialization):
    pass


class TestValidateConnection(BaseValidateConnection):
    pass
