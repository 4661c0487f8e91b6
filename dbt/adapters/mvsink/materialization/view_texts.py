"""Puts the text of the dbt views that a model reads into its query."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.references.inlined import inlined
from dbt.adapters.mvsink.user_sql.words import parts


def with_view_texts(context: RunContext) -> RunContext:
    """The run with a query that has the texts of dbt's views in it."""
    manifest, references = context.manifest, context.invocation.references
    views = [name for name, unique_id in references.items() if _is_view(manifest, unique_id)]
    if not views:
        return context
    every = {parts(name) for node in _views(manifest, references.values()) for name in _names(node)}
    whole = inlined(
        context.engine,
        context.query,
        views,
        every.__contains__,
        context.options.deterministic_functions,
        context.invocation.id,
    )
    return replace(context, query=whole.query, views=whole)


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
