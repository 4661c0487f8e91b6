"""Random histories of shards that are published as tables, read by Spark after every step, and
written to by Spark:

    python -m tests.long.spark_tables --seed 1 --count 50                   # of each format
    python -m tests.long.spark_tables --format iceberg --seed 1 --count 50

The histories are those of `published_tables` and `iceberg_tables`, and all run in one session. What
Spark commits to a table is in `spark_statements`. After every step the shard must also have the
contents that it had at earlier times.
"""

from __future__ import annotations

import re
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from deltalake import DeltaTable

from dbt.adapters.mvsink.physical import DIFF
from dbt.adapters.mvsink.shard import OpenShards, ShardClient
from tests.long.iceberg_tables import ENTRY, IcebergHistory
from tests.long.input_histories import reason
from tests.long.kept import arguments
from tests.long.published_rows import FewColumns, ManyColumns
from tests.long.published_tables import DEFECTS, History
from tests.long.session import session
from tests.long.spark_statements import DELTA_WRITES, ICEBERG_WRITES, LAST, REFUSALS, Writes
from tests.support.iceberg_readers import by_pyiceberg
from tests.support.table_readers import by_deltalake, hashable, rows_of

FOREIGN = 16  # how often Spark writes, beside what the other steps have
SQLITE = "org.xerial:sqlite-jdbc:3.46.1.3"  # for the catalog that Spark and pyiceberg share
SETTINGS = {
    "spark.jars.packages": SQLITE,
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.vacuum.parallelDelete.enabled": "false",
}


class WithSpark(History):
    """What the histories of both formats have in common."""

    steps = 15
    keeps = (0, 5, 20)
    writes: Mapping[str, Writes]

    def use(self, spark: Any, relation: str) -> None:
        """``relation``: the table in Spark's statements."""
        self.spark, self.relation = spark, relation
        self.past: dict[int, Counter] = {}
        self.written: list[str] = []
        self.kinds[self.foreign_writes] = FOREIGN

    def foreign_writes(self) -> list[str]:
        """One or two commits of Spark's; their names. Those to a table that shows an earlier state
        than its shard are undone later.
        """
        if self.shown is None or self.failed:
            return ["foreign_writes, nothing to do"]
        chosen = self.chance.sample([*self.writes], self.chance.choice([1, 1, 2]))
        chosen.sort(key=LAST.__eq__)
        return [self._write(name) for name in chosen]

    def _write(self, name: str) -> str:
        before = self._files() if "vacuum" in name else set()
        for statement in self.writes[name](self.chance, self.relation, self.version()):
            self.written.append(statement)
            try:
                self.spark.sql(statement)
            except Exception as error:
                if not any(re.search(known, str(error)) for known in REFUSALS):
                    raise AssertionError(f"{statement}: {error}") from error
                return f"Spark refuses {name}: {reason(error)}"
        if lost := before - self._files():
            raise AssertionError(f"{self.written[-1]} took {lost}")
        return f"Spark: {name}"

    def _files(self) -> set[Path]:
        return {each for each in Path(self.table).rglob("*.*") if each.suffix in (".parquet", ".bin")}

    def version(self) -> int:
        """The table's, which others are relative to."""
        return 0

    def generation(self) -> bool:
        if done := super().generation():
            self.past.clear()
        return done

    def difference(self) -> str:
        if problem := super().difference() or self._wrong_aggregates() or self._lost_history():
            return f"{problem}; Spark wrote {self.written[-6:]}"
        return ""

    def _wrong_aggregates(self) -> str:
        """What Spark may answer from the metadata alone, and a filter that may skip files."""
        if self.shown is None:
            return ""
        place, some = self.schema.names.index("id"), self.chance.randrange(12)
        ids = [self.content.values(key)[place] for key in self.shown.elements()]
        all_ = self._first("select count(*), min(id), max(id)"), (len(ids), *_bounds(ids))
        few = self._first("select count(*)", f"where id < {some}"), (sum(each < some for each in ids),)
        return "".join(
            f"Spark counts {known} of {wanted}" for known, wanted in (all_, few) if known != wanted
        )

    def _first(self, select: str, where: str = "") -> tuple:
        return tuple(self.spark.sql(f"{select} from {self.relation} {where}").collect()[0])

    def _lost_history(self) -> str:
        """What the shard no longer has as of an earlier time, though it can be read."""
        state = self.handle.state()
        since, upper = state.since.as_option(), state.upper.as_option()
        if since is None or self.failed or not state.readable:
            return ""
        times = [time for time in self.past if time >= since]
        with ShardClient(opened=OpenShards()).open_reader(self.uri) as reader:
            for time in self.chance.sample(times, min(2, len(times))):
                if problem := self._differs(reader.snapshot(time), self.past[time]):
                    return f"the shard as of {time} {problem}"
        if upper is not None:
            self.past[upper - 1] = +self.rows
        return ""

    def _differs(self, snapshot: Any, wanted: Counter) -> str:
        rows: Counter = Counter()
        for row in snapshot.select([*self.schema.names, DIFF]).to_pylist():
            rows[tuple(hashable(row[name]) for name in self.schema.names)] += row[DIFF]
        expected: Counter = Counter()
        for key, many in wanted.items():
            expected[tuple(map(hashable, self.content.values(key)))] += many
        return "" if rows == expected else f"lacks {expected - rows} and has {rows - expected}"


def _bounds(numbers: Sequence[int]) -> tuple:
    return (min(numbers), max(numbers)) if numbers else (None, None)


class SparkDelta(WithSpark):
    """A Delta table, by its path."""

    writes = DELTA_WRITES

    def __init__(self, spark: Any, uri: str, chance: Random, number: int):
        del number
        content = ManyColumns(chance) if chance.random() < 0.25 else FewColumns()
        super().__init__(uri, chance, content=content)
        self.use(spark, f"delta.`{self.table}`")
        self.readers = {"Spark": self._by_spark, "deltalake": by_deltalake}

    def _by_spark(self, place: str) -> Counter:
        return rows_of(self.spark.sql(f"select * from delta.`{place}`").toArrow())

    def version(self) -> int:
        return DeltaTable(self.table).version()


class SparkIceberg(WithSpark, IcebergHistory):
    """An Iceberg table: by its path, which Spark also knows by a Hadoop catalog, or in a catalog of
    a database that Spark has, too.
    """

    writes = ICEBERG_WRITES

    def __init__(self, spark: Any, uri: str, chance: Random, number: int):
        name = f"lake{number}"
        IcebergHistory.__init__(self, uri, chance, in_catalog=number % 2 == 1, catalog=name)
        if self.in_catalog:
            database = str(self.properties["uri"]).removeprefix("sqlite:///")
            kind = {"type": "jdbc", "uri": f"jdbc:sqlite:{database}"}
        else:
            kind = {"type": "hadoop"}
        place = self.properties["warehouse"] if self.in_catalog else f"file://{self.root.parent}"
        settings = {"warehouse": place, "cache-enabled": "false", **kind}
        spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
        for key, value in settings.items():
            spark.conf.set(f"spark.sql.catalog.{name}.{key}", value)
        self.use(spark, f"{name}.{ENTRY if self.in_catalog else f'{self.root.name}.table'}")
        readers: Mapping[str, Callable[[Any], Counter]] = {
            "Spark by path": self._by_path,
            "pyiceberg": by_pyiceberg,
        }
        self.readers = {"Spark": self._by_spark}
        self.readers |= {each: partial(self._read, read) for each, read in readers.items()}

    def _by_spark(self, place: str) -> Counter:
        del place
        return rows_of(self.spark.sql(f"select * from {self.relation}").toArrow())

    def _by_path(self, table: Any) -> Counter:
        """As docs/published-tables.md says. In a catalog: the metadata's path."""
        place = getattr(table, "metadata_location", table)
        return rows_of(self.spark.read.format("iceberg").load(str(place)).toArrow())


FORMATS: Mapping[str, Callable[..., WithSpark]] = {"delta": SparkDelta, "iceberg": SparkIceberg}


def outcomes(spark: Any, kind: str, seed: int) -> list[str]:
    """Of one history."""
    with tempfile.TemporaryDirectory() as place:
        history = FORMATS[kind](spark, f"{place}/shard", Random(seed), seed)
        try:
            return history.run()
        except Exception as error:
            steps = traceback.format_exc(limit=3)[-1500:]
            return [f"wrong: {str(error)[:1500]}\n{steps}\nSpark wrote {history.written[-6:]}"]


def main() -> int:
    kept, options = arguments("spark_tables", 50, {"format": "delta or iceberg; without it, both"})
    with session([*FORMATS], SETTINGS) as spark:
        for kind in [options.format] if options.format else FORMATS:
            kept.run(partial(outcomes, spark, kind), DEFECTS, f"{kind} history")
    return kept.conclude(DEFECTS)


if __name__ == "__main__":
    sys.exit(main())
