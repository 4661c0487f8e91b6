"""The names that a maintained model may have: a view's, and directories below `shard_root`."""

from __future__ import annotations

import re

from dbt.adapters.mvsink.exceptions import MAX_NAME, InvalidName

# Directories of a shard and of the shards' root: a model of that name would lie in another one's.
OURS = frozenset({"_delta_log", "_mvsink", "_inputs", "_sums", "_staging", "batches", "leases", "_temporary"})
WORD = re.compile(r"[A-Za-z0-9_]+")  # what Spark's own catalog accepts


def check_names(model: str, schema: str, identifier: str) -> None:
    """Raises `InvalidName`. A schema may be ``catalog.schema``."""
    for what, name, words in (("schema", schema, schema.split(".")), ("alias", identifier, [identifier])):
        if not all(WORD.fullmatch(word) and len(word) <= MAX_NAME for word in words):
            raise InvalidName(model, what, name)
        # a schema lies in no shard: only names that are ours in the root are refused
        reserved = OURS if what == "alias" else {each for each in OURS if each.startswith("_")}
        if any(word.lower() in reserved for word in words):
            raise InvalidName(
                model, what, name, f", a directory of shards' own: {', '.join(sorted(reserved))}"
            )
