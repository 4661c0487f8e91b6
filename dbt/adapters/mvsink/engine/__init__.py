"""The engine: the seam through which all data pass, and helpers to write its SQL.

`Engine` executes SQL text and returns rows; an adapter implements it on a dbt connection, tests on
DuckDB. The rest of the package is what every layer above needs to write that text: quoted
identifiers and literals, column types, the row hash, grouping by whole rows.

Invariants: a user's identifier is always quoted (`sql.identifier`); a type that cannot be stored
and compared faithfully is refused (`UnsupportedType`). The package imports no other package of
ours.
"""

from dbt.adapters.mvsink.engine.errors import (
    DataflowError,
    EngineError,
    ReservedColumn,
    SettingRefused,
    SubstitutedName,
    UnsupportedType,
)
from dbt.adapters.mvsink.engine.protocol import Engine, shared_files
from dbt.adapters.mvsink.engine.types import Column, arrow_schema, columns_evolved, parse_type, shard_columns
