"""dbt's views, inlined into the queries that read them: a view has no rows and no history of its
own, but the relations that it reads have.

A view is replaced by its text from the catalog. The relations below it are then read like those
that the query reads itself: as of the run's time, with known changes. A view stays a view, with a
reason, where its text could mean something else in the query than it does in the catalog.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dbt.adapters.mvsink.engine import Engine, EngineError, sql
from dbt.adapters.mvsink.engine.session import session_of, session_settings, setting
from dbt.adapters.mvsink.inputs.described import SETTINGS
from dbt.adapters.mvsink.per_invocation import PerInvocation
from dbt.adapters.mvsink.shard_sql.published_view import read_marker
from dbt.adapters.mvsink.shard_sql.stager import EXACT
from dbt.adapters.mvsink.user_sql.checks import uncertain, without_end
from dbt.adapters.mvsink.user_sql.splice import (
    TemporalReference,
    relation_names,
    relations,
    replace_relations,
)
from dbt.adapters.mvsink.user_sql.words import UnreadableText, parts, words

# settings that a view is created without: they are of the whole engine, or decide how it computes
OF_THE_ENGINE = (
    "spark.sql.adaptive.",
    "spark.sql.additionalRemoteRepositories",
    "spark.sql.artifact.",
    "spark.sql.binaryOutputStyle",  # how a client is shown binaries; a Thrift server sets it
    "spark.sql.catalog.",
    "spark.sql.catalogImplementation",
    "spark.sql.codegen.",
    "spark.sql.event.",
    "spark.sql.execution.",
    "spark.sql.extensions",
    "spark.sql.globalTempDatabase",
    "spark.sql.hive.metastore.",
    "spark.sql.hive.thriftServer.",
    "spark.sql.hive.version",
    "spark.sql.optimizer.",
    "spark.sql.queryExecutionListeners",
    "spark.sql.shuffle.",
    "spark.sql.streaming.",
    "spark.sql.ui.",
    "spark.sql.view.maxNestedViewDepth",
    "spark.sql.warehouse.dir",
)
BINARY = "UTF8_BINARY"
LONGEST = 500_000  # characters of a query: a view that is read twice, by a view that is read twice, ...
Name = tuple[str, ...]  # see `words.parts`


@dataclass(frozen=True)
class Inlined:
    """A query with the texts of views. ``names`` are the relations that these texts read, as they
    name them. ``refused`` says, as a clause, why a view stays a view, by the last two parts of its
    name.
    """

    query: str
    names: tuple[str, ...] = ()
    refused: Mapping[Name, str] = field(default_factory=dict)


class _Refused(Exception):
    """The reason, as a clause."""


@dataclass(frozen=True)
class _Text:
    """A view's query as the catalog has it."""

    query: str
    names: tuple[str, ...]


_texts: PerInvocation[dict[Name, _Text | str]] = PerInvocation(dict)  # a text, or why there is none


def inlined(
    engine: Engine,
    query: str,
    views: Iterable[str],
    below: Callable[[Name], bool],
    allowed: Collection[str],
    invocation_id: str,
) -> Inlined:
    """``query`` with the texts of ``views``, which are names of dbt's views as it has them.

    ``below`` says whether a name is also one of dbt's views. `uncertain` explains ``allowed``.
    Raises `UnreadableText`.
    """
    reader = _Reader(engine, below, allowed, _texts.of(invocation_id))
    return reader.inlined(query, views)


@dataclass
class _Reader:
    engine: Engine
    below: Callable[[Name], bool]
    allowed: Collection[str]
    known: dict[Name, _Text | str]
    whole: dict[Name, Inlined] = field(default_factory=dict)  # views with those below them

    def inlined(self, query: str, views: Iterable[str]) -> Inlined:
        texts: dict[str, str] = {}
        names: dict[str, None] = {}
        refused: dict[Name, str] = {}
        for name in views:
            try:
                if not relations(query, name):
                    continue
            except TemporalReference:  # an error of Spark's, which has the better words
                continue
            view = self._text(name)
            if isinstance(view, str):
                refused[parts(name)[-2:]] = view
                continue
            inner = self._inner(parts(name), view)
            texts[name] = inner.query
            names.update(dict.fromkeys((*view.names, *inner.names)))
            refused.update(inner.refused)
        if not texts:
            return Inlined(query, (), refused)
        whole = replace_relations(query, texts)
        if len(whole) > LONGEST:
            too_long = {parts(name)[-2:]: f"the query would have {len(whole):,} characters" for name in texts}
            return Inlined(query, (), {**refused, **too_long})
        return Inlined(whole, tuple(names), refused)

    def _inner(self, key: Name, view: _Text) -> Inlined:
        """The view with the views below it, resolved once however many read it."""
        if key not in self.whole:
            below = [each for each in view.names if self.below(parts(each))]
            self.whole[key] = self.inlined(view.query, below)
        return self.whole[key]

    def _text(self, name: str) -> _Text | str:
        """The view's text, or why it stays a view."""
        key = parts(name)
        if key not in self.known:
            try:
                self.known[key] = self._read(name)
            except _Refused as refused:
                self.known[key] = str(refused)
            except (EngineError, ValueError, UnreadableText) as error:
                self.known[key] = f"its text cannot be read: {str(error).splitlines()[0]}"
        return self.known[key]

    def _read(self, name: str) -> _Text:
        [[described]] = self.engine.query(f"describe table extended {name} as json", "catalog")
        view: Mapping[str, Any] = json.loads(str(described))
        text = without_end(str(view.get("view_text", "")))
        if not text or SETTINGS not in view:
            raise _Refused("Spark does not show its text")
        if read_marker(text) is not None:
            raise _Refused("it shows a shard")
        if reason := uncertain(text, self.allowed):
            raise _Refused(reason)
        if str(view.get("collation") or BINARY) != BINARY:  # of the literals in its text
            raise _Refused("it has a collation of its own")
        names = _qualified(text)
        self._check_session(view)
        return _Text(self._shaped(name, view, text), names)

    def _check_session(self, view: Mapping[str, Any]) -> None:
        """Checks that its names and expressions mean here what they meant where it was created."""
        created = parts(str(view.get("view_catalog_and_namespace", "")))
        if created != tuple(name.lower() for name in session_of(self.engine).identity[2:]):
            raise _Refused(f"it was created in {'.'.join(created) or 'an unknown schema'}")
        kept = {str(key): str(value) for key, value in view[SETTINGS].items() if key not in EXACT}
        session = session_settings(self.engine)
        for key, value in session.items():
            decides = key.startswith("spark.sql.") and not key.startswith(OF_THE_ENGINE) and key not in EXACT
            if decides and kept.get(key) != value:
                raise _Refused(f"it was created with another {key}")
        for key in sorted(kept.keys() - session.keys()):
            if kept[key] != setting(self.engine, key):
                raise _Refused(f"it was created with another {key}")

    def _shaped(self, name: str, view: Mapping[str, Any], text: str) -> str:
        """The text with the view's columns: their names, order and types."""
        count = len(view["columns"])
        both = self.engine.columns(
            f"select _mv_v.*, _mv_t.* from {name} as _mv_v cross join (\n{text}\n) as _mv_t"
        )
        shown, own = both[:count], both[count:]
        if shown == own:
            return text
        types = dict(own)
        sources = view.get("view_query_output_columns") or [column for column, _ in own]
        fits = len(types) == len(own) and len(sources) == count and all(each in types for each in sources)
        if not fits or [types[each] for each in sources] != [kind for _, kind in shown]:
            raise _Refused("what it reads has other columns than when it was created")
        items = [
            f"{sql.identifier(source)} as {sql.identifier(column)}"
            for source, (column, _) in zip(sources, shown, strict=True)
        ]
        return f"select {', '.join(items)} from (\n{text}\n)"


def _qualified(text: str) -> tuple[str, ...]:
    """The relations that a view's text names, without its CTEs."""
    stream, names = words(text), relation_names(text)
    # `with a as (...)`, `with a (x, y) as (...)`; also functions, which are no relations
    ctes = {
        word.text.lower()
        for word, *following in zip(stream, stream[1:], stream[2:], strict=False)
        if word.is_name and (following[0].upper == "(" or [each.upper for each in following] == ["AS", "("])
    }
    for name in names:
        if len(parts(name)) > 2:
            raise _Refused(f"it names {name} with its catalog")
        if len(parts(name)) == 1 and parts(name)[0] not in ctes:
            raise _Refused(f"it names {name} without a schema")
    return tuple(name for name in names if len(parts(name)) == 2)
