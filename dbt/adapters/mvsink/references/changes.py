"""What changed in an input since contents were computed from it: its rows then, now, and between.

Both states are read from the input's own history, which another tool may have rewritten: then there
is only a reason.
"""

from __future__ import annotations

from collections.abc import Mapping

from dbt.adapters.mvsink.engine import Column, DataflowError
from dbt.adapters.mvsink.inputs.delta import DeltaInput
from dbt.adapters.mvsink.references.reference import Reference
from dbt.adapters.mvsink.shard import ShardError
from dbt.adapters.mvsink.sink import Full, InputSides

CONTENTS = ("append", "advance", "compact")  # commits that keep what was read before
MANY = 10_000  # commits; reading so many takes seconds


def sides_of_shard(
    name: str, reference: Reference, before: int, now: int, version: int | None
) -> InputSides | Full:
    """The shard as of ``before`` and ``now`` (ms). ``version``: of its log when it was read."""
    if now < before:
        return Full(f"{name} is read at an earlier time than before")
    problem = _rewritten(name, reference, version)
    if problem:
        return Full(problem)
    try:
        new, old = reference.collection(now), reference.collection(before)
        change = reference.updates(before + 1, now + 1)
    except (DataflowError, ShardError) as error:
        return Full(str(error))
    return InputSides(name, _columns(reference), new, old, change, reference.layout.rows)


def unchanged_shard(name: str, reference: Reference, time: int) -> InputSides:
    """The shard as of ``time`` (ms), in which nothing changed."""
    rows = reference.collection(time)
    return InputSides(name, _columns(reference), rows, rows, rows=reference.layout.rows)


def sides_of_table(
    name: str, location: str, before: int, now: int, storage_options: Mapping[str, str] | None
) -> InputSides | Full:
    """A Delta table at two of its versions."""
    if now < before:
        return Full(f"{name} is read at an earlier version than before")
    try:
        table = DeltaInput(location, name, storage_options)
        columns = table.columns(now)
        if table.columns(before) != columns:
            return Full(f"the columns of {name} changed")
        change, rows = table.changes(before, now, columns), table.rows(now)
    except (DataflowError, ShardError, OSError) as error:
        return Full(str(error))
    return InputSides(name, columns, at_version(name, now), at_version(name, before), change, rows)


def at_version(name: str, version: int) -> str:
    """A table's rows at a version."""
    return f"select * from {name} version as of {version}"


def _columns(reference: Reference) -> tuple[Column, ...]:
    by_name = {column.name: column for column in reference.layout.columns}
    return tuple(by_name[name] for name in reference.columns)


def _rewritten(name: str, reference: Reference, version: int | None) -> str:
    """Why the shard's past may differ from what was read at ``version``; empty if it does not."""
    state = reference.state
    if version is None:
        return f"no earlier version of {name} is recorded"
    if any(file.errors != 0 for file in state.files):
        return f"{name} may hold recorded errors"
    if reference.layout.loose:
        return f"another tool wrote to {name}"
    since = state.version - version
    if since > MANY:
        return f"{name} has {since} commits since"
    commits = {commit.version: commit for commit in reference.history(since + 1) if commit.version > version}
    wanted = range(version + 1, state.version + 1)
    if any(number not in commits for number in wanted):
        return f"the log of {name} does not reach back to the last refresh"
    ours = all(commits[number].writer_id and commits[number].kind in CONTENTS for number in wanted)
    return "" if ours else f"another tool wrote to {name}, or its columns changed"
