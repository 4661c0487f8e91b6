"""Listings of files: Spark caches them, so a long-lived session would read stale ones.

Each table of files that a run's queries read is therefore refreshed once per invocation, before its
first read: then all models of the invocation see the same files. The analyzed plan shows which
tables these are, also below views and in subqueries.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from dbt.adapters.mvsink.engine import Engine, EngineError
from dbt.adapters.mvsink.references.per_invocation import PerInvocation

log = logging.getLogger("mvsink.shard")


@dataclass
class _Refreshed:
    """The tables that an invocation has refreshed, each with the number of its files before that;
    ``lock`` makes a model wait for another's.
    """

    manifests: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


_refreshed: PerInvocation[_Refreshed] = PerInvocation(_Refreshed)


def refresh(
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
