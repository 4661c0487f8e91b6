"""Everything that a query reads, from Spark's analyzed plan: the query's text does not show what
its views read.

The printed plan shows a tree by indentation. If it has an unknown node, the inputs of the query, or
of the view above the node, cannot be known.

Spark caches the files of a table, so a long-lived session would read an old list. `relist` makes
Spark list each table of files again once per invocation, before its first read. So all models of
the invocation see the same files.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dbt.adapters.mvsink.engine import Engine, EngineError
from dbt.adapters.mvsink.engine.plan_text import whole_explanation
from dbt.adapters.mvsink.per_invocation import PerInvocation
from dbt.adapters.mvsink.shard.stored import a_text, an_object, member, texts
from dbt.adapters.mvsink.user_sql.checks import breaks_lines
from dbt.adapters.mvsink.user_sql.words import UnreadableText, parts

log = logging.getLogger("mvsink.shard")

_ANALYZED = re.compile(
    r"== Analyzed Logical Plan ==\n[^\n]*\n(.*?)(?:\n== Optimized Logical Plan ==|\Z)", re.DOTALL
)
_INDENTATION = re.compile(r"(?:[ :]  )*(?:[:+]- )?")
_VIEW = re.compile(r"View \(`(\w+)`\.`(\w+)`\.`(\w+)`, ")
_TABLE = re.compile(r"Relation ((?:\w+\.){2}\w+)\[")
# of another catalog's tables; the version is a number, or the name of a branch, which moves
_OTHER_TABLE = re.compile(
    r"RelationV2\[.*\] ((?:{0}\.)+{0})(?: VERSION AS OF '\d+')?$".format(r"(?:\w+|`[^`]+`)")
)
# nodes that read nothing but their children, and constants
_PURE = re.compile(
    r"(?:Aggregate|CTERelationDef|CTERelationRef|Deduplicate|Distinct|Except|Expand|Filter|Generate|GlobalLimit|Intersect|Join|"
    r"LateralJoin|LocalLimit|LocalRelation|Offset|OneRowRelation|Pivot|Project|Range|RebalancePartitions|Repartition|"
    r"RepartitionByExpression|ResolvedHint|Sort|SubqueryAlias|Tail|Union|Unpivot|Window|WithCTE)\b"
)
_VARIABLE = "variablereference("
UNREADABLE = "what Spark does not show"


@dataclass(frozen=True)
class Reads:
    """The catalog's relations that a query or a view reads, as ``catalog.db.name``, each part in
    backticks if it needs them.

    ``below`` is what each of its ``views`` reads in turn. ``unknown`` is a clause about what else
    it reads; empty if there is nothing else.
    """

    views: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    unknown: str = ""
    below: Mapping[str, Reads] = field(default_factory=dict)

    @property
    def every_table(self) -> tuple[str, ...]:
        """Its tables, and those below its views."""
        inner = (name for reads in self.below.values() for name in reads.every_table)
        return tuple(dict.fromkeys((*self.tables, *inner)))

    def path_to(self, relation: str) -> tuple[str, ...] | None:
        """The views through which it reads ``relation`` (``catalog.db.name``), from the outermost;
        None if it does not.
        """
        if any(parts(name) == parts(relation) for name in (*self.views, *self.tables)):
            return ()
        for view, reads in self.below.items():
            if (path := reads.path_to(relation)) is not None:
                return (view, *path)
        return None

    def stored(self) -> dict[str, Any]:
        """The form that is stored as JSON; `from_stored` reads it."""
        below = {name: reads.stored() for name, reads in self.below.items()}
        views, tables = list(self.views), list(self.tables)
        return {"views": views, "tables": tables, "unknown": self.unknown, "below": below}

    @classmethod
    def from_stored(cls, kept: Any) -> Reads:
        """The inverse of `stored`. Raises `Unreadable` (`shard.stored`)."""
        below = {name: cls.from_stored(reads) for name, reads in an_object(member(kept, "below")).items()}
        return cls(texts(kept.get("views")), texts(kept.get("tables")), a_text(kept.get("unknown")), below)


@dataclass
class _Scope:
    """What is collected while the nodes of the query, or of a view, are read; a view's nodes are
    deeper than ``depth``.
    """

    depth: int = -1
    views: dict[str, _Scope] = field(default_factory=dict)
    tables: dict[str, None] = field(default_factory=dict)
    unknown: str = ""

    def reads(self) -> Reads:
        below = {name: scope.reads() for name, scope in self.views.items()}
        return Reads(tuple(self.views), tuple(self.tables), self.unknown, below)


def reads_of(engine: Engine, query: str) -> Reads:
    """What ``query`` reads; unknown if it cannot be analyzed."""
    try:
        plan = whole_explanation(engine, query, "explain")
    except EngineError:
        return Reads(unknown=UNREADABLE)
    return _checked(read_plan(plan), query)


def reads_and_columns(engine: Engine, query: str) -> tuple[Reads, list[tuple[str, str]]]:
    """`reads_of`, and the names and type texts of the query's columns, by one analysis if possible.
    Raises `EngineError` if ``query`` cannot be analyzed.
    """
    analysis = engine.analyzed(query, "analyze")
    if analysis is None:
        return reads_of(engine, query), engine.columns(query)
    tree, columns = analysis
    return _checked(_read_tree(tree), query), columns


def _checked(reads: Reads, query: str) -> Reads:
    """``reads``, unless the lines of the tree cannot be distinguished."""
    try:
        broken = breaks_lines(query)
    except UnreadableText:
        return Reads(unknown=UNREADABLE)
    return replace(reads, unknown="a name or a text with a line break") if broken else reads


def read_plan(plan: str) -> Reads:
    """What a plan, as EXPLAIN EXTENDED prints it, reads."""
    analyzed = _ANALYZED.search(plan)
    return Reads(unknown=UNREADABLE) if analyzed is None else _read_tree(analyzed[1])


def _read_tree(tree: str) -> Reads:
    top = _Scope()
    within = [top]
    for depth, node in _nodes(tree):
        while depth <= within[-1].depth:
            within.pop()
        scope = within[-1]
        if match := _VIEW.match(node):
            # read again where it is mentioned again: it is the same view
            view = scope.views.setdefault(".".join(match.groups()), _Scope())
            view.depth = depth
            within.append(view)
        elif match := _TABLE.match(node) or _OTHER_TABLE.match(node):
            scope.tables[match[1]] = None
        elif _VARIABLE in node:
            scope.unknown = "a variable of the session"
        elif not _PURE.match(node):
            scope.unknown = f"something other than tables and views of the catalog ({node[:60].strip()})"
    return top.reads()


def _nodes(analyzed: str) -> Iterator[tuple[int, str]]:
    """Each node's depth and text."""
    for line in analyzed.split("\n"):
        depth = _INDENTATION.match(line).end()  # type: ignore[union-attr]
        if line[depth:]:
            yield depth, line[depth:]


@dataclass
class _Refreshed:
    """The tables that an invocation has refreshed, each with the number of its files before.
    ``lock`` makes a model wait for another model's refresh.
    """

    manifests: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


_refreshed: PerInvocation[_Refreshed] = PerInvocation(_Refreshed)


def relist(
    engine: Engine, names: Iterable[str], invocation_id: str, manifest: Callable[[str], int] = lambda _: 0
) -> Mapping[str, int]:
    """Have Spark list the files of the tables ``names`` (``catalog.db.name``) again, once per
    invocation. Returns the ``manifest`` of each before that.
    """
    done = _refreshed.of(invocation_id)
    with done.lock:
        for name in names:
            if name in done.manifests:
                continue
            before = manifest(name)
            try:
                engine.relist(name.split("."))
            except EngineError as error:  # not a table after all, or gone: then reading it fails
                log.debug("%s was not refreshed: %s", name, error.message)
            done.manifests[name] = before
        return dict(done.manifests)
