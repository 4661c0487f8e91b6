"""Random histories of shards that are published as Iceberg tables, by path and in a catalog:
`python -m tests.long.iceberg_tables --count 1000`.

The histories are those of `published_tables`. What other tools commit here are deletions by
pyiceberg, and properties and columns that they change.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.types import IntegerType

from dbt.adapters.mvsink.published.formats import ICEBERG, TableFormat, table_of
from tests.long.kept import arguments
from tests.long.published_tables import DEFECTS, History, Killed
from tests.support.iceberg_readers import ICEBERG_READERS, by_pyiceberg

ENTRY = "schema.model"


class IcebergHistory(History):
    """One whose table is an Iceberg table: in a catalog of the name ``catalog``, or else by its
    path. ``store``: see `History`; then there is no catalog.
    """

    def __init__(
        self,
        uri: str,
        chance: Random,
        *,
        in_catalog: bool = False,
        store: dict[str, str] | None = None,
        catalog: str = "lake",
    ):
        super().__init__(uri, chance, store)
        self.root = Path(uri)
        self.properties = {
            "type": "sql",
            "name": catalog,
            "uri": f"sqlite:///{self.root.parent / 'catalog.db'}",
            "warehouse": f"file://{self.root.parent / 'warehouse'}",
        }
        form = TableFormat(ICEBERG, ENTRY if in_catalog else "")
        self.format = table_of(self.handle, form, self.properties)
        self.in_catalog = in_catalog
        self.readers: dict[str, Callable[..., Counter]] = {
            name: partial(self._read, read) for name, read in ICEBERG_READERS.items()
        }
        if store:
            self.readers = {"pyiceberg": partial(by_pyiceberg, options=store)}
        else:
            self.kinds |= {self.foreign_columns: 1, self.lost_metadata: 1}
        self.kinds |= {self.killed_between_writes: 1}

    def foreign_delete(self) -> bool:
        """A copy-on-write deletion, with a file and a manifest of the other tool's."""
        if self.shown is None or self.failed:
            return False
        return self._foreign(lambda table: table.delete(f"id < {self.chance.randrange(10)}"))

    def foreign_optimize(self) -> bool:
        """All rows written again, and once more."""
        if self.shown is None or self.failed:
            return False
        return self._foreign(lambda table: table.overwrite(table.scan().to_arrow()))

    def foreign_columns(self) -> bool:
        if self.shown is None or self.failed:
            return False

        def change(table: Table) -> None:
            with table.transaction() as transaction, transaction.update_schema() as update:
                update.add_column(f"more_{self.time}", IntegerType())

        return self._foreign(change)

    def _others(self) -> dict[Callable[[], object], float]:
        return {self.foreign_delete: 1, self.foreign_optimize: 1, self.lost_vectors: 1}

    def killed_between_writes(self) -> bool:
        """A publication ends before one of the files that it writes, or has written all."""
        self.append()
        left = self.chance.randrange(6)
        store, killed = self.format.store, False

        def counting(write: Callable[..., None]) -> Callable[..., None]:
            def counted(*arguments: Any) -> None:
                nonlocal left
                left -= 1
                if left < 0:
                    raise Killed
                write(*arguments)

            return counted

        with patch.multiple(store, put=counting(store.put), write_text=counting(store.write_text)):
            try:
                self.publish()
            except Killed:
                killed = True
        return killed

    def lost_vectors(self) -> bool:
        if self.failed:
            return False
        table = Path(self.table)
        lost = [*(table / "_deletes").glob("*.parquet"), *table.glob("copies-*/*.parquet")]
        for file in lost:
            file.unlink()
        return bool(lost)

    def lost_metadata(self) -> bool:
        """Some files of the metadata, the newest version among them, or all."""
        files = sorted((Path(self.table) / "metadata").glob("*.*"))
        if self.failed or not files:
            return False
        for file in self.chance.choice([files, self.chance.sample(files, 1), files[:1]]):
            file.unlink()
        return True

    def _read(self, read: Callable[..., Counter], place: str) -> Counter:
        return read(self._catalog().load_table(ENTRY) if self.in_catalog else place)

    def _catalog(self) -> SqlCatalog:
        properties = dict(self.properties)
        return SqlCatalog(properties.pop("name"), **properties)

    def _foreign(self, change: Callable[[Table], None]) -> bool:
        """A commit of another tool. One to a table without a catalog goes through a catalog of its
        own, and is the table's next version.
        """
        if self.in_catalog:
            change(self._catalog().load_table(ENTRY))
            return True
        newest = max(self._versions())
        before = f"{self.table}/metadata/v{newest}.metadata.json"
        other = SqlCatalog("other", uri="sqlite:///:memory:", warehouse=str(self.root.parent))
        other.create_namespace("n")
        table = other.register_table("n.t", f"file://{before}")
        change(table)
        written = Path(other.load_table("n.t").metadata_location.removeprefix("file://"))
        if str(written) == before:
            return False
        written.rename(f"{self.table}/metadata/v{newest + 1}.metadata.json")
        return True

    def _versions(self) -> list[int]:
        names = (path.name for path in (Path(self.table) / "metadata").iterdir())
        return [int(match[1]) for name in names if (match := re.fullmatch(r"v(\d+)\.metadata\.json", name))]


def outcomes(seed: int) -> list[str]:
    """Of one history."""
    with tempfile.TemporaryDirectory() as place:
        return IcebergHistory(f"{place}/shard", Random(seed), in_catalog=seed % 2 == 1).run()


def main() -> int:
    kept, _ = arguments("iceberg_tables", 1000)
    kept.run(outcomes, DEFECTS)
    return kept.conclude(DEFECTS)


if __name__ == "__main__":
    sys.exit(main())
