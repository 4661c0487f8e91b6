"""What can go wrong with a shard that is read or written through the engine."""

from __future__ import annotations

from collections.abc import Sequence

from dbt.adapters.mvsink.engine import DataflowError

SHOWN_FILES = 5  # in a message
SETTINGS = "spark.redaction.regex, spark.sql.redaction.options.regex"


class DifferentPlaces(DataflowError):
    """What the engine writes below a shard root is not, or not all, found from this process."""

    error_code = "MVS-230"

    def __init__(self, root: str, written: str, read: str, visible: int, wrote: int):
        part = "nothing of it is there" if not visible else f"only {visible} of {wrote} files are there"
        super().__init__(
            f"Spark and this Python process see different places under shard_root {root}: Spark reports that it wrote {written}; "
            f"Python read {read}, and {part}. Nothing was written to a shard. shard_root must be a place that every executor "
            "of Spark and this machine share: a common filesystem or an object store, under a name that both interpret alike"
        )


class DamagedFiles(DataflowError):
    """Live data files of a shard are gone or altered. ``damages``: the files and what is wrong."""

    error_code = "MVS-231"

    def __init__(self, uri: str, damages: Sequence[str]):
        shown = "; ".join(damages[:SHOWN_FILES]) + (
            f"; and {len(damages) - SHOWN_FILES} more" if damages[SHOWN_FILES:] else ""
        )
        super().__init__(
            f"shard {uri} has lost data: {shown}. Runs write nothing to it. Restore the files, or give up their contents: "
            "--full-refresh computes a view again from its query (for a task: also --vars '{mvsink_reset: [the task's name]}')"
        )


class ForeignDeletionVectors(DataflowError):
    """Another engine deleted rows of a live file by a deletion vector."""

    error_code = "MVS-232"

    def __init__(self, uri: str, paths: Sequence[str]):
        super().__init__(
            f"another engine left deletion vectors on {len(paths)} file(s) of shard {uri} ({paths[0]}, ...); plain "
            "Parquet readers cannot see them. Run REORG TABLE ... APPLY (PURGE) with that engine, or --full-refresh"
        )


class NotRefreshed(DataflowError):
    """A read of a shard without contents, never an empty collection. ``first_refresh`` is text."""

    error_code = "MVS-233"

    def __init__(self, shard: str = "", first_refresh: str = "") -> None:
        message = (
            f"not refreshed yet; first refresh at {first_refresh}" if first_refresh else "not refreshed yet"
        )
        super().__init__(f"{shard}: {message}" if shard else message)


class NotReadable(DataflowError):
    """A read outside the history that a shard keeps. ``readable`` is ``[since, upper)``."""

    error_code = "MVS-234"

    def __init__(self, asked: str, since: str, upper: str):
        super().__init__(f"cannot read {asked}: the readable times are [{since}, {upper})")


class UnreadableView(DataflowError):
    """A view's properties are redacted, and neither its text nor SHOW CREATE TABLE has them."""

    error_code = "MVS-235"

    def __init__(self, relation: str, keys: Sequence[str], remedy: str):
        names = ", ".join(f"`{key}`" for key in keys)
        super().__init__(
            f"cannot read the view {relation}: Spark redacts its properties {names}, because their names or values match "
            f"one of {SETTINGS}\n  {remedy}"
        )
