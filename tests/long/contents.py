"""A relation's rows, changed at random, whatever types its columns have: Spark writes them once, as
Parquet, and every later state is taken from that file's values without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

MOST = 60  # rows
SPARKS_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
Row = tuple[int | None, ...]  # for each column the row whose value it has at first; None: NULL


class Contents:
    """``frame`` gives the rows at first, ``most`` of them. Files are below ``place``."""

    def __init__(self, session: Any, frame: Any, place: Path, most: int = MOST):
        self.most = most
        self.session, self.place, self.round, self._written_round = session, place, 0, -1
        self.columns = frame.columns
        rows = frame.limit(most)
        self.types = [field.dataType.simpleString() for field in rows.schema.fields]
        rows.coalesce(1).write.parquet(f"{place}/first")
        self._schema = rows.schema
        for each in self._schema.fields:
            each.metadata, each.nullable = {}, True  # CHAR and VARCHAR are a table's, not a query's
        # Spark's INT96 would come back as nanoseconds, which it does not read
        first = pq.ParquetFile(next(place.glob("first/*.parquet")), coerce_int96_timestamp_unit="us").read()
        metadata = {**(first.schema.metadata or {}), SPARKS_SCHEMA: self._schema.json()}
        self.first = first.cast(pa.schema([each.with_nullable(True) for each in first.schema], metadata))
        self.rows: list[Row] = [(n,) * len(self.columns) for n in range(len(self.first))]
        self._used = len(self.first)

    def change(self, random: Random) -> None:
        """Some rows go, some come back, get values of others or NULL, or are there once more."""
        columns, kept = range(len(self.columns)), []
        for row in self.rows:
            draw = random.random()
            if draw < 0.15:
                continue
            if draw < 0.3:
                chosen = random.choice(columns) if columns else 0
                row = tuple(self._any(random) if n == chosen else value for n, value in enumerate(row))
            kept += [row, row] if draw > 0.95 else [row]
        if random.random() < 0.08:
            kept = []
        kept += [tuple(self._any(random) for _ in columns) for _ in range(random.randint(0, 3))]
        random.shuffle(kept)
        self.rows = kept[: 2 * self.most]
        self.round += 1

    def _any(self, random: Random) -> int | None:
        return None if not self._used or random.random() < 0.2 else random.randrange(self._used)

    def query(self) -> str:
        """The rows, under the columns' own names."""
        return f"select * from parquet.`{self._written()}`"

    def frame(self, order: Sequence[int] | None = None) -> Any:
        """The rows as constants, in another ``order`` if one is given."""
        from pyspark.sql import DataFrame

        read = self.session.read.schema(self._schema).parquet(self._written())._jdf
        rows = read.collectAsList()
        if order is not None:
            rows = _ordered(self.session, rows, order)
        return DataFrame(self.session._jsparkSession.createDataFrame(rows, read.schema()), self.session)

    def _written(self) -> str:
        """The directory is always the same: the query of the rows is one definition."""
        path = self.place / "now"
        path.mkdir(exist_ok=True)
        if self._written_round != self.round:
            pq.write_table(self._now(), path / "rows.parquet")
            self._written_round = self.round
        return str(path)

    def _now(self) -> pa.Table:
        places = list(zip(*self.rows, strict=True)) or [()] * len(self.columns)
        taken = [
            column.take(pa.array(at, pa.int64()))
            for column, at in zip(self.first.columns, places, strict=True)
        ]
        return pa.table(taken, schema=self.first.schema)


def _ordered(session: Any, rows: Any, order: Sequence[int]) -> Any:
    copied = session._jvm.java.util.ArrayList()
    for at in order:
        copied.add(rows.get(at))
    return copied
