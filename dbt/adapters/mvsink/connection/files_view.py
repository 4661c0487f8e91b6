"""Temporary views over files of a shard whose columns are known beforehand.

For a relation over a path, Spark looks up the format, lists the files, and reads a footer in a job:
40 to 50 ms each, one after the other. Given the columns, it only lists the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

STRICT = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
# one directory of a batch, or several; all files of them have the same columns
_BATCHES = re.compile(r"(?:file:)?(/.*/batches)/\{?([0-9a-f]{32}[\w-]*)(?:,[\w,-]+)?\}?")
_ESCAPED = re.compile(r"\\(.)")
_COLUMNS = b"org.apache.spark.sql.parquet.row.metadata"  # what Spark itself goes by
AT_ONCE = 4  # views: each is some calls of the JVM, and waiting for them
_T = TypeVar("_T")


def make(session: SparkSession, paths: Sequence[str]) -> dict[str, str]:
    """The names of new views over the Parquet files of batches at ``paths``, globs. One is missing
    if it is another path, if this process does not see what Spark sees there, or if there is
    something wrong with the files: that is for the statement to say that reads them.
    """
    if not (session.sparkContext.master or "").startswith("local"):
        return {}
    names = _at_once(lambda path: _made(session, path), paths)
    return {path: name for path, name in zip(paths, names, strict=True) if name is not None}


def _made(session: SparkSession, path: str) -> str | None:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        columns = _columns(path)
        if columns is None:
            return None
        name = f"_mv_files_{uuid4().hex}"
        session.read.schema(columns).options(**STRICT).parquet(path).createTempView(name)
        return name
    except (OSError, ValueError, LookupError, PySparkException, Py4JError):
        return None


def drop(session: SparkSession, names: Iterable[str]) -> None:
    """Drop those that `make` made. If Spark has ended, so have the views."""
    _at_once(lambda name: _dropped(session, name), list(names))


def _dropped(session: SparkSession, name: str) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    with suppress(PySparkException, Py4JError, OSError):
        session.catalog.dropTempView(name)


def _at_once(act: Callable[[str], _T], names: Sequence[str]) -> list[_T]:
    """``act`` on each, in some threads; they stay, because a thread has a connection to the JVM."""
    return [act(name) for name in names] if len(names) < 2 else list(_threads().map(act, names))


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="files_view")


def _columns(path: str) -> StructType | None:
    """The columns of the first file, as Spark would read them from its footer."""
    import pyarrow.parquet as pq
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    batches = _BATCHES.fullmatch(path)
    if batches is None:
        return None
    directory = Path(_ESCAPED.sub(r"\1", batches[1])) / batches[2]
    file = min(directory.glob("[!_.]*.parquet"), default=None)
    if file is None:
        return None
    schema = pq.read_schema(file)
    written = (schema.metadata or {}).get(_COLUMNS)
    if written is not None:
        return StructType.fromJson(json.loads(written))
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)
