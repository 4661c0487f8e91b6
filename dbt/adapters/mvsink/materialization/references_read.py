"""What a view's query reads at fixed times and versions, and what it reads as it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dbt.adapters.mvsink.engine.session import is_local_session
from dbt.adapters.mvsink.inputs.described import quoted
from dbt.adapters.mvsink.inputs.protocol import TableOptions
from dbt.adapters.mvsink.inputs.reference import References, Refresh
from dbt.adapters.mvsink.inputs.table_versions import TableVersions
from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.materialization.evidence import InputEvidence
from dbt.adapters.mvsink.references.resolve import find_references
from dbt.adapters.mvsink.user_sql.words import last_part


def references_of(context: RunContext, refresh: Refresh | None) -> References:
    """What the query reads at a time or a version. ``refresh``: what the run is for."""
    engine, client, sources = context.engine, context.client, context.invocation.sources
    versions = _versions(context, refresh)
    return find_references(engine, client, context.query, context.relations, versions, sources)


def as_said(context: RunContext, references: References, evidence: InputEvidence) -> References:
    """``references`` that also say which tables with versions are read as they are, below a view,
    although they are newer than the refresh.
    """
    refresh = references.refresh
    if refresh is None or refresh.time is None or refresh.own:
        return references
    below = dict(_below_views(context, refresh, evidence))
    return replace(references, newer={**references.newer, **below}) if below else references


def _below_views(context: RunContext, refresh: Refresh, evidence: InputEvidence) -> Iterator[tuple[str, str]]:
    versions, views = _versions(context, refresh), evidence.reads.below
    for table in evidence.tables_as_they_are:
        view = next((view for view, reads in views.items() if table.name in reads.every_table), None)
        if view is not None and versions.written_since(quoted(table.name), table.kind, refresh):
            yield table.name, f"it is read through the view {last_part(view)}"


def _versions(context: RunContext, refresh: Refresh | None) -> TableVersions:
    """On other machines' files only Spark looks."""
    local = refresh is not None and context.embedded and is_local_session(context.engine)
    options = TableOptions(context.engine, context.storage_options, local=local)
    return TableVersions(options, context.invocation.id, refresh)
