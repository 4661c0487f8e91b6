"""`mvsink rename`: a shard becomes another model's, without a file being moved.

The order makes every step safe to be the last, and the next call completes the others:

1. a file leads from the new name to the shard (`shard_place`);
2. one commit records the new owner and the new relation: from here on the new model's runs write
   it;
3. the new relation shows it;
4. the old relation becomes a view of the new one, or is dropped.

What others keep of the shard is by its id and its place, which stay: history, holds, tasks'
positions, subscribers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.engine import DataflowError, Engine, sql
from dbt.adapters.mvsink.materialization import grants
from dbt.adapters.mvsink.materialization import publish as views
from dbt.adapters.mvsink.materialization.publish import Docs
from dbt.adapters.mvsink.materialization.shard_place import pointer_path, pointer_text
from dbt.adapters.mvsink.shard import CommitNote, Storage, WriteHandle
from dbt.adapters.mvsink.shard_sql.properties import OWNER, ShownAs
from dbt.adapters.mvsink.shard_sql.published_view import PublishedView


class NameTaken(DataflowError):
    """The new name is another relation's."""

    error_code = "MVS-131"

    def __init__(self, relation: str):
        super().__init__(f"{relation} exists and does not show this shard: drop it or rename it first")


@dataclass(frozen=True)
class Name:
    """``schema.identifier`` and, as SQL names it, ``relation``. ``shown`` is the shard that it
    shows, and ``exists`` says whether there is anything of that name.
    """

    schema: str
    identifier: str
    relation: str
    exists: bool
    shown: PublishedView | None

    def __str__(self) -> str:
        return f"{self.schema}.{self.identifier}"

    def shows(self, handle: WriteHandle) -> bool:
        return self.shown is not None and self.shown.shard_id == str(handle.shard_id)


@dataclass(frozen=True)
class RenameRequest:
    """``model`` is the name of the model that it was, ``owner`` the new owner (project, unique id,
    target), ``root`` the shard root; ``by`` who asks for it. With ``view``, the old name stays as a
    view of the new one.
    """

    before: Name
    after: Name
    model: str
    owner: dict[str, str]
    root: str
    by: str
    view: bool


def rename(request: RenameRequest, handle: WriteHandle, roots: Storage, engine: Engine) -> None:
    """Rename the shard. ``roots`` is the storage of the shard root. Raises `NameTaken`."""
    before, after = request.before, request.after
    if after.exists and not after.shows(handle):
        raise NameTaken(after.relation)
    if handle.uri != f"{request.root}/{after.schema}/{after.identifier}":
        roots.write_text(pointer_path(after.schema, after.identifier), pointer_text(request.root, handle.uri))
    failpoints.reach("place noted")
    note = CommitNote(purpose=f"renamed from {before} to {after} by {request.by}")
    owner = json.dumps(request.owner, sort_keys=True)
    shown_as = ShownAs(str(after), str(before), request.model)
    handle.set_properties({OWNER: owner, **shown_as.properties()}, note)
    roots.delete([pointer_path(before.schema, before.identifier)])
    failpoints.reach("renamed")
    shown = before.shown if before.shows(handle) else None
    kept = grants.on_view(engine, before.relation) if shown is not None else ()
    _show_new(engine, after, handle, shown, kept)
    failpoints.reach("new name published")
    if before.shows(handle):
        _replace_old(engine, request)


def _show_new(
    engine: Engine,
    after: Name,
    handle: WriteHandle,
    shown: PublishedView | None,
    kept: Sequence[grants.Grant],
) -> None:
    """Have the new name show the shard, with what people put on the old one. If the model wants a
    table there, its next run makes it one.
    """
    if after.shown is not None and after.shown.table:
        return
    docs = Docs() if shown is None else Docs(shown.comment, dict(shown.column_comments), shown.properties)
    order = () if shown is None else shown.columns
    views.publish(engine, after.relation, handle, after.shown, docs, order)
    grants.restore(engine, after.relation, kept)


def _replace_old(engine: Engine, request: RenameRequest) -> None:
    old, table = request.before.relation, request.before.shown is not None and request.before.shown.table
    if table or not request.view:  # the files stay: they are the shard's
        engine.execute(f"drop {'table' if table else 'view'} if exists {old}", "publish")
    if request.view:
        comment = sql.constant(f"renamed to {request.after}")
        engine.execute(
            f"create or replace view {old} comment {comment} as select * from {request.after.relation}",
            "publish",
        )
