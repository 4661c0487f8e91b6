"""The formats that a shard's table may have, Delta and Iceberg, and which one a shard is published
in.

A model asks for a format. The shard's properties record the format that it has, so that a run, or
`mvsink drop`, knows which table to take back when the model asks for another one or is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from dbt.adapters.mvsink.published.as_delta import AsDelta
from dbt.adapters.mvsink.published.protocol import PublishedTable
from dbt.adapters.mvsink.shard import ReadHandle, WriteHandle
from dbt.adapters.mvsink.shard.errors import InvalidUsage
from dbt.adapters.mvsink.shard.state import TABLE
from dbt.adapters.mvsink.shard_sql.properties import FILE_FORMAT, NO_TABLE

DELTA, ICEBERG = "delta", "iceberg"
# Properties of the shard beside `FILE_FORMAT`: the table's entry in a catalog, and tables of other
# formats or names that are still to be taken back.
ENTRY, FORMER = "iceberg_entry", "former_tables"
WORDS = {DELTA: "a Delta table", ICEBERG: "an Iceberg table"}
INSTALL_PYICEBERG = "pip install 'dbt-mvsink[iceberg]'"


class NoPyiceberg(InvalidUsage):
    """The package that writes Iceberg's metadata is missing."""

    error_code = "MVS-252"

    def __init__(self, error: ImportError):
        super().__init__(
            f"`file_format: iceberg` needs pyiceberg, and it cannot be imported ({error}): {INSTALL_PYICEBERG}"
        )


class NoCatalog(InvalidUsage):
    """A table has an entry in a catalog that the profile does not name."""

    error_code = "MVS-253"

    def __init__(self, entry: str):
        super().__init__(
            f"`{entry}` stays in an Iceberg catalog, for the profile has no `iceberg_catalog`: drop that table there"
        )


@dataclass(frozen=True)
class TableFormat:
    """``entry`` is the table's name in a catalog, ``schema.table``; empty if it has only a path."""

    name: str
    entry: str = ""

    @property
    def words(self) -> str:
        """Its name in a run's line."""
        return WORDS[self.name]


def recorded(properties: Mapping[str, str]) -> TableFormat | None:
    """The format that a shard with these properties is published in; None if it has no table."""
    name = properties.get(FILE_FORMAT, NO_TABLE)
    entry = properties.get(ENTRY, "") if name == ICEBERG else ""
    return TableFormat(name, entry) if name in WORDS else None


def recorded_tables(properties: Mapping[str, str]) -> list[TableFormat]:
    """The format of `recorded`, and those of tables that still have to be taken back.

    >>> recorded_tables({"file_format": "delta", "former_tables": "iceberg:s.t iceberg"})
    [TableFormat('delta', ''), TableFormat('iceberg', 's.t'), TableFormat('iceberg', '')]
    """
    newest = recorded(properties)
    former = (each.partition(":") for each in properties.get(FORMER, "").split())
    return [*([newest] if newest else []), *(TableFormat(name, entry) for name, _, entry in former)]


def recording(wanted: TableFormat | None, former: Sequence[TableFormat] = ()) -> dict[str, str]:
    """The properties that record a shard's format, and the ``former`` tables to be taken back."""
    listed = " ".join(f"{each.name}:{each.entry}".rstrip(":") for each in former)
    if wanted is None:
        return {FILE_FORMAT: NO_TABLE, FORMER: listed}
    return {FILE_FORMAT: wanted.name, ENTRY: wanted.entry, FORMER: listed}


def table_of(
    handle: ReadHandle | WriteHandle,
    published: TableFormat | None = None,
    catalog: Mapping[str, str] | None = None,
) -> PublishedTable:
    """The shard's table; without a format, the Delta table. ``catalog`` has pyiceberg's properties.

    Raises `NoPyiceberg`, `NoCatalog`.
    """
    place, options = f"{handle.uri}/{TABLE}", getattr(handle.storage, "options", None)
    if published is None or published.name == DELTA:
        return AsDelta(place, options)
    if published.entry and not catalog:
        raise NoCatalog(published.entry)
    try:
        from dbt.adapters.mvsink.published.as_iceberg import AsIceberg
    except ImportError as error:
        raise NoPyiceberg(error) from error
    entry = tuple(published.entry.split(".")) if published.entry else ()
    return AsIceberg(place, options, catalog if entry else None, entry)


def check_publishable(published: TableFormat, columns: pa.Schema) -> None:
    """Raises `NoPyiceberg`, or an error that names a column that the format cannot have."""
    if published.name != ICEBERG:
        return
    try:
        from dbt.adapters.mvsink.published.iceberg_schema import iceberg_schema, with_ids
    except ImportError as error:
        raise NoPyiceberg(error) from error
    iceberg_schema(columns, {}, with_ids(columns, {}, 0))
