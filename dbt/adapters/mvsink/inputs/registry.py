"""The formats of tables that can be inputs, by provider, which is the catalog's name of the format.

Another format takes one module and one line here, for views and tasks alike: a `VersionedFormat` if
its tables have versions, else a `Format`. Files that Spark reads without versions need only the
line.
"""

from __future__ import annotations

from collections.abc import Mapping

from dbt.adapters.mvsink.inputs.delta_format import DELTA, DeltaFormat
from dbt.adapters.mvsink.inputs.file_binding import FilesFormat
from dbt.adapters.mvsink.inputs.iceberg import ICEBERG, IcebergFormat
from dbt.adapters.mvsink.inputs.position import FILE_LIST
from dbt.adapters.mvsink.inputs.protocol import Format, ProbedFormat, VersionedFormat

# the kinds of their positions, too
VERSIONED: Mapping[str, VersionedFormat] = {DELTA: DeltaFormat(), ICEBERG: IcebergFormat()}
# by the kinds of places; of several, the first that is at a path
PROBED: Mapping[str, ProbedFormat] = {DELTA: DeltaFormat(), FILE_LIST: FilesFormat(FILE_LIST)}
FORMATS: Mapping[str, Format] = {
    **VERSIONED,
    "parquet": FilesFormat("parquet"),
    "orc": FilesFormat("orc"),
    "csv": FilesFormat("csv", textual=True),
    "json": FilesFormat("json", textual=True),
    "text": FilesFormat("text", textual=True),
}
