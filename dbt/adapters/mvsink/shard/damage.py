"""Permanent reasons why a Delta log cannot be loaded: garbage, a gap, no checkpoint.

A fault counts as damage only if it is still the same after a moment: some filesystems show a file
while it is being written.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from dbt.adapters.mvsink.shard.commit_log import LOG, commit_path, commit_version, cut_off, first_garbage
from dbt.adapters.mvsink.shard.errors import StorageError, message_of
from dbt.adapters.mvsink.shard.storage import StoredFile
from dbt.adapters.mvsink.shard.stored import Unreadable, an_integer, member, parsed

MOMENT = 0.5  # seconds
LAST_CHECKPOINT = f"{LOG}/_last_checkpoint"
START_AGAIN = (
    "move the shard's directory away and run with --full-refresh: that starts a new shard, without history"
)


class LogFiles(Protocol):
    """The part of a storage that is examined."""

    def list_files(self, directory: str) -> list[StoredFile]: ...

    def read_text(self, path: str) -> str | None: ...

    def schema_of(self, path: str) -> pa.Schema: ...


def damage(files: LogFiles) -> str:
    """What is wrong with the log, and what to do; empty if nothing is wrong or the log is out of
    reach.
    """
    fault = _damage(files)
    if fault:
        time.sleep(MOMENT)
    return fault if fault and _damage(files) == fault else ""


def _damage(files: LogFiles) -> str:
    try:
        listed = sorted(file.path for file in files.list_files(LOG))
        commits = sorted(version for path in listed if (version := commit_version(path)) is not None)
        checkpoints = sorted({_checkpoint_version(path) for path in listed if ".checkpoint." in path})
        begins = checkpoints[-1] if checkpoints else -1
        return (
            _gap(commits, begins)
            or _bad_hint(files, checkpoints)
            or _unreadable_checkpoint(files, [path for path in listed if _is_part_of(path, begins)], commits)
            or _garbage(files, [version for version in commits if version > begins])
        )
    except (OSError, StorageError):
        return ""


def _gap(commits: Sequence[int], begins: int) -> str:
    """What commits are missing after ``begins``, the newest checkpoint's version or -1."""
    after = [version for version in commits if version > begins]
    missing = sorted(set(range(begins + 1, after[-1])) - set(after)) if after else []
    if not missing:
        return ""
    names = f"commit {commit_path(missing[0])}" + (
        f" and {len(missing) - 1} more are" if missing[1:] else " is"
    )
    return f"{names} missing, and no checkpoint replaces it. Restore it from a backup; without one, {START_AGAIN}"


def hinted_version(files: LogFiles) -> int | None:
    """The version in `_last_checkpoint`; None if there is no such file or it is unreadable. It is
    only a hint, which Delta then ignores too.
    """
    try:
        return an_integer(member(parsed(files.read_text(LAST_CHECKPOINT)), "version"), least=0)
    except Unreadable:
        return None


def _bad_hint(files: LogFiles, checkpoints: Sequence[int]) -> str:
    version = hinted_version(files)
    if version is None or version in checkpoints or checkpoints:
        return ""
    return (
        f"{LAST_CHECKPOINT} names a checkpoint of version {version}, which does not exist. Restore that checkpoint from a backup; if all commits "
        f"from version 0 on exist, delete {LAST_CHECKPOINT} instead"
    )


def _unreadable_checkpoint(files: LogFiles, parts: Sequence[str], commits: Sequence[int]) -> str:
    for path in parts:
        try:
            if path.endswith(".parquet"):
                files.schema_of(path)
        except StorageError as error:
            if not isinstance(error.__cause__, pa.ArrowException):
                raise
            whole = bool(commits) and commits[0] == 0
            way = (
                f"delete it, and {LAST_CHECKPOINT}: all commits exist"
                if whole
                else f"restore it from a backup; without one, {START_AGAIN}"
            )
            return f"the checkpoint {path} cannot be read ({message_of(error.__cause__)}). What to do: {way}"
    return ""


def _garbage(files: LogFiles, versions: Sequence[int]) -> str:
    for version in versions:
        text = files.read_text(commit_path(version))
        fault = "" if text is None else garbage(version, text)  # None: cleaned up meanwhile
        if fault:
            newest = version == versions[-1]
            way = (
                " It is the newest: it can be deleted, and the shard is as it was before it."
                if newest
                else ""
            )
            return f"{fault} Restore the file from a backup; without one, {START_AGAIN}.{way}"
    return ""


def garbage(version: int, text: str) -> str:
    """What is wrong with commit ``version``: it is not whole, or a line is not a Delta action.
    Empty if nothing is.
    """
    fault, bad = cut_off(version, text), first_garbage(text)
    return fault or (
        f"line {bad[0]} of commit {commit_path(version)} is not a Delta action: {bad[1][:60]!r}."
        if bad
        else ""
    )


def _checkpoint_version(path: str) -> int:
    name = path.rsplit("/", 1)[-1]
    return int(name[:20]) if name[:20].isdigit() else -1


def _is_part_of(path: str, version: int) -> bool:
    return ".checkpoint." in path and _checkpoint_version(path) == version
