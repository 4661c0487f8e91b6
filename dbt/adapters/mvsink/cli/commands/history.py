"""`mvsink history MODEL`: who changed a model, when, how and why, as far as its log goes, newest
first. Commits that keep the shard in order are left out, unless all are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from dbt.adapters.mvsink.cli.discovery import (
    DiscoveredShard,
    choose,
    choose_one,
    failing,
    find_shards,
    in_parallel,
    progress,
    words,
)
from dbt.adapters.mvsink.cli.errors import WrongUsage
from dbt.adapters.mvsink.cli.render import (
    Printer,
    TableColumn,
    Values,
    author_text,
    count_option,
    count_text,
    takes_output,
    time_text,
)
from dbt.adapters.mvsink.cli.runs import (
    definition_diff,
    is_ours,
    message,
    previous_definitions,
    runs_of,
    shortened,
    way,
)
from dbt.adapters.mvsink.cli.target import Target, takes_target
from dbt.adapters.mvsink.shard import Antichain, Commit
from dbt.adapters.mvsink.user_sql.words import last_part

SHORT_ID = 8  # characters of a writer's id
LIMIT = 20


def commit_values(commit: Commit) -> dict[str, Any]:
    """A commit as JSON; for the names of the note see `CommitNote`. Times are ms.

    ``lower`` and ``upper`` are None if the commit did not move the upper. ``final`` says that it
    moved the upper to the empty frontier, after which nothing is written. Commits of other engines
    have None for what only this adapter records.
    """
    note = commit.note
    ours = is_ours(commit)
    return {
        "version": commit.version,
        "time": commit.timestamp,
        "kind": commit.kind,
        "lower": _time(commit.lower),
        "upper": _time(commit.upper),
        "final": commit.upper is not None and commit.upper.is_empty(),
        "rows_inserted": note.rows_inserted if ours else None,
        "rows_deleted": note.rows_deleted if ours else None,
        "drift": note.drift if ours else None,
        "computed_through": note.computed_through,
        "writer_id": commit.writer_id or None,
        "host": commit.host or None,
        "purpose": note.purpose or None,
        "invocation_id": note.invocation_id or None,
        "seconds": note.seconds,
        "references": dict(note.read.times) if ours else None,
        "versions": dict(note.read.versions) if ours else None,
        "newer": dict(note.read.newer) if ours else None,
        "definition": note.definition or None,
        "way": way(commit),
        "reason": note.reason or None,
        "author": dict(commit.author) or None,
    }


def _time(frontier: Antichain | None) -> int | None:
    return None if frontier is None else frontier.as_option()


def _read(commit: Values) -> str:
    """What a run read: ``base as of 2026-11-20T15:00:00Z, raw version 4``, without schemas."""
    times, versions, newer = (commit[key] or {} for key in ("references", "versions", "newer"))
    texts = [f"{last_part(name)} as of {time_text(time)}" for name, time in times.items()]
    for name, version in versions.items():
        texts.append(f"{last_part(name)} version {version}" + (f" ({newer[name]})" if name in newer else ""))
    texts += [f"{last_part(name)} ({why})" for name, why in newer.items() if name not in versions]
    return ", ".join(texts)


def _who(commit: Values) -> str:
    writer = " ".join(filter(None, (commit["host"], (commit["writer_id"] or "")[:SHORT_ID])))
    return author_text(commit["author"]) or writer


def _count(name: str) -> TableColumn[Values]:
    title = name.removeprefix("rows_")
    return TableColumn(title, lambda c: count_text(c[name] or None), optional=True, right=True)


def _optional(title: str, name: str) -> TableColumn[Values]:
    return TableColumn(title, lambda c: c[name] or "", optional=True)


ALL_COLUMNS: list[TableColumn[Values]] = [
    TableColumn("version", lambda c: str(c["version"]), right=True),
    TableColumn("when", lambda c: time_text(c["time"])),
    TableColumn("kind", lambda c: str(c["kind"])),
    TableColumn("lower", lambda c: time_text(c["lower"] or None), optional=True),
    TableColumn("upper", lambda c: "final" if c["final"] else time_text(c["upper"]), optional=True),
    *map(_count, ("rows_inserted", "rows_deleted", "drift")),
    TableColumn("computed through", lambda c: time_text(c["computed_through"]), optional=True),
    TableColumn("read", _read, optional=True),
    TableColumn(
        "took", lambda c: "" if c["seconds"] is None else f"{c['seconds']:.1f}s", optional=True, right=True
    ),
    _optional("why", "purpose"),
    TableColumn("who", _who, optional=True),
    TableColumn("command", lambda c: (c["author"] or {}).get("command", ""), optional=True),
    TableColumn("link", lambda c: (c["author"] or {}).get("link", ""), optional=True),
    _optional("definition", "definition"),
    _optional("invocation", "invocation_id"),
]


WHEN: TableColumn[Values] = TableColumn("when", lambda c: time_text(c["time"] // 1000 * 1000))
COLUMNS: list[TableColumn[Values]] = [
    WHEN,
    TableColumn("+", lambda c: count_text(c["rows_inserted"]), optional=True, right=True),
    TableColumn("-", lambda c: count_text(c["rows_deleted"]), optional=True, right=True),
    TableColumn("way", lambda c: c["way"] or ""),
    TableColumn("took", lambda c: "" if c["seconds"] is None else f"{c['seconds']:.1f}s", True, right=True),
    TableColumn("who", _who, optional=True),
    TableColumn("message", lambda c: c["message"], optional=True),
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
@click.option(
    "--all-commits",
    is_flag=True,
    help="Every commit of the log, with its bounds, what it read, and its definition.",
)
@takes_output
@click.argument("model", required=False)
def history(
    target: Target, model: str | None, limit: int, all_owners: bool, all_commits: bool, output: Printer
) -> None:
    """Who changed MODEL, when, how and why: runs, pauses, undos, and writes of other tools.

    Without a MODEL, the newest of all models of this project and target, in the order of time.

    MODEL is a name as in ref(), a unique id, schema.identifier, or schema.identifier/_inputs/ID for
    the companion shard of a task's input. `new query` is the first run by another definition; what
    differs in its text is below the table. Only what the log still has is shown: Delta removes
    commits older than its retention once they are in a checkpoint.

    Exit code: 0; 1 if the shard could not be read; 2 for wrong usage, such as an unknown model.

    \b
    Examples:
      mvsink history
      mvsink history orders
      mvsink history orders --limit 50 --output json
      mvsink history orders --all-commits
    """
    shards = find_shards(target)
    if model is None:
        if all_commits:
            raise WrongUsage("--all-commits shows the log of one model: name it")
        _of_all(choose(shards, target, (), all_owners), target, limit, output)
        return
    inputs = [companion for shard in choose(shards, target, (), all_owners) for companion in shard.inputs]
    shard = next((companion for companion in inputs if companion.relation == model), None)
    shard = shard or choose_one(shards, target, model, all_owners)
    reader, _ = shard.opened()
    with failing(shard.relation), progress(f"reading the log of {shard.relation}"):
        commits = reader.history(limit) if all_commits else runs_of(reader, limit + 1)
        before, values = previous_definitions(commits), _values(commits)[-limit:]
        for each in values:
            if each["version"] in before and before[each["version"]] != each["definition"]:
                each["diff"] = definition_diff(reader, commits, each["version"])
    values.reverse()
    output.json({**shard.place, "commits": values})
    output.table(ALL_COLUMNS if all_commits else COLUMNS, values)
    for each in values:
        if each["diff"]:
            output.text(
                f"new query at {time_text(each['time'] // 1000 * 1000)}:", *shortened(each["diff"]), ""
            )


def _values(commits: Sequence[Commit]) -> list[dict[str, Any]]:
    """Commits as JSON, with what is to say of each. ``commits`` are in order."""
    before = previous_definitions(commits)
    return [
        {**commit_values(commit), "message": message(commit, before.get(commit.version)), "diff": None}
        for commit in commits
    ]


def _of_all(shards: Sequence[DiscoveredShard], target: Target, limit: int, output: Printer) -> None:
    """Show the newest ``limit`` of what happened to all these shards. What cannot be read is left
    out: `status` shows it.
    """

    def newest(shard: DiscoveredShard) -> list[dict[str, Any]]:
        if shard.reader is None:
            return []
        try:
            values = _values(runs_of(shard.reader, limit + 1))[-limit:]
        except Exception as error:
            click.echo(f"{shard.relation}: {words(error)}", err=True)
            return []
        return [{"model": shard.model, "relation": shard.relation, **each} for each in values]

    with progress(f"reading {len(shards)} logs"):
        values = [each for listed in in_parallel(newest, shards) for each in listed]
    values.sort(key=lambda each: int(each["time"]), reverse=True)
    output.json({"project": target.project, "target": target.name, "commits": values[:limit]})
    output.table([WHEN, TableColumn("model", lambda c: str(c["model"])), *COLUMNS[1:]], values[:limit])
