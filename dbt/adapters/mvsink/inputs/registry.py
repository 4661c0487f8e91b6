"""The table formats that can be inputs, by provider: the catalog's name of the format.

Another format is one module and one line here: `versioned` of a `VersionedTable`, or an `OpenTable`
of its own. A format of files that Spark reads without versions is one word in `OF_FILES`.
"""

from __future__ import annotations

from collections.abc import Mapping

from dbt.adapters.mvsink.inputs.delta import DeltaInput
from dbt.adapters.mvsink.inputs.file_binding import open_files
from dbt.adapters.mvsink.inputs.iceberg import IcebergInput
from dbt.adapters.mvsink.inputs.protocol import OpenTable
from dbt.adapters.mvsink.inputs.version_binding import versioned

OF_FILES = ("parquet", "orc", "csv", "json", "text")
PROVIDERS: Mapping[str, OpenTable] = {
    "delta": versioned(DeltaInput.open),
    "iceberg": versioned(IcebergInput.open),
    **dict.fromkeys(OF_FILES, open_files),
}
