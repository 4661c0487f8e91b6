"""Finds the shards of a target, opens them to read their logs, and selects some of them.

A shard of a target is the Delta table at ``<shard_root>/<schema>/<identifier>``, or has been there
before its model was renamed, which its log says. The companion
shards of a task's inputs are below it, at ``_inputs/<id>``, and the sums of a view at
``_sums/<id>``. Anything else there is ignored. A shard that cannot be read is listed with its
error, so that it does not hide the others.

Directories are listed through the store that also reads the logs. So a shard root is a path or any
URI that the `deltalake` package accepts (``s3://``, ``gs://``, ``abfss://``, ...), with the
profile's ``storage_options``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click
from rich.console import Console

from dbt.adapters.mvsink.cli.errors import (
    CommandFailed,
    NoSuchModel,
    SeveralModels,
    ShardUnreadable,
    failed,
    misused,
)
from dbt.adapters.mvsink.cli.target import Target
from dbt.adapters.mvsink.engine import DataflowError
from dbt.adapters.mvsink.error_codes import code_of
from dbt.adapters.mvsink.history.points import InvalidPoint, Point, resolve
from dbt.adapters.mvsink.history.shard_diff import InvalidKey
from dbt.adapters.mvsink.inputs.version_binding import INPUTS
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.physical import SUMS
from dbt.adapters.mvsink.shard import (
    Commit,
    NotAShard,
    ReadHandle,
    ShardClient,
    ShardError,
    ShardState,
    WriteHandle,
)
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.properties import owner_of, relation_of

LOG = "_delta_log"
THREADS = 8
TIMEOUT = 2.0  # seconds before a log that cannot be read is given up; a run waits longer
_CODE = re.compile(r"\bMVS-\d{3}\b")
T = TypeVar("T")
R = TypeVar("R")


class SelectedModel(str):
    """A model's unique id that a selector gave, not the user: without a shard it is left out."""


@dataclass(frozen=True)
class Owner:
    """The owner of a shard: a model (dbt's unique id) of a project, in a target."""

    project: str
    unique_id: str
    target: str

    @property
    def model(self) -> str:
        """The model's name as in ``ref()``; `orders.v2` for a version."""
        return self.unique_id.split(".", 2)[-1]


@dataclass(frozen=True)
class DiscoveredShard:
    """A shard with its ``reader`` and ``state``, or with the ``error`` that prevented reading it.

    ``relation`` is ``schema.identifier``, of the relation that shows it; for a companion shard, the
    task's relation followed by ``/_inputs/<id>``, and for sums the view's followed by
    ``/_sums/<id>``.
    """

    relation: str
    uri: str
    reader: ReadHandle | None = None
    state: ShardState | None = None
    owner: Owner | None = None
    error: str = ""
    inputs: tuple[DiscoveredShard, ...] = ()
    sums: tuple[DiscoveredShard, ...] = ()

    @property
    def model(self) -> str:
        """The name of its model; the relation's name if the model is not known."""
        return self.owner.model if self.owner else self.relation

    @property
    def argument(self) -> dict[str, str]:
        """The shard as an argument of the adapter's macros."""
        schema, _, identifier = self.relation.rpartition(".")  # a schema may be `catalog.schema`
        return {"schema": schema, "identifier": identifier, "uri": self.uri}

    @property
    def place(self) -> dict[str, str]:
        """Where it is, as JSON."""
        return {"model": self.model, "relation": self.relation, "uri": masked(self.uri)}

    def opened(self) -> tuple[ReadHandle, ShardState]:
        """Its reader and state; `click.ClickException` with the error."""
        if self.reader is None or self.state is None:
            raise ShardUnreadable(f"{self.relation}: {self.error}")
        return self.reader, self.state


def find_shards(target: Target) -> list[DiscoveredShard]:
    """All shards below ``target.shards``, in the order of their names. Raises
    `click.ClickException` if they cannot be listed.
    """
    store = DeltaStorage(target.shards, target.storage_options)
    client = ShardClient(target.storage_options, timeout=TIMEOUT)
    with failing(f"cannot list the shards below {masked(target.shards)}"):  # stores raise all kinds
        schemas = store.directories()
        places = [(schema, name) for schema in schemas for name in store.directories(schema)]

    def discover(place: tuple[str, str]) -> DiscoveredShard | None:
        return _discover(target, store, client, *place)

    with progress(f"reading {len(places)} shards"):
        return [shard for shard in in_parallel(discover, places) if shard is not None]


def _discover(
    target: Target, store: DeltaStorage, client: ShardClient, schema: str, name: str
) -> DiscoveredShard | None:
    relation, uri = f"{schema}.{name}", f"{target.shards}/{schema}/{name}"
    try:
        below = store.directories(f"{schema}/{name}")
        if LOG not in below:
            return None
        places = {
            place: store.directories(f"{schema}/{name}/{place}") if place in below else []
            for place in (INPUTS, SUMS)
        }
    except Exception as error:
        return DiscoveredShard(relation, uri, error=coded(error))
    shard = _open(client, relation, uri)
    if shard is None:
        return None
    if shard.state is not None:  # it may have been renamed
        shown = relation_of(shard.state)
        shard = replace(shard, relation=relation if shown is None else shown.name)
    inputs, sums = (
        tuple(
            companion
            for each in places[place]
            if (companion := _open(client, f"{shard.relation}/{place}/{each}", f"{uri}/{place}/{each}"))
        )
        for place in (INPUTS, SUMS)
    )
    return replace(shard, inputs=inputs, sums=sums)


def _open(client: ShardClient, relation: str, uri: str) -> DiscoveredShard | None:
    """The shard at ``uri``, or the error of reading it; None if it is not a shard."""
    try:
        reader = client.open_reader(uri)
        state = reader.state()
        stored = owner_of(state)
        owner = Owner(stored["project"], stored["unique_id"], stored["target"]) if stored else None
    except NotAShard:
        return None
    except Exception as error:  # a broken shard must not hide the others
        return DiscoveredShard(relation, uri, error=coded(error))
    return DiscoveredShard(relation, uri, reader, state, owner)


def choose(
    shards: Sequence[DiscoveredShard], target: Target, models: Sequence[str], all_owners: bool = False
) -> list[DiscoveredShard]:
    """Those of ``shards`` that are of this project and target, or of any with ``all_owners``. If
    ``models`` are named, only theirs.

    A model is named as in ``ref()``, by its unique id, or as ``schema.identifier``. An unknown name
    raises `click.UsageError`, which lists the known ones. A shard that cannot be read has no known
    owner, so it counts as one of this project.
    """
    visible = [shard for shard in shards if all_owners or shard.owner is None or _is_mine(shard, target)]
    visible = [shard for shard in visible if all_owners or shard.owner or shard.error]
    for model in models:
        if not isinstance(model, SelectedModel) and not any(model in names(shard) for shard in visible):
            known = ", ".join(sorted({shard.model for shard in visible})) or "none"
            raise NoSuchModel(f"no shard of a model {model!r} below {masked(target.shards)}. Known: {known}")
    return [shard for shard in visible if not models or any(model in names(shard) for model in models)]


def choose_one(
    shards: Sequence[DiscoveredShard], target: Target, model: str, all_owners: bool = False
) -> DiscoveredShard:
    """The only shard that `choose` returns for ``model``. Raises `click.UsageError` if there are
    several.
    """
    chosen = choose(shards, target, (model,), all_owners)
    if len(chosen) > 1:
        relations = ", ".join(shard.relation for shard in chosen)
        raise SeveralModels(f"{model!r} has several shards; name one of {relations}")
    return chosen[0]


def names(shard: DiscoveredShard) -> set[str]:
    """The names of a shard; if its model is not known, its identifier is one of them."""
    return {
        shard.relation,
        shard.model,
        shard.owner.unique_id if shard.owner else shard.relation.split(".", 1)[1],
    }


def _is_mine(shard: DiscoveredShard, target: Target) -> bool:
    return shard.owner is not None and (shard.owner.project, shard.owner.target) == (
        target.project,
        target.name,
    )


def in_parallel(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """The results of ``function`` for all items, in their order. `THREADS` run at a time, because
    logs may be remote.
    """
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(function, items))


@contextmanager
def progress(doing: str) -> Iterator[None]:
    """Show this text on stderr during the block, if stderr is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(doing):
        yield


def words(error: BaseException) -> str:
    """The first line of an error's text, because some libraries append a stack trace."""
    return masked(next(iter(str(error).strip().splitlines()), type(error).__name__))


def coded(error: BaseException) -> str:
    """The same, behind the error's code; dbt's text may have one already."""
    code, text = code_of(error), words(error)
    return f"{code}: {text}" if code and not _CODE.search(text) else text


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
        """The model's name."""
        return self.shard.model

    def point(self, text: str) -> Point:
        """The point in time that the user wrote as ``text`` (`history.points`)."""
        with refused():
            kept = self.reader.kept_generations(self.state)
            return resolve(text, self.state, self.commits, self.name, kept)

    def layout(self, point: Point | None = None) -> Layout:
        """The shard's files, sorted into the parts that SQL reads; those of the generation of the
        ``point``, by default of the present one.
        """
        earlier = None if point is None else point.earlier
        with refused():
            return Layout.of(self.reader, earlier or self.state)


def open_past(target: Target, model: str) -> ShardHistory:
    """The shard of that model in ``target``, with its history. Raises click's errors, also if there
    are several.
    """
    shard = choose_one(find_shards(target), target, model)
    reader, state = shard.opened()
    with failing(shard.relation), progress(f"reading the log of {shard.relation}"):
        return ShardHistory(target, shard, reader, state, reader.history())


@contextmanager
def failing(what: str, errors: tuple[type[Exception], ...] = (Exception,)) -> Iterator[None]:
    """Raise these errors of the block as `click.ClickException`, with ``what`` before the text."""
    try:
        yield
    except errors as error:
        raise CommandFailed(f"{what}: {words(error)}", code_of(error)) from error


@contextmanager
def writing(
    target: Target, shard: DiscoveredShard, purpose: str, name: str | None = None
) -> Iterator[WriteHandle]:
    """A handle that commits to the shard. Errors of the shard are raised as `click.ClickException`
    with its ``name`` before their text, which is the relation by default.
    """
    with failing(name or shard.relation, (ShardError,)):
        reader = ShardClient(target.storage_options).open_reader(shard.uri)
        with WriteHandle.from_read(reader, purpose) as handle:
            yield handle


@contextmanager
def refused() -> Iterator[None]:
    """Raise errors of the lower layers as click's: a `UsageError` for what the user wrote wrongly,
    a `ClickException` for the rest.
    """
    try:
        yield
    except (InvalidPoint, InvalidKey) as error:
        raise misused(error) from error
    except (DataflowError, ShardError) as error:
        raise failed(error) from error


# With this, click takes `-1` for an argument. It then also takes misspelled options for arguments,
# which `check_arguments` finds.
POINTS_ARE_ARGUMENTS = {"ignore_unknown_options": True}


def check_arguments(arguments: Sequence[str | None]) -> None:
    """Raises `click.NoSuchOption` for a misspelled option."""
    for argument in arguments:
        if argument and argument.startswith("-") and not argument[1:].isdigit():
            raise click.NoSuchOption(argument, ctx=click.get_current_context())


def point_values(point: Point) -> Mapping[str, Any]:
    """A point as JSON. Times are ms."""
    return {
        "point": point.text,
        "time": point.time,
        "invocation_id": point.run.invocation_id or None if point.run else None,
        "computed_through": point.run.computed_through if point.run else None,
    }
