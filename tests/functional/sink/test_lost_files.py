"""A live data file that is gone, truncated or emptied: every run names it, and a full refresh
needs none of the old ones.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dbt.adapters.mvsink.engine import DataflowError
from dbt.adapters.mvsink.inputs import ShardInput
from dbt.adapters.mvsink.refresh_schedule import RefreshSpec
from dbt.adapters.mvsink.shard_sql import DamagedFiles
from tests.support.session_engine import Model, open_shard

QUERY = "select 1 as id, 'a' as name union all select 2, 'b'"
CHANGED = "select 1 as id, 'a' as name union all select 3, 'c'"
MORE_COLUMNS = "select 1 as id, 'a' as name, 2 as more"
OTHER_COLUMNS = "select 1 as id, 2 as more"


def gone(path: Path) -> str:
    path.unlink()
    return "is gone"


def directory_gone(path: Path) -> str:
    path.unlink()
    path.parent.rmdir()
    return "is gone"


def cut_short(path: Path) -> str:
    size = path.stat().st_size
    os.truncate(path, size // 2)
    return f"has {size // 2} of {size} bytes"


def emptied(path: Path) -> str:
    size = path.stat().st_size
    path.write_bytes(b"")
    return f"has 0 of {size} bytes"


DAMAGES = [gone, directory_gone, cut_short, emptied]


@pytest.fixture
def model(tmp_path, session):
    made = Model(session, tmp_path)
    made.run(QUERY)
    made.run(CHANGED)
    return made


def file_of(model: Model, number: int = 0) -> Path:
    with open_shard(model.uri, None) as handle:
        return Path(model.uri) / handle.state().files[number].path


def version(model: Model) -> int:
    with open_shard(model.uri, None) as handle:
        return handle.state().version


RUNS = {
    "an unchanged run": (CHANGED, {}),
    "a run with changes": (QUERY, {}),
    "a preview": (QUERY, {"read_only": True}),
    "columns added": (MORE_COLUMNS, {}),
    "a refresh that is not due": (QUERY, {"refresh": RefreshSpec(((3_600_000, 0),))}),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(("query", "changes"), RUNS.values(), ids=RUNS)
def test_a_run_names_the_file_and_the_remedy_and_writes_nothing(model, damage, query, changes):
    path = file_of(model)
    what = damage(path)
    before = version(model)
    with pytest.raises(
        DamagedFiles, match=f"shard {model.uri} has lost data: .*{path.name} {what}.*--full-refresh"
    ):
        model.run(query, **changes)
    assert version(model) == before


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_full_refresh_needs_no_old_file(model, damage):
    for number in (0, 1):
        damage(file_of(model, number))
    assert model.run(QUERY, full_refresh=True, read_only=True).counts.inserted == 2
    model.run(QUERY, full_refresh=True)
    model.assert_holds(QUERY)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_new_generation_for_other_columns_needs_no_old_file(model, damage):
    damage(file_of(model))
    model.run(OTHER_COLUMNS)
    model.assert_holds(OTHER_COLUMNS)


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_text_that_reads_the_shard_is_made(model, damage):
    damage(file_of(model))
    with pytest.raises(DamagedFiles):
        model.view()
    with open_shard(model.uri, None) as handle, pytest.raises(DamagedFiles):
        ShardInput(handle, model.engine(), "m").contents(handle.state().upper.stored() - 1)


def test_put_back_the_file_is_as_before(model):
    path = file_of(model)
    content = path.read_bytes()
    cut_short(path)
    with pytest.raises(DataflowError):
        model.run(CHANGED)
    path.write_bytes(content)
    model.run(CHANGED)
    model.assert_holds(CHANGED)
