"""The names that a maintained model may have: a view's, and directories below `shard_root`."""

from __future__ import annotations

import re

from dbt.adapters.mvsink.exceptions import MAX_NAME, InvalidName

WORD = re.compile(r"[A-Za-z0-9_]+")  # what Spark's own catalog accepts


def check_names(model: str, schema: str, identifier: str) -> None:
    """Raises `InvalidName`. A schema may be ``catalog.schema``."""
    for what, name, words in (("schema", schema, schema.split(".")), ("alias", identifier, [identifier])):
        if not all(WORD.fullmatch(word) and len(word) <= MAX_NAME for word in words):
            raise InvalidName(model, what, name)
