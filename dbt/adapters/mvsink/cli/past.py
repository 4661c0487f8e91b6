"""A shard whose history a command reads: its state, its log, and queries over its files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from dbt.adapters.mvsink.cli.dbt_runner import Dbt
from dbt.adapters.mvsink.cli.discovery import DiscoveredShard, choose_one, find_shards, progress, words
from dbt.adapters.mvsink.cli.target import Target
from dbt.adapters.mvsink.engine import DataflowError
from dbt.adapters.mvsink.history.errors import InvalidPoint
from dbt.adapters.mvsink.history.points import Point, resolve
from dbt.adapters.mvsink.history.shard_diff import InvalidKey, Query
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.shard import Commit, ReadHandle, ShardError, ShardState
from dbt.adapters.mvsink.shard_sql import Layout


@dataclass(frozen=True)
class ShardHistory:
    """A shard of ``target`` at its newest version, with the commits of its log, oldest first."""

    target: Target
    shard: DiscoveredShard
    reader: ReadHandle
    state: ShardState
    commits: Sequence[Commit]

    @property
    def name(self) -> str:
        """The model's."""
        return self.shard.model

    def point(self, text: str) -> Point:
        """See `history.points`."""
        with refused():
            return resolve(text, self.state, self.commits, self.name)

    def layout(self) -> Layout:
        """Its files as SQL."""
        with refused():
            return Layout.of(self.reader, self.state)


def open_past(target: Target, model: str) -> ShardHistory:
    """The only shard of ``target`` of that name. Raises click's errors."""
    shard = choose_one(find_shards(target), target, model)
    reader, state = shard.opened()
    try:
        with progress(f"reading the log of {shard.relation}"):
            return ShardHistory(target, shard, reader, state, reader.history())
    except Exception as error:  # a log may contain anything
        raise click.ClickException(f"{shard.relation}: {words(error)}") from error


@contextmanager
def refused() -> Iterator[None]:
    """Errors of the lower layers leave this block as click's: wrong usage, or a failure."""
    try:
        yield
    except (InvalidPoint, InvalidKey) as error:
        raise click.UsageError(masked(str(error))) from error
    except (DataflowError, ShardError) as error:
        raise click.ClickException(masked(str(error))) from error


def through_dbt(dbt: Dbt, manifest: Any) -> Query:
    """Queries through dbt's connection, whatever it is. Raises `DbtFailed`."""

    def query(text: str, what: str) -> Sequence[Sequence[object]]:
        request = json.dumps({"query": text, "what": what})
        output = dbt.operation("mvsink_read", {"request": request}, manifest)
        rows: list[list[object]] = json.loads(output.lines[-1])
        return rows

    return query


# With this click passes `-1` on as an argument; `check_arguments` finds misspelled options then.
POINTS_ARE_ARGUMENTS = {"ignore_unknown_options": True}


def check_arguments(context: click.Context, arguments: Sequence[str | None]) -> None:
    """Raises `click.NoSuchOption` for a misspelled option."""
    for argument in arguments:
        if argument and argument.startswith("-") and not argument[1:].isdigit():
            raise click.NoSuchOption(argument, ctx=context)


def point_values(point: Point) -> Mapping[str, Any]:
    """A point as JSON. Times are ms."""
    return {
        "point": point.text,
        "time": point.time,
        "invocation_id": point.run.invocation_id or None if point.run else None,
        "computed_through": point.run.computed_through if point.run else None,
    }
