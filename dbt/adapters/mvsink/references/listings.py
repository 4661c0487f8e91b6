"""Listings of files: Spark lists a table's files once and keeps the list, so a session that
outlives a run reads yesterday's files.

The tables that a run's queries read are therefore refreshed, each once an invocation, before its
first read: after that every model of the invocation sees the same files. Which tables these are the
analyzed plan tells, below views and in subqueries, too.
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
# of files; the catalog allows no other characters in a name
_TABLE = re.compile(r"\bRelation ((?:\w+\.)+\w+)\[")


@dataclass
class _Refreshed:
    """The tables that an invocation has refreshed. ``lock``: a model waits until another has
    refreshed what both read.
    """

    names: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)


_refreshed: PerInvocation[_Refreshed] = PerInvocation(_Refreshed)


def tables_of_files(engine: Engine, query: str) -> list[str]:
    """The catalog's tables of files that ``query`` reads, quoted; none if it cannot be analyzed:
    running it will say why.
    """
    try:
        plan = "\n".join(str(row[0]) for row in engine.query(f"explain extended\n{query}", "explain"))
    except EngineError:
        return []
    analyzed = _ANALYZED.search(plan)
    names = _TABLE.findall(analyzed[1]) if analyzed else []
    return [".".join(map(sql.identifier, name.split("."))) for name in dict.fromkeys(names)]


def refresh(engine: Engine, names: Iterable[str], invocation_id: str) -> None:
    """Have Spark list the files of these tables again, unless this invocation has."""
    done = _refreshed.of(invocation_id)
    with done.lock:
        for name in names:
            if name in done.names:
                continue
            try:
                engine.execute(f"refresh table {name}", "refresh")
            except (
                EngineError
            ) as error:  # a text that only looks like a table; one that is gone fails whoever reads it
                log.debug("%s was not refreshed: %s", name, error.message)
            done.names.add(name)
