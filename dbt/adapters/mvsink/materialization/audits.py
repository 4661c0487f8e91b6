"""A model's `audit`: which tests its new contents must pass before they are published.

dbt compiles the tests as for `dbt test`, including `where`, `limit` and ephemeral references. Then
the query of the new contents replaces the model's relation in them. Other relations are read as
they are.

`audit: true` means the tests of error severity that belong to the model: generic tests on it, and
singular tests that read it. It leaves out a test that also reads a relation downstream of the
model, because that is as old as the published contents; `audit` may name such a test. Unit tests
are never audits: they read no contents.

With `audit: {scope: changes}` some audits check only rows whose verdict the added rows can change
(`user_sql.deciding_rows`), provided that the previous contents passed the same audit without a
failure. An audit is the same if its text, the session's ANSI mode and time zone, and the other
relations that it reads are the same: its digest covers all of these. A parent of `relationships`
has to be a published shard, whose view names the version that it shows.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.engine.session import session_of
from dbt.adapters.mvsink.exceptions import UnknownAudit
from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.materialization.definition import ansi_mode
from dbt.adapters.mvsink.materialization.warn import warnings_are_errors
from dbt.adapters.mvsink.shard_sql.errors import UnreadableView
from dbt.adapters.mvsink.shard_sql.published_view import read_published
from dbt.adapters.mvsink.sink import Audit, AuditScope
from dbt.adapters.mvsink.user_sql.checks import without_end
from dbt.adapters.mvsink.user_sql.deciding_rows import deciding_rows
from dbt.adapters.mvsink.user_sql.splice import replace_relations

ALL = True
TEST = "test"


@dataclass(frozen=True)
class CompiledTest:
    """A test as dbt runs it: ``sql`` gives its failing rows; the other fields decide what they
    mean.
    """

    name: str
    sql: str
    fail_calc: str
    warn_if: str
    error_if: str
    limit: int | None
    severe: bool
    scope: AuditScope | None = None
    whole: str = ""  # why it has none, if the model's config asks for one

    def audit(self, relation: str, verdict: str) -> Audit:
        """The audit of ``relation``; ``verdict`` is the query that dbt's macro makes of it."""
        failing, judged = _over(self._limited(), relation), _over(verdict, relation)
        return Audit(self.name, failing, judged, self.severe, self.scope, self.whole)

    def _limited(self) -> str:
        return self.sql if self.limit is None else f"select * from (\n{self.sql}\n) limit {self.limit}"


def _over(query: str, relation: str) -> Callable[[str], str]:
    return lambda contents: replace_relations(query, {relation: contents})


def chosen(manifest: Any, model: str, unique_id: str, wanted: bool | Sequence[str]) -> list[Any]:
    """The nodes of the tests that the config ``wanted`` selects. Raises `UnknownAudit`."""
    reading = [
        node for node in manifest.nodes.values() if _is_data_test(node) and unique_id in node.depends_on.nodes
    ]
    reading.sort(key=lambda node: str(node.unique_id))
    if wanted is ALL:
        return [node for node in reading if _severe(node) and _belongs(manifest, node, unique_id)]
    nodes: list[Any] = []
    for name in wanted if isinstance(wanted, Sequence) else ():
        named = [node for node in reading if name in (node.unique_id, node.name, ".".join(node.fqn))]
        if not named:
            raise UnknownAudit(model, name, [str(node.name) for node in reading])
        nodes += [node for node in named if node not in nodes]
    return nodes


def compiled(adapter: Any, manifest: Any, node: Any) -> CompiledTest:
    """``node`` as dbt compiles it; the manifest's own is not changed."""
    from dbt.compilation import Compiler

    done = Compiler(adapter.config).compile_node(copy.deepcopy(node), manifest, {}, write=False)
    config = node.config
    return CompiledTest(
        name=str(node.name),
        sql=without_end(str(done.compiled_code)),
        fail_calc=str(config.fail_calc),
        warn_if=str(config.warn_if),
        error_if=str(config.error_if),
        limit=config.limit,
        # a warning after the commit would come too late
        severe=_severe(node) or warnings_are_errors(),
    )


def _is_data_test(node: Any) -> bool:
    return str(getattr(node.resource_type, "value", node.resource_type)) == TEST


def _severe(node: Any) -> bool:
    return str(node.config.severity).upper() == "ERROR"


def _belongs(manifest: Any, node: Any, unique_id: str) -> bool:
    attached = getattr(node, "attached_node", None)
    others = [other for other in node.depends_on.nodes if other != unique_id]
    return attached in (None, unique_id) and not any(
        _reads(manifest, other, unique_id, set()) for other in others
    )


def _reads(manifest: Any, node_id: str, upstream: str, visited: set[str]) -> bool:
    """Whether ``node_id`` is downstream of ``upstream``; ``visited`` grows."""
    if node_id in visited:
        return False
    visited.add(node_id)
    parents = _parents(manifest, node_id)
    return upstream in parents or any(_reads(manifest, parent, upstream, visited) for parent in parents)


def _parents(manifest: Any, node_id: str) -> Sequence[str]:
    """What a node of any kind reads. Sources have no parents, and seeds depend on macros only."""
    node = manifest.nodes.get(node_id) or getattr(manifest, "functions", {}).get(node_id)
    return tuple(getattr(getattr(node, "depends_on", None), "nodes", ()))


COUNT = "count(*)"  # the `fail_calc` that is 0 only without failing rows
Shown = Callable[[str], str]  # what identifies the contents of a relation, or ""


def narrowed(context: RunContext, tests: Sequence[CompiledTest]) -> list[CompiledTest]:
    """``tests`` with their scopes, or why they look at all rows. Asks the engine for its settings
    and about the parents.
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
