"""Listings of files: Spark caches them, so a long-lived session would read stale ones.

Each table of files that a run's queries read is therefore refreshed once per invocation, before its
first read: then all models of the invocation see the same files. The analyzed plan shows which
tables these are, also below views and in subqueries.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from dbt.adapters.mvsink.engine import Engine, EngineError, sql
from dbt.adapters.mvsink.references.per_invocation import PerInvocation

log = logging.getLogger("mvsink.shard")
_ANALYZED = re.compile(r"== Analyzed Logical Plan ==(.*?)(?:== Optimized Logical Plan ==|\Z)", re.DOTALL)
# a table of files; the catalog allows no other characters in a name
_TABLE = re.compile(r"\bRelation ((?:\w+\.)+\w+)\[")


@dataclass
class _Refreshed:
    """The tables that an invocation has refreshed; ``lock`` makes a model wait for another's."""

    names: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)


_refreshed: PerInvocation[_Refreshed] = PerInvocation(_Refreshed)


def tables_of_files(engine: Engine, query: str) -> list[str]:
    """The catalog's tables of files that ``query`` reads, quoted; none if it cannot be analyzed."""
    try:
        plan = "\n".join(str(row[0]) for row in engine.query(f"explain extended\n{query}", "explain"))
    except EngineError:
        return []
    analyzed = _ANALYZED.search(plan)
    names = _TABLE.findall(analyzed[1]) if analyzed else []
    return [".".join(map(sql.identifier, name.split("."))) for name in dict.fromkeys(names)]


def refresh(engine: Engine, names: Iterable[str], invocation_id: str) -> None:
    """Have Spark list the files of these tables again, once per invocation."""
    done = _refreshed.of(invocation_id)
    with done.lock:
        for name in names:
            if name in done.names:
                continue
            try:
                engine.execute(f"refresh table {name}", "refresh")
            except EngineError as error:  # not a table after all, or gone: then reading it fails
                log.debug("%s was not refreshed: %s", name, error.message)
            done.names.add(name)
