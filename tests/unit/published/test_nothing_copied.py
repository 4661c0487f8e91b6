"""What a publication writes: a commit and the list of hidden rows, never a data file again."""

from __future__ import annotations

from pathlib import Path
from random import Random

from dbt.adapters.mvsink.shard.state import TABLE
from tests.long.published_tables import History
from tests.support.table_readers import by_deltalake

ROWS = 20_000


def written(root: Path, before: set[Path]) -> tuple[int, set[Path]]:
    """The bytes of the files below ``root`` that are new, and all files."""
    files = {path for path in root.rglob("*") if path.is_file()}
    return sum(path.stat().st_size for path in files - before), files


def row(number: int) -> tuple:
    return number, f"row {number} {hash(number)}", ("a", str(number))


def test_a_publication_writes_a_commit_and_no_data(tmp_path):
    uri = str(tmp_path / "s")
    history, table = History(uri, Random(1)), Path(uri) / TABLE
    steps = {
        "load": [(row(each), 1, None) for each in range(ROWS)],
        "one in a hundred": [
            change
            for each in range(0, ROWS, 100)
            for change in ((row(each), -1, None), (row(ROWS + each), 1, None))
        ],
        "everything": [(row(each), -1, None) for each in range(ROWS) if each % 100],
    }
    left = {"load": ROWS, "one in a hundred": ROWS, "everything": ROWS // 100}
    _, files = written(table, set())
    for name, updates in steps.items():
        history._append(updates)
        data, files = written(table, files)
        history.publish()
        assert sum(by_deltalake(history.table).values()) == left[name]
        more, files = written(table, files)
        assert data > 0 and more < 8_000, (name, data, more)
        stored = {file.path for file in history.handle.state().files}
        of_shard = {f"{TABLE}/{path.relative_to(table)}" for path in table.rglob("*.parquet")}
        assert of_shard == stored, name
