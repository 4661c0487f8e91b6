"""The partition values of a Delta table's files, as its log spells them.

What a text means is Spark's to say: a timestamp without a zone is one of the session's time zone,
an empty text is not NULL, a day may be after the year 9999. So the values that `deltalake` reads,
which decides these itself, are not used.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from urllib.parse import unquote

from dbt.adapters.mvsink.shard.commit_log import LOG, actions, commit_path, lines
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from dbt.adapters.mvsink.shard.stored import Unreadable, a_text, an_object, member, optional

Values = Mapping[str, str | None]
PARALLEL_REQUESTS = 16  # to storage
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\b.*\.(parquet|json)")


def partition_values(storage: DeltaStorage, version: int, paths: Collection[str]) -> dict[str, Values]:
    """The values of the files at ``paths`` (decoded), which are live at ``version``. One is missing
    if the log that is left does not have it in a form that is known here.
    """
    checkpoints: dict[int, list[str]] = {}
    for file in storage.list_files(LOG):
        match = _CHECKPOINT.fullmatch(file.path.rsplit("/", 1)[-1])
        if match and int(match[1]) <= version:
            checkpoints.setdefault(int(match[1]), []).append(file.path)
    first = max(checkpoints, default=-1)
    values: dict[str, Values] = {}
    with ThreadPoolExecutor(PARALLEL_REQUESTS) as pool:
        for added in pool.map(partial(_of_checkpoint, storage), checkpoints.get(first, [])):
            values.update(added)
        commits = map(commit_path, range(first + 1, version + 1))
        for text in pool.map(storage.read_text, commits):
            values.update(_added(text or ""))
    return {path: values[path] for path in paths if path in values}


def _added(text: str) -> Iterator[tuple[str, Values]]:
    """The files that a commit, or a checkpoint of lines, adds."""
    for action in actions("\n".join(line for line in lines(text) if '"add"' in line)):
        add = action.get("add")
        with suppress(Unreadable):  # a file whose values are not known here
            if add:
                values = an_object(member(add, "partitionValues"))
                yield (
                    unquote(a_text(member(add, "path"))),
                    {n: optional(v, a_text) for n, v in values.items()},
                )


def _of_checkpoint(storage: DeltaStorage, path: str) -> dict[str, Values]:
    """Of one of a checkpoint's files, and of those that it refers to."""
    if path.endswith(".json"):
        text = storage.read_text(path) or ""
        added = dict(_added(text))
        sidecars = [action["sidecar"] for action in actions(text) if isinstance(action.get("sidecar"), dict)]
    else:
        rows = storage.fields(path, ["add.path", "add.partitionValues", "sidecar.path"])
        added = {
            unquote(add["path"]): dict(add["partitionValues"] or ())
            for add in (rows.column("add").to_pylist() if "add" in rows.column_names else [])
            if add is not None and add["path"] is not None
        }
        sidecars = rows.column("sidecar").to_pylist() if "sidecar" in rows.column_names else []
    for sidecar in sidecars:
        if sidecar is not None and isinstance(sidecar.get("path"), str):
            added.update(_of_checkpoint(storage, f"{LOG}/_sidecars/{sidecar['path'].rsplit('/', 1)[-1]}"))
    return added
