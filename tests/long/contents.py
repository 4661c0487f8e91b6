"""A relation's rows, changed at random by SQL alone: whatever types its columns have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from dbt.adapters.mvsink.engine import sql

MOST = 60  # rows
Row = tuple[int | None, ...]  # for each column the row whose value it has at first; None: NULL


class Contents:
    """``frame`` gives the rows at first. Files are below ``place``."""

    def __init__(self, session: Any, frame: Any, place: Path):
        self.session, self.place, self.round = session, place, 0
        self.columns = frame.columns
        names = [f"c{n}" for n in range(len(self.columns))]
        rows = frame.limit(MOST).toDF(*names)
        self.types = [field.dataType.simpleString() for field in rows.schema.fields]
        rows.coalesce(1).write.parquet(f"{place}/first")
        self.first = session.read.parquet(f"{place}/first")
        count = self.first.count()
        self.rows: list[Row] = [(n,) * len(names) for n in range(count)]
        self._used = count

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
        self.rows = kept[: 2 * MOST]
        random.shuffle(self.rows)
        self.round += 1

    def _any(self, random: Random) -> int | None:
        return None if not self._used or random.random() < 0.2 else random.randrange(self._used)

    def query(self) -> str:
        """The rows, under the columns' own names."""
        return f"select * from parquet.`{self._written()}`"

    def frame(self, order: Sequence[int] | None = None) -> Any:
        """The rows as constants, in another ``order`` if one is given."""
        rows = self.session.read.parquet(self._written())._jdf.collectAsList()
        if order is not None:
            rows = _ordered(self.session, rows, order)
        from pyspark.sql import DataFrame

        schema = self.session.read.parquet(self._written())._jdf.schema()
        return DataFrame(self.session._jsparkSession.createDataFrame(rows, schema), self.session)

    def _written(self) -> str:
        path = f"{self.place}/round{self.round}"
        if not Path(path).exists():
            self._now().coalesce(1).write.parquet(path)
        return path

    def _now(self) -> Any:
        names = [f"c{n}" for n in range(len(self.columns))]
        shown = ", ".join(
            f"if(p.{n} is null, null, _rows[p.{n}].{n}) as {sql.identifier(name)}"
            for n, name in zip(names, self.columns, strict=True)
        )
        rows = ", ".join(
            f"({', '.join('null' if at is None else str(at) for at in row)})" for row in self.rows
        )
        nothing = f"({', '.join(['null'] * len(names))})"
        self.first.createOrReplaceTempView("_first")
        packed = f"select collect_list(struct({', '.join(names)})) as _rows from _first"
        ints = ", ".join(f"cast({name} as int) as {name}" for name in names)
        places = f"select {ints} from values {rows or nothing} as t({', '.join(names)})"
        return self.session.sql(
            f"select {shown} from ({places}{'' if rows else ' where false'}) as p cross join ({packed})"
        )


def _ordered(session: Any, rows: Any, order: Sequence[int]) -> Any:
    copied = session._jvm.java.util.ArrayList()
    for at in order:
        copied.add(rows.get(at))
    return copied
