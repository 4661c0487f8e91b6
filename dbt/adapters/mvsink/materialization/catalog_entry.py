"""What the catalog has under a model's name: a view of the shard's rows or, where the session knows
Delta, the model's own table.

    file_format: view     schema.model is a view, which each change replaces
    file_format: delta    schema.model is the table at <shard>/table; its entry stays as it is

A view cannot become a table in one statement: it is dropped, and then the table is created. In
between there is nothing of that name. If a run is killed there, the next one creates the entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.engine import Engine, sql
from dbt.adapters.mvsink.engine.session import setting
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.materialization import grants
from dbt.adapters.mvsink.materialization import publish as views
from dbt.adapters.mvsink.materialization.opening import Opened
from dbt.adapters.mvsink.materialization.publish import Docs
from dbt.adapters.mvsink.materialization.publish_table import (
    ModelTable,
    brought_up_to_date,
    publish_table,
    withdraw_table,
)
from dbt.adapters.mvsink.published.formats import DELTA
from dbt.adapters.mvsink.shard import WriteHandle
from dbt.adapters.mvsink.shard_sql.published_view import PublishedView, read_if_there

SESSION_CATALOG, KNOWS_DELTA = "spark.sql.catalog.spark_catalog", "DeltaCatalog"


@dataclass(frozen=True)
class CatalogEntry:
    """What a run made of the entry. It is a ``table`` or else a view, and ``replaced`` says that
    the view was published again.
    """

    table: bool
    replaced: bool = False
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def publish_entry(opened: Opened, docs: Docs) -> CatalogEntry:
    """Make the catalog's entry show the shard, and before it the model's table, if it is to have
    one.
    """
    docs = docs.of_columns(opened.columns)
    order = _order(opened)
    table = publish_table(opened, docs, order)
    if table.place and _is_delta(opened) and in_catalog(opened.context.engine):
        notes = (*_show_table(opened, table), *table.notes)
        return CatalogEntry(True, notes=(*notes, *withdraw_table(opened)), warnings=table.warnings)
    replaced = _show_view(opened, docs, order)
    made = (_made(opened, masked(table.place)),) if table.first else ()
    return CatalogEntry(False, replaced, (*made, *table.notes, *withdraw_table(opened)), table.warnings)


def _order(opened: Opened) -> Sequence[str]:
    """The columns in the query's order. As long as a changed query is not in effect, they stay in
    that of the query before.
    """
    shown = opened.context.published
    if shown is not None and shown.columns and opened.new_query:
        return shown.columns
    return [column.name for column in opened.columns]


def _is_delta(opened: Opened) -> bool:
    """Whether the model wants a Delta table, which Spark's own catalog can have."""
    wanted = opened.context.table_format
    return wanted is not None and wanted.name == DELTA


def _made(opened: Opened, place: str) -> str:
    wanted = opened.context.table_format
    words, entry = (wanted.words, wanted.entry) if wanted else ("", "")
    listed = f", `{entry}` in the Iceberg catalog" if entry else ""
    return f"published as {words} (file_format) at {place}{listed}"


def republish(
    engine: Engine,
    relation: str,
    handle: WriteHandle,
    shown: PublishedView,
    catalog: Mapping[str, str] | None,
) -> tuple[str, ...]:
    """Make what is ``shown`` show what another command wrote to the shard. ``catalog``: the
    properties of the Iceberg catalog. Returns warnings.
    """
    table = brought_up_to_date(engine, handle, shown.columns, Docs(), catalog)
    if not shown.table:
        views.publish(engine, relation, handle, shown, Docs(), shown.columns)
    return table.warnings


def in_catalog(engine: Engine) -> bool:
    """Whether the session's catalog can hold a Delta table."""
    return KNOWS_DELTA in setting(engine, SESSION_CATALOG)


def _show_table(opened: Opened, table: ModelTable) -> tuple[str, ...]:
    """Make the entry the table. Returns notes."""
    context, shown = opened.context, opened.context.published
    if shown is not None and shown.table and shown.uri == opened.handle.uri:
        return ("published as a Delta table (file_format)",) if table.first else ()
    engine, relation = context.engine, str(context.relation)
    existing = grants.on_view(engine, relation) if shown is not None else ()
    kind = "table" if shown is not None and shown.table else "view"
    engine.execute(f"drop {kind} if exists {relation}", "publish")
    failpoints.reach("entry dropped")
    engine.execute(f"create table {relation} using delta location {sql.constant(table.place)}", "publish")
    grants.restore(engine, relation, existing)
    failpoints.reach("table in the catalog")
    no_view = ", no longer a view" if kind == "view" and shown is not None else ""
    return (f"published as a Delta table (file_format){no_view}",)


def _show_view(opened: Opened, docs: Docs, order: Sequence[str]) -> bool:
    """Publish the view if that is needed; returns whether it was."""
    context, handle, state = opened.context, opened.handle, opened.handle.state()
    engine, relation, shown = context.engine, str(context.relation), context.published
    if (
        shown is not None
        and shown.listed
        and not (docs.nothing and views.is_current(shown, state, docs, order))
    ):
        shown = read_if_there(engine, relation)  # with all that is on it
    if views.is_current(shown, state, docs, order):
        return False
    existing = grants.on_view(engine, relation) if shown is not None and shown.table else ()
    if shown is not None and shown.table:  # the files stay: they are the shard's
        engine.execute(f"drop table if exists {relation}", "publish")
    views.publish(engine, relation, handle, shown, docs, order)
    grants.restore(engine, relation, existing)
    failpoints.reach("view published")
    return True
