"""A part of the suites with every model published as a Delta table; `make tables` runs all."""

from __future__ import annotations

import pytest

from tests.functional.cli import test_undo
from tests.functional.continual_task import test_dbt
from tests.functional.materialization import test_runs, test_unchanged
from tests.support import table_modes


@pytest.fixture(scope="class", autouse=True)
def every_model():
    """Each is published, and other engines read it after each run."""
    table_modes.compared.clear()
    with pytest.MonkeyPatch.context() as patch:
        table_modes.install("delta", patch)
        yield
    assert table_modes.compared["compared"] > 0


class TestColumns(test_unchanged.TestColumns):
    pass


class TestContract(test_runs.TestContract):
    START = test_runs.TestContract.START


class TestViewsOfShards(test_dbt.TestViewsOfShards):
    pass


class TestUndo(test_undo.TestUndo):
    pass
