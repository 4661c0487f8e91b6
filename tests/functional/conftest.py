"""What a module of tests sets in the process's one session ends with the module; a session in which
no code is generated; and what dbt leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from dbt_common.events import functions
from dbt_common.events.event_manager_client import get_event_manager

from tests.support import incremental_modes, table_modes
from tests.support.small_data import INTERPRETED, interpreted


@pytest.fixture(scope="module", autouse=True)
def settings_stay(request: pytest.FixtureRequest, method: str) -> Iterator[None]:
    """For one: dbt-spark's `insert_overwrite` switches how partitions are overwritten, and leaves
    it so. On a server every connection has its own settings.
    """
    if method != "session":
        yield
        return
    spark = request.getfixturevalue("spark")
    before = dict(spark.conf.getAll)
    yield
    after = dict(spark.conf.getAll)
    for name in after.keys() - before.keys():
        spark.conf.unset(name)
    for name, value in before.items():
        if after.get(name) != value:
            spark.conf.set(name, value)


@pytest.fixture(scope="session", autouse=True)
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    """Whether models are computed from the changes of their inputs: `--incremental`."""
    chosen = request.config.getoption("--incremental")
    with pytest.MonkeyPatch.context() as patch:
        incremental_modes.install(chosen, patch)
        yield chosen


@pytest.fixture(scope="session", autouse=True)
def tables(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whether models are published as tables: `--tables`."""
    chosen = request.config.getoption("--tables")
    with pytest.MonkeyPatch.context() as patch:
        table_modes.install(chosen, patch)
        yield
    if chosen != "auto":
        print(f"\ntables: {dict(table_modes.compared)}")


@pytest.fixture(scope="module", autouse=True)
def warnings_are_no_errors() -> Iterator[None]:
    """A module may end with `--warn-error`, which dbt keeps until its next command: not all tests
    give it one.
    """
    with pytest.MonkeyPatch.context() as patch:  # puts back what is there now
        for name in ("_warn_error", "_warn_error_options"):
            patch.setattr(get_event_manager(), name, getattr(get_event_manager(), name))
        for name in ("WARN_ERROR", "WARN_ERROR_OPTIONS"):
            patch.setattr(functions, name, getattr(functions, name))
        yield


@pytest.fixture
def manifest_json() -> None:
    """For a test that reads dbt's `manifest.json`: dbt writes it."""


@pytest.fixture(autouse=True)
def no_manifest_json(request: pytest.FixtureRequest) -> Iterator[None]:
    """Other tests go without: dbt writes it twice an invocation, a tenth of its own time."""
    with pytest.MonkeyPatch.context() as patch:
        if "manifest_json" not in request.fixturenames and not getattr(request.module, "ARTIFACTS", False):
            for module in ("dbt.parser.manifest", "dbt.task.runnable"):
                patch.setattr(f"{module}.write_manifest", lambda *args, **kwargs: None)
        yield


@pytest.fixture(scope="session")
def quick(spark: Any, method: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A session of its own on the same Spark, set up for tiny data."""
    if method in ("connect", "warm"):
        yield spark
        return
    session = spark.newSession()
    for name, value in INTERPRETED.items():
        session.conf.set(name, value)
    yield session


@pytest.fixture(scope="session")
def session(request: pytest.FixtureRequest) -> Any:
    """For what no engine decides: None, which is DuckDB (`tests.support.duck_engine`); with
    `--on-spark`, `quick`.
    """
    return request.getfixturevalue("quick") if request.config.getoption("--on-spark") else None


@pytest.fixture(scope="module")
def small_data(request: pytest.FixtureRequest, method: str) -> Iterator[None]:
    """The process's own session, set up for tiny data while a module runs, as servers are from the
    start. What is tested is the adapter's; what Spark makes of the same statements when it compiles
    them is tested in `sink/test_correction.py`, `test_detection.py`, `test_rules_write.py`, and
    `connection`.
    """
    if method != "session":
        yield
        return
    with interpreted(request.getfixturevalue("spark")):
        yield
