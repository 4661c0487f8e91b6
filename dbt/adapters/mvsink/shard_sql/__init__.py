"""A shard through the SQL engine: what sinks, inputs and tasks share.

`layout` says what the live files of a state are and how each may be read; `current_view` and
`as_of` are the queries that show a shard's contents now and at a time; `stager` has the engine
write files; `append` commits them; `rewrite` compacts; `properties` and `published_view` read what
a shard and its view say about themselves.

Invariants:

- A hash is believed only in files that our own commits staged; all other rows are compared by their
  columns.
- Files that are staged but not committed are invisible. Their writer deletes them, or garbage
  collection does.
- Only `append` moves a shard's upper; only `rewrite` replaces files, and adds columns.
"""

from dbt.adapters.mvsink.shard_sql.append import BatchDescription, Counts, Kind, OnError, RunOutcome
from dbt.adapters.mvsink.shard_sql.current_view import view_query
from dbt.adapters.mvsink.shard_sql.errors import (
    DamagedFiles,
    DifferentPlaces,
    ForeignDeletionVectors,
    NotReadable,
    NotRefreshed,
)
from dbt.adapters.mvsink.shard_sql.layout import Layout, row_count
from dbt.adapters.mvsink.shard_sql.properties import creation_of
