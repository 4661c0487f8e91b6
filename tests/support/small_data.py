"""Spark for tests of many statements over a handful of rows: there compiling a statement's code
takes longer than running it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
    "spark.sql.files.minPartitionNum": "1",
}


@contextmanager
def interpreted(session: Any) -> Iterator[None]:
    """Statements are interpreted in here, one task a stage. For tests of what the adapter says, not
    of what Spark computes.
    """
    before = {name: session.conf.get(name, None) for name in INTERPRETED}
    for name, value in INTERPRETED.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)
