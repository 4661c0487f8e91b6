"""A read-only run counts what the run after it writes, in the same way, and leaves no file behind:
random histories on DuckDB."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest

from dbt.adapters.mvsink.shard_sql import Kind
from dbt.adapters.mvsink.sink import Incremental
from dbt.adapters.mvsink.sink.errors import CannotBeIncremental
from tests.property.test_increments import HISTORIES, QUERIES, RUNS, World
from tests.support import incremental_modes


@pytest.fixture(autouse=True)
def unlimited(monkeypatch, tmp_path):
    """However much changed: the tables are tiny. Temporary directories are the test's own."""
    incremental_modes.unlimited(monkeypatch)
    scratch = tmp_path / "temporary files"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    return scratch


def files(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def sampled(outcome) -> Counter[tuple[object, ...]]:
    """The rows of the sample, with the number of copies that would be added."""
    rows: Counter[tuple[object, ...]] = Counter()
    for row in outcome.preview.sample:
        data, (_, diff, error, _) = row[: len(outcome.preview.columns)], row[len(outcome.preview.columns) :]
        assert error is None
        rows[data] += int(diff)
    return rows


def test_a_preview_counts_what_the_run_writes(tmp_path, unlimited):
    ways: Counter[bool] = Counter()
    for seed in range(HISTORIES):
        world = World(seed, tmp_path / str(seed))
        world.engine.cores = 1
        world.run()
        for _ in range(RUNS):
            world.change()
            root, rows = Path(world.model.uri), Counter(world.model.rows())
            before = files(root)
            preview = world.previewed(sample=1000)
            assert files(root) == before
            assert not list(unlimited.iterdir())
            ran = world.ran()
            assert (preview.kind, preview.counts) == (Kind.READ_ONLY, ran.counts)
            assert (preview.written.incremental, preview.written.evaluated) == (
                ran.written.incremental,
                ran.written.evaluated,
            )
            if preview.preview is not None:
                after = Counter(world.model.rows())
                change = Counter(after)
                change.subtract(rows)
                assert sampled(preview) == Counter({row: n for row, n in change.items() if n})
            ways[preview.written.incremental] += 1
    assert ways[True] > 2 * HISTORIES


def test_a_preview_elsewhere_evaluates_the_query(tmp_path):
    """Spark could not read what is staged on this machine."""
    world = World(1, tmp_path, QUERIES[0])
    world.engine.cores = 0
    world.run()
    world.change()
    preview, ran = world.previewed(), world.ran()
    assert preview.counts == ran.counts and ran.written.incremental
    assert (preview.written.incremental, preview.written.full.usual) == (False, True)
    assert preview.written.full.text == "a preview stages on this machine, and Spark runs elsewhere"


def test_a_preview_fails_where_the_run_would(tmp_path):
    world = World(1, tmp_path, "select k, v from db.a limit 3")
    world.run()
    world.change()
    with pytest.raises(CannotBeIncremental, match="LIMIT"):
        world.previewed(incremental=Incremental.ALWAYS)
    assert not world.previewed().written.incremental


def test_a_preview_that_fails_leaves_nothing(tmp_path, unlimited, monkeypatch):
    world = World(1, tmp_path, QUERIES[0])
    world.engine.cores = 1
    world.run()
    world.change()

    def broken(*_: object) -> None:
        assert list(unlimited.iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr("dbt.adapters.mvsink.sink.strategy.Strategy._counted", broken)
    before = files(Path(world.model.uri))
    with pytest.raises(KeyboardInterrupt):
        world.previewed()
    assert files(Path(world.model.uri)) == before
    assert not list(unlimited.iterdir())
