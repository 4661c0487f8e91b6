"""The dbt views that a model reads become parts of its query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.references.inlined import inlined
from dbt.adapters.mvsink.user_sql.words import parts


def with_view_texts(context: RunContext) -> RunContext:
    """The run with a query that has the texts of dbt's views in it, and reads what they read."""
    invocation, manifest = context.invocation, context.manifest
    views = {
        name: node
        for name, unique_id in invocation.references.items()
        if (node := _view(manifest, unique_id)) is not None
    }
    if not views:
        return context
    below = {parts(name) for node in views.values() for name in _below(manifest, node)}
    whole = inlined(
        context.engine,
        context.query,
        views,
        below.__contains__,
        context.options.deterministic_functions,
        invocation.id,
    )
    known = {parts(name) for name in invocation.references}
    names = {name: "" for name in whole.names if parts(name) not in known}
    reading = replace(invocation, references={**invocation.references, **names})
    return replace(context, query=whole.query, invocation=reading, views=whole.refused)


def _view(manifest: Any, unique_id: str) -> Any | None:
    """dbt's node of a view; None for any other."""
    node = manifest.nodes.get(unique_id)
    return node if node is not None and node.config.materialized == "view" else None


def _below(manifest: Any, view: Any) -> Iterator[str]:
    """The names of the views that a view reads, of those that they read in turn, and so on."""
    for node in _read(manifest, view.depends_on.nodes):
        yield from _names(node)
        yield from _below(manifest, node)


def _read(manifest: Any, unique_ids: Iterable[str]) -> Iterator[Any]:
    for unique_id in unique_ids:
        node = manifest.nodes.get(unique_id)
        if node is not None and node.config.materialized == "ephemeral":
            yield from _read(manifest, node.depends_on.nodes)
        elif _view(manifest, unique_id) is not None:
            yield node


def _names(node: Any) -> Iterator[str]:
    deferred = getattr(node, "defer_relation", None)
    yield from (each.relation_name for each in (node, deferred) if each is not None and each.relation_name)
