"""The table formats that can be inputs, by provider: the catalog's name of the format.

Another format is one module and one line here: `versioned` of a `VersionedTable`, or an `OpenTable`
of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from dbt.adapters.mvsink.inputs.delta import DeltaInput
from dbt.adapters.mvsink.inputs.file_binding import open_files
from dbt.adapters.mvsink.inputs.iceberg import IcebergInput
from dbt.adapters.mvsink.inputs.protocol import OpenTable
from dbt.adapters.mvsink.inputs.version_binding import versioned

PROVIDERS: Mapping[str, OpenTable] = {
    "delta": versioned(DeltaInput.open),
    "iceberg": versioned(IcebergInput.open),
    "parquet": open_files,
    "orc": open_files,
    "csv": open_files,
    "json": open_files,
    "text": open_files,
}
