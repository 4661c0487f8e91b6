"""What a shard's log says of runs, in users' words: which commits are of interest, how each
computed the contents, what else it did, and how the model's query changed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from itertools import pairwise

from dbt.adapters.mvsink.reasons import How, Why
from dbt.adapters.mvsink.shard import Antichain, Commit, ReadHandle
from dbt.adapters.mvsink.shard_sql.properties import definition_digest, stored_definition

CREATE = "create"
MORE = 5  # commits that are read for each that is shown, at first
SHOWN_LINES = 40  # of a difference of texts; the JSON has all
WAYS = {"incremental": "incremental", "sums": "incremental", "evaluated": "evaluated"}
LOADED = "loaded"
OWN = ("mv_sink(", "task(", "fold(")  # purposes that say nothing else
BY = ("paused by", "released by", "renamed from", "drop")
_REASONS = {why.code: why for why in Why}


def is_ours(commit: Commit) -> bool:
    """Whether this adapter made the commit."""
    return commit.kind == CREATE or bool(commit.token)


def runs_of(reader: ReadHandle, newest: int) -> list[Commit]:
    """The ``newest`` commits that a user would ask about, oldest first: runs, undos, pauses, added
    columns, and what other tools did.
    """
    for commits in (reader.history(MORE * newest), reader.history()):
        shown = [commit for commit in commits if _is_of_interest(commit)]
        if len(shown) >= newest or len(commits) < MORE * newest:
            break
    return shown[-newest:]


def _is_of_interest(commit: Commit) -> bool:
    if not is_ours(commit) or commit.kind == "evolve":
        return True
    if commit.kind == "schema":
        return commit.note.purpose.startswith(BY)
    first_bound = commit.kind == "advance" and commit.lower == Antichain.of(0)  # before a first load
    return commit.is_run and not first_bound


def way(commit: Commit) -> str | None:
    """How the contents were computed: `incremental`, `evaluated: small`, `inputs unchanged`, and so
    on; another tool's operation; None of a commit that computed nothing.
    """
    note = commit.note
    if not is_ours(commit):
        return f"{commit.kind} by another tool"
    if note.mode == LOADED:
        return "rebuilt" if commit.generation else "first load"
    if note.mode in WAYS:
        why = _REASONS[note.why].short if note.mode == "evaluated" and note.why in _REASONS else ""
        return WAYS[note.mode] + (f": {why}" if why else "")
    if not commit.is_run or note.computed_through is None:
        return None
    return "task" if note.purpose.startswith("task(") else "inputs unchanged"


def message(commit: Commit, definition_before: str | None) -> str:
    """What else is to say: a changed query, drift, why the query was evaluated if that is not
    usual, an undo's reason. ``definition_before`` is the digest of the definition of the run before
    it.
    """
    note = commit.note
    why = _REASONS.get(note.why)
    worth_saying = why is Why.NEW_FILES or (why is not None and How.USUAL not in why.how)
    parts = (
        "new query" if definition_before and note.definition not in ("", definition_before) else "",
        f"{note.drift:,} rows of another tool taken back" if note.drift else "",
        note.reason if worth_saying and note.mode == "evaluated" else "",
        "" if not note.purpose or note.purpose.startswith(OWN) else note.purpose,
        "final" if commit.upper is not None and commit.upper.is_empty() else "",
    )
    return "; ".join(filter(None, parts))


def previous_definitions(commits: Sequence[Commit]) -> dict[int, str]:
    """By a run's version, the digest of the definition of the run before it among ``commits``,
    which are in order.
    """
    runs = [commit for commit in commits if commit.note.definition]
    return {after.version: before.note.definition for before, after in pairwise(runs)}


def definition_diff(reader: ReadHandle, commits: Sequence[Commit], version: int) -> list[str] | None:
    """The lines by which the query of the run at ``version`` differs from that of the run before
    it; None if the log no longer has both texts. ``commits`` are in order.
    """
    runs = [commit for commit in commits if commit.note.definition]
    place = next(place for place, run in enumerate(runs) if run.version == version)
    following = runs[place + 1].version if place + 1 < len(runs) else None
    before = _query_of(reader, runs[place - 1], version)
    after = _query_of(reader, runs[place], following)
    if before is None or after is None:
        return None
    return list(_changed(before.splitlines(), after.splitlines()))


def _query_of(reader: ReadHandle, run: Commit, following: int | None) -> str | None:
    """The query that the shard recorded after ``run``, as it was before the ``following`` commit;
    None if that is another one.
    """
    state = reader.state() if following is None else reader.state_at(following - 1)
    if state is None:
        return None
    definition = stored_definition(state)
    return str(definition.get("sql", "")) if definition_digest(definition) == run.note.definition else None


def _changed(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """A unified diff without its headings, of which the first two lines name no files. A line of
    SQL that is a comment begins with `--`, too.
    """
    for line in list(difflib.unified_diff(before, after, lineterm="", n=1))[2:]:
        if not line.startswith("@@"):
            yield line


def shortened(lines: Sequence[str]) -> list[str]:
    """At most `SHOWN_LINES` of the lines, indented."""
    shown = [f"  {line}" for line in lines[:SHOWN_LINES]]
    rest = len(lines) - len(shown)
    return [*shown, f"  ({rest} more lines: --output json has them)"] if rest else shown
