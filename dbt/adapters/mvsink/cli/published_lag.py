"""How far a published table is behind its shard: in versions that changed rows, and in time.

A shard has versions that change no rows: compactions, holds, properties, runs that found everything
as it was. They do not count. Of the others the table lacks one after a run that was killed between
its two commits, and several while the model holds a recorded error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbt.adapters.mvsink.published import published_version, recorded
from dbt.adapters.mvsink.published.protocol import LiveTable
from dbt.adapters.mvsink.shard import Commit, ReadHandle, ShardState, StorageError, files_number
from dbt.adapters.mvsink.shard.errors import InvalidUsage

SAME_ROWS = ("create", "advance", "schema", "compact")  # kinds of commits
MORE = 20  # commits before the version shown; the run that computed it is nearly always among them


def table_figures(
    reader: ReadHandle, state: ShardState, catalog: Mapping[str, str] | None, computed_through: int | None
) -> dict[str, Any]:
    """The fields of `ShardStatus` about the table that the shard is published as. ``catalog``: the
    properties of the Iceberg catalog. ``computed_through``: the time (ms) of the newest run.
    """
    published = recorded(state.properties)
    if published is None:
        return {}
    try:
        table = published_version(reader, published, catalog)
    except (InvalidUsage, StorageError):  # no such package or catalog here, or out of reach
        table = None
    if table is None:
        return {"file_format": published.name}
    lag, through = _behind(reader, state, table)
    return {
        "file_format": published.name,
        "table_version": table.of_shard,
        "table_lag": lag,
        "table_through": through if lag else computed_through,
        "table_foreign": table.foreign,
    }


def _behind(reader: ReadHandle, state: ShardState, table: LiveTable) -> tuple[int, int | None]:
    """How many versions with other rows the shard has after the one that the table shows, and the
    time (ms) through which the table's rows were computed, if the log still has it.

    If the log does not have all later versions, all of them count.
    """
    version = table.of_shard or 0
    if table.shows(state.generation, files_number(state.files)):
        return 0, None
    commits = reader.history(state.version - version + MORE)
    later = [commit for commit in commits if version < commit.version <= state.version]
    changes = [commit.version for commit in later if commit.kind not in SAME_ROWS]
    if len(later) < state.version - version:
        return state.version - version, None
    same = [commit for commit in commits if not changes or commit.version < changes[0]]
    times = [time for commit in same if (time := _through(commit)) is not None]
    return len(changes), times[-1] if times else None


def _through(commit: Commit) -> int | None:
    """The time (ms) through which a run computed the contents; None for other commits."""
    if not commit.is_run or commit.upper is None:
        return None
    through, upper = commit.note.computed_through, commit.upper.as_option()
    return upper - 1 if through is None and upper is not None else through
