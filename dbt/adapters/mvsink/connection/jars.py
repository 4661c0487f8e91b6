"""Downloads of jars: one process of this user at a time.

A JVM with Spark downloads the packages of `spark.jars.packages` into Ivy's cache as it starts. Ivy
does not lock its cache, and of two processes that fill it at once one or both fail.
"""

from __future__ import annotations

import fcntl
import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from dbt.adapters.mvsink.connection.class_archive import cache_directory
from dbt.adapters.mvsink.connection.formats import PACKAGES

log = logging.getLogger("mvsink.connection")


@contextmanager
def downloading(settings: Mapping[str, str]) -> Iterator[None]:
    """A JVM with these settings starts inside. Without packages, or where no lock can be had (a
    read-only home, which Ivy could not use either), it waits for no other.
    """
    with ExitStack() as stack:
        if settings.get(PACKAGES):
            try:
                path = cache_directory().parent / "jars.lock"
                path.parent.mkdir(parents=True, exist_ok=True)
                fcntl.flock(stack.enter_context(open(path, "a")), fcntl.LOCK_EX)
            except (OSError, RuntimeError) as error:  # no home directory
                log.debug("jars are downloaded without a lock: %s", error)
        yield
