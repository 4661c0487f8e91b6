"""`audit: {scope: changes}`: which of a model's audits need to check only changed rows.

They are those that the added rows decide (`user_sql.deciding_rows`), provided that the contents
before have passed the same audit without a failure. An audit is the same if its text, the session's
ANSI mode and time zone, and the other relations that it reads are the same: its digest covers all
of these. A parent of `relationships` has to be a published shard, whose view names the version that
it shows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.engine.session import session_of
from dbt.adapters.mvsink.materialization.audits import CompiledTest
from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.materialization.definition import ansi_mode
from dbt.adapters.mvsink.shard_sql.published_view import UnreadableView, read_published
from dbt.adapters.mvsink.sink import AuditScope
from dbt.adapters.mvsink.user_sql.deciding_rows import deciding_rows

COUNT = "count(*)"  # the `fail_calc` that is 0 only without failing rows
Shown = Callable[[str], str]  # what identifies the contents of a relation, or ""


def narrowed(context: RunContext, tests: Sequence[CompiledTest]) -> list[CompiledTest]:
    """``tests`` with their scopes, or why they look at all rows. Asks the engine for its settings,
    and for the parents.
    """
    engine = context.engine
    settings = f"{ansi_mode(engine, context.model)} {session_of(engine).zone}"

    def shown(parent: str) -> str:
        try:
            published = read_published(engine, parent)
        except (EngineError, UnreadableView):
            return ""
        if published is None or not published.files:
            return ""
        return f"{published.shard_id} {published.version} {published.files}"

    scopes = [scope_of(test, str(context.relation), settings, shown) for test in tests]
    return [
        replace(test, scope=scope) if isinstance(scope, AuditScope) else replace(test, whole=scope)
        for test, scope in zip(tests, scopes, strict=True)
    ]


def scope_of(test: CompiledTest, relation: str, settings: str, shown: Shown) -> AuditScope | str:
    """The scope of one audit, or why it has to look at all rows."""
    if test.fail_calc.strip().lower() != COUNT:
        return f"its fail_calc is {test.fail_calc}"
    decided = deciding_rows(test.sql, relation)
    if isinstance(decided, str):
        return decided
    parent = ""
    if decided.parent:
        parent = shown(decided.parent)
        if not parent:
            return f"it reads {decided.parent}, which is not a maintained model"
    text = json.dumps([test.sql, relation, settings, parent])
    return AuditScope(hashlib.sha256(text.encode()).hexdigest()[:32], decided.key)
