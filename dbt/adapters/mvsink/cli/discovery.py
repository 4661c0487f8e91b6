"""Finding shards, opening them to read their logs, and choosing among them.

A shard of a target is the Delta table at ``<shard_root>/<schema>/<identifier>``; those that a task
keeps of its inputs are below it, at ``_inputs/<id>``. Anything else there is passed over. What
cannot be read is an answer too: the others are still told.

Places are listed through the store that the logs are in: paths, and every URI that the `deltalake`
package takes (``s3://``, ``gs://``, ``abfss://``, ...), with the profile's ``storage_options``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import click
from rich.console import Console

from dbt.adapters.mvsink.cli.target import Place
from dbt.adapters.mvsink.inputs.companion import INPUTS
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.shard import NotAShard, ReadHandle, ShardClient, ShardState
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from dbt.adapters.mvsink.shard_sql.properties import owner_of

LOG = "_delta_log"
THREADS = 8
PATIENCE = 2.0  # seconds for a log that cannot be read: a run waits, somebody who asks does not
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Owner:
    """Whom a shard belongs to: a model (dbt's unique id), of a project, in a target."""

    project: str
    unique_id: str
    target: str

    @property
    def model(self) -> str:
        """The model's name as in ``ref()``; `orders.v2` for a version."""
        return self.unique_id.split(".", 2)[-1]


@dataclass(frozen=True)
class FoundShard:
    """A shard, read or not: either ``reader`` and ``state`` are there, or ``error`` says why not.

    ``relation`` is ``schema.identifier``; for what a task keeps of an input, that of the task and
    ``/_inputs/<id>``.
    """

    relation: str
    uri: str
    reader: ReadHandle | None = None
    state: ShardState | None = None
    owner: Owner | None = None
    error: str = ""
    inputs: tuple[FoundShard, ...] = ()

    @property
    def model(self) -> str:
        """The name of its model; where the shard does not tell, its relation's."""
        return self.owner.model if self.owner else self.relation


def find_shards(place: Place) -> list[FoundShard]:
    """All shards of ``place``, whosoever they are, by relation. Raises `click.ClickException` if
    the place cannot be listed.
    """
    store = DeltaStorage(place.shards, place.storage_options)
    client = ShardClient(place.storage_options, timeout=PATIENCE)
    try:
        schemas = store.directories()
        places = [(schema, name) for schema in schemas for name in store.directories(schema)]
    except Exception as error:  # whatever a store raises: there is nothing to go on with
        raise click.ClickException(
            f"cannot list the shards below {masked(place.shards)}: {words(error)}"
        ) from error

    def look(at: tuple[str, str]) -> FoundShard | None:
        return _look(place, store, client, *at)

    with progress(f"reading {len(places)} shards"):
        return [shard for shard in in_parallel(look, places) if shard is not None]


def _look(
    place: Place, store: DeltaStorage, client: ShardClient, schema: str, name: str
) -> FoundShard | None:
    relation, uri = f"{schema}.{name}", f"{place.shards}/{schema}/{name}"
    try:
        below = store.directories(f"{schema}/{name}")
        if LOG not in below:
            return None
        inputs = store.directories(f"{schema}/{name}/{INPUTS}") if INPUTS in below else []
    except Exception as error:
        return FoundShard(relation, uri, error=words(error))
    companions = (_open(client, f"{relation}/{INPUTS}/{id}", f"{uri}/{INPUTS}/{id}") for id in inputs)
    return _open(client, relation, uri, tuple(shard for shard in companions if shard is not None))


def _open(
    client: ShardClient, relation: str, uri: str, inputs: tuple[FoundShard, ...] = ()
) -> FoundShard | None:
    """The shard there, or what keeps it from being read; None if it is a Delta table of somebody
    else's, or none.
    """
    try:
        reader = client.open_reader(uri)
        state = reader.state()
        told = owner_of(state)
        owner = Owner(told["project"], told["unique_id"], told["target"]) if told else None
    except NotAShard:
        return None
    except Exception as error:  # one shard, whatever is wrong with it, must not hide the others
        return FoundShard(relation, uri, error=words(error), inputs=inputs)
    return FoundShard(relation, uri, reader, state, owner, inputs=inputs)


def choose(
    found: Sequence[FoundShard], place: Place, models: Sequence[str], everybody_s: bool = False
) -> list[FoundShard]:
    """The shards of this project and target, or ``everybody_s``; of the ``models`` that are named,
    if any are.

    A model is named as in ``ref()``, by its unique id, or as ``schema.identifier``. Raises
    `click.UsageError` with the known ones for a name that none has. A shard that cannot be read
    does not tell whose it is and always counts.
    """
    visible = [shard for shard in found if everybody_s or shard.owner is None or _is_mine(shard, place)]
    visible = [shard for shard in visible if everybody_s or shard.owner or shard.error]
    for model in models:
        if not any(model in names(shard) for shard in visible):
            known = ", ".join(sorted({shard.model for shard in visible})) or "none"
            raise click.UsageError(
                f"no shard of a model {model!r} below {masked(place.shards)}. Known: {known}"
            )
    return [shard for shard in visible if not models or any(model in names(shard) for model in models)]


def names(shard: FoundShard) -> set[str]:
    """What a shard may be called by; one that does not tell its model, by its identifier too."""
    return {
        shard.relation,
        shard.model,
        shard.owner.unique_id if shard.owner else shard.relation.split(".", 1)[1],
    }


def _is_mine(shard: FoundShard, place: Place) -> bool:
    return shard.owner is not None and (shard.owner.project, shard.owner.target) == (
        place.project,
        place.target,
    )


def in_parallel(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """``function`` of each item, in order; a few at a time, because a log may be far away."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(function, items))


@contextmanager
def progress(doing: str) -> Iterator[None]:
    """A line on a terminal's stderr while something takes its time; nothing anywhere else."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(doing):
        yield


def words(error: BaseException) -> str:
    """What an error says, without the stack that some libraries put below it."""
    return masked(next(iter(str(error).strip().splitlines()), type(error).__name__))
