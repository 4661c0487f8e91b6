"""`mvsink history MODEL`: the commits of a shard that its log still has, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import click

from dbt.adapters.mvsink.cli.discovery import choose, choose_one, find_shards, progress, words
from dbt.adapters.mvsink.cli.render import (
    Output,
    TableColumn,
    count_option,
    count_text,
    takes_output,
    time_text,
    write_json,
    write_table,
)
from dbt.adapters.mvsink.cli.target import Target, takes_target
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.shard import Antichain, Commit
from dbt.adapters.mvsink.user_sql.words import last_part

CREATE = "create"
SHORT_ID = 8  # characters of a writer's id
LIMIT = 20


@dataclass(frozen=True)
class CommitLine:
    """One commit; the names are those of the JSON. Times are ms.

    ``lower`` and ``upper`` are None if the commit did not move the upper; ``final``: it moved the
    upper to the empty frontier. Fields that only this adapter records (counts, who, why) are None
    for other engines' commits. ``references`` has the times at which other shards were read, by
    name; ``versions`` the versions of tables; ``newer`` why one is newer than the contents' time.
    """

    version: int
    time: int
    kind: str
    lower: int | None
    upper: int | None
    final: bool
    rows_inserted: int | None
    rows_deleted: int | None
    drift: int | None
    computed_through: int | None
    writer_id: str | None
    host: str | None
    purpose: str | None
    invocation_id: str | None
    seconds: float | None
    references: Mapping[str, int] | None
    versions: Mapping[str, int] | None
    newer: Mapping[str, str] | None
    definition: str | None


def commit_line(commit: Commit) -> CommitLine:
    """A commit as it is shown."""
    note = commit.note
    ours = commit.kind == CREATE or bool(commit.token)
    return CommitLine(
        version=commit.version,
        time=commit.timestamp,
        kind=commit.kind,
        lower=_time(commit.lower),
        upper=_time(commit.upper),
        final=commit.upper is not None and commit.upper.is_empty(),
        rows_inserted=note.rows_inserted if ours else None,
        rows_deleted=note.rows_deleted if ours else None,
        drift=note.drift if ours else None,
        computed_through=note.computed_through,
        writer_id=commit.writer_id or None,
        host=commit.host or None,
        purpose=note.purpose or None,
        invocation_id=note.invocation_id or None,
        seconds=note.seconds,
        references=dict(note.references) if ours else None,
        versions=dict(note.versions) if ours else None,
        newer=dict(note.newer) if ours else None,
        definition=note.definition or None,
    )


def _time(frontier: Antichain | None) -> int | None:
    return None if frontier is None else frontier.as_option()


def _upper(commit: CommitLine) -> str:
    return "final" if commit.final else time_text(commit.upper)


def _who(commit: CommitLine) -> str:
    return " ".join(part for part in (commit.host, (commit.writer_id or "")[:SHORT_ID]) if part)


def _read(commit: CommitLine) -> str:
    """``base as of 2026-11-20T15:00:00Z, raw version 4``: names without their schemas."""
    newer = commit.newer or {}
    tables = [
        f"{last_part(name)} version {version}" + (f" ({newer[name]})" if name in newer else "")
        for name, version in (commit.versions or {}).items()
    ]
    tables += [
        f"{last_part(name)} ({why})" for name, why in newer.items() if name not in (commit.versions or {})
    ]
    times = [f"{last_part(name)} as of {time_text(time)}" for name, time in (commit.references or {}).items()]
    return ", ".join([*times, *tables])


COLUMNS: list[TableColumn[CommitLine]] = [
    TableColumn("version", lambda c: str(c.version), right=True),
    TableColumn("when", lambda c: time_text(c.time)),
    TableColumn("kind", lambda c: c.kind),
    TableColumn("lower", lambda c: time_text(c.lower or None), optional=True),
    TableColumn("upper", _upper, optional=True),
    TableColumn("inserted", lambda c: count_text(c.rows_inserted or None), optional=True, right=True),
    TableColumn("deleted", lambda c: count_text(c.rows_deleted or None), optional=True, right=True),
    TableColumn("drift", lambda c: count_text(c.drift or None), optional=True, right=True),
    TableColumn("computed through", lambda c: time_text(c.computed_through), optional=True),
    TableColumn("read", _read, optional=True),
    TableColumn(
        "took", lambda c: "" if c.seconds is None else f"{c.seconds:.1f}s", optional=True, right=True
    ),
    TableColumn("why", lambda c: c.purpose or "", optional=True),
    TableColumn("who", _who, optional=True),
    TableColumn("definition", lambda c: c.definition or "", optional=True),
    TableColumn("invocation", lambda c: c.invocation_id or "", optional=True),
]


@click.command()
@takes_target
@count_option("--limit", LIMIT, "How many commits, the newest first.")
@click.option(
    "--all",
    "all_owners",
    is_flag=True,
    help="Find MODEL also among the shards of other projects and targets.",
)
@takes_output
@click.argument("model")
def history(target: Target, model: str, limit: int, all_owners: bool, output: str) -> None:
    """Who changed MODEL's shard, when, how and why.

    MODEL is a name as in ref(), a unique id, schema.identifier, or schema.identifier/_inputs/ID for
    the companion shard of a task's input. Only commits that the log still has are shown: Delta
    removes those older than its retention once they are in a checkpoint.

    Exit code: 0; 1 if the shard could not be read; 2 for wrong usage, such as an unknown model.
    """
    shards = find_shards(target)
    inputs = [companion for shard in choose(shards, target, (), all_owners) for companion in shard.inputs]
    shard = next((companion for companion in inputs if companion.relation == model), None)
    shard = shard or choose_one(shards, target, model, all_owners)
    reader, _ = shard.opened()
    try:
        with progress(f"reading the log of {shard.relation}"):
            commits = [commit_line(commit) for commit in reversed(reader.history(limit))]
    except Exception as error:  # a log may contain anything
        raise click.ClickException(f"{shard.relation}: {words(error)}") from error
    if output == Output.JSON.value:
        head = {"model": shard.model, "relation": shard.relation, "uri": masked(shard.uri)}
        write_json({**head, "commits": [asdict(commit) for commit in commits]})
    else:
        write_table(COLUMNS, commits)
