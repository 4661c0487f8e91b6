"""Puts the text of the dbt views that a model reads into its query, or finds it for a task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.references.inlined import Inlined, inlined
from dbt.adapters.mvsink.user_sql.words import parts


def with_view_texts(context: RunContext) -> RunContext:
    """The run with a query that has the texts of dbt's views in it."""
    views = views_read(context)
    if not views:
        return context
    whole = with_texts(context, context.query, views)
    return replace(context, query=whole.query, views=whole, own_text=context.query)


def views_read(context: RunContext) -> list[str]:
    """The names of dbt's views among what the model reads."""
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
    """What a relation is called; none of an ephemeral model."""
    relations = (node, getattr(node, "defer_relation", None))
    return [each.relation_name for each in relations if each is not None and each.relation_name]
