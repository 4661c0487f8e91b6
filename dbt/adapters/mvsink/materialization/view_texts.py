"""The texts of dbt's views that a model reads: inlined into a view's query, and bound for a task.

For a task, shards below a dbt view are read as of the time of the change, like shards that the
statements name. When a statement is bound to a time, the view's query replaces the view; when
statements are checked, the view itself is read. A view that reads only other tables stays a view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from dbt.adapters.mvsink.continual_task.statements import Program
from dbt.adapters.mvsink.engine import EngineError, sql
from dbt.adapters.mvsink.inputs import ShardInput
from dbt.adapters.mvsink.inputs.reads import Reads, reads_of
from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.materialization.inlining_witness import (
    MISREAD,
    OTHERWISE,
    SHARED,
    TaskReadings,
    keeps_meaning,
)
from dbt.adapters.mvsink.materialization.task_inputs import Sources
from dbt.adapters.mvsink.references.inlined import Inlined, inlined
from dbt.adapters.mvsink.shard import ShardError
from dbt.adapters.mvsink.user_sql.words import parts


def with_view_texts(context: RunContext) -> RunContext:
    """The run with the texts of dbt's views inlined into its query."""
    views = views_read(context)
    if not views:
        return context
    whole = with_texts(context, context.query, views)
    if whole.query != context.query and not keeps_meaning(
        context, context.query, whole.query, _recorded(context)
    ):
        whole = _left_alone(context.query, views)
    return replace(context, query=whole.query, views=whole, own_text=context.query)


def _left_alone(query: str, views: Iterable[str]) -> Inlined:
    """``query`` with all of its views."""
    return Inlined(query, (), {parts(name)[-2:]: OTHERWISE for name in views})


def _recorded(context: RunContext) -> Callable[[str], int | None]:
    """The progress of the model's contents; nothing for a shard that is not there."""
    try:
        with context.client.open_reader(context.uri) as reader:
            return {name: reader.progress(name) for name in (SHARED, MISREAD)}.get
    except ShardError:
        return lambda name: None


def views_read(context: RunContext) -> list[str]:
    """The names of dbt's views that the model reads."""
    references = context.invocation.references
    return [name for name, unique_id in references.items() if _is_view(context.manifest, unique_id)]


def with_texts(context: RunContext, query: str, views: Sequence[str]) -> Inlined:
    """``query`` with the texts of ``views``, and of those below them."""
    manifest, references = context.manifest, context.invocation.references
    every = {parts(name) for node in _views(manifest, references.values()) for name in _names(node)}
    allowed = context.options.deterministic_functions.names
    return inlined(context.engine, query, views, every.__contains__, allowed, context.invocation.id)


def _is_view(manifest: Any, unique_id: str) -> bool:
    node = manifest.nodes.get(unique_id)
    return node is not None and node.config.materialized == "view"


def _views(manifest: Any, unique_ids: Iterable[str]) -> list[Any]:
    """dbt's views among these nodes, those that they read in turn, and so on, each once."""
    pending, known, views = list(unique_ids), set(), []
    while pending:
        unique_id = pending.pop()
        node = manifest.nodes.get(unique_id)
        if unique_id in known or node is None or node.config.materialized not in ("view", "ephemeral"):
            continue
        known.add(unique_id)
        views.append(node)
        pending.extend(node.depends_on.nodes)
    return views


def _names(node: Any) -> list[str]:
    """The names of a relation; none for an ephemeral model."""
    relations = (node, getattr(node, "defer_relation", None))
    return [each.relation_name for each in relations if each is not None and each.relation_name]


@dataclass(frozen=True)
class TaskViews:
    """``queries`` of views by name; they read ``shards``, which are listed by the names in these
    queries. ``warnings`` say which views are read in their current state, and why.
    """

    queries: Mapping[str, str] = field(default_factory=dict)
    shards: Mapping[str, ShardInput] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


def task_views(
    context: RunContext,
    program: Program,
    sources: Sources,
    known: Mapping[str, ShardInput],
    resources: ExitStack,
) -> TaskViews:
    """The views that ``program`` reads besides its input. ``known`` are the shards that it names
    itself; ``resources`` closes those that only views read.
    """
    own = {parts(program.input.name), parts(program.this)}
    queries: dict[str, str] = {}
    below: dict[tuple[str, ...], tuple[str, ShardInput]] = {
        parts(name): (name, shard) for name, shard in known.items()
    }
    refused: dict[tuple[str, ...], str] = {}
    named = {view: f"select * from {view}" for view in views_read(context) if parts(view) not in own}
    texts = {view: with_texts(context, query, [view]) for view, query in named.items()}
    readings = TaskReadings.of(context, [(named[view], whole.query) for view, whole in texts.items()])
    for view, whole in texts.items():
        if not readings.keeps_meaning(named[view], whole.query):
            whole = _left_alone(named[view], [view])
        refused.update(whole.refused)
        shards = False
        for name in whole.names:
            if parts(name) not in below:
                published = sources.published(name)
                if published is None:
                    continue
                shard = sources.shard(published.uri, context.model)
                resources.callback(shard.handle.expire)
                below[parts(name)] = name, shard
            shards = True
        if shards:
            queries[view] = whole.query
    more = {name: shard for name, shard in below.values() if name not in known}
    return TaskViews(queries, more, tuple(_warnings(context, sources, refused)), readings.properties)


def _warnings(context: RunContext, sources: Sources, refused: Mapping[tuple[str, ...], str]) -> Iterator[str]:
    for key, reason in refused.items():
        name = sql.qualified(key)
        if _may_read_shards(context, sources, name):
            yield (
                f"the view {name} is read in its current state, not as of the time of the change, although it may read shards: "
                f"its query cannot take its place, because {reason}"
            )


def _may_read_shards(context: RunContext, sources: Sources, view: str) -> bool:
    try:
        reads = reads_of(context.engine, f"select * from {view}")
    except EngineError:
        return True
    names = {*_views_below(reads), *reads.every_table}  # a published model may be a table
    return bool(reads.unknown) or any(sources.published(name) is not None for name in names)


def _views_below(reads: Reads) -> Iterator[str]:
    yield from reads.views
    for inner in reads.below.values():
        yield from _views_below(inner)
