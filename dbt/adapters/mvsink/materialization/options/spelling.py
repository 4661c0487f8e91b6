"""Which known name a misspelled one probably means."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import lru_cache


def nearest(key: str, known: Iterable[str]) -> str:
    """The known name that ``key`` is in another case, or within two letters of; empty if none.
    Short keys that only resemble one are left alone.

    >>> keys = ("RETAIN_HISTORY", "retain-histroy", "Adopt", "tags")
    >>> [nearest(key, ["retain_history", "adopt"]) for key in keys]
    ['retain_history', 'retain_history', 'adopt', '']
    """
    plain = key.lower().replace("-", "_")
    for name in known:
        if plain == name or (
            len(plain) > 4 and abs(len(plain) - len(name)) <= 2 and _distance(plain, name) <= 2
        ):
            return name
    return ""


@lru_cache(maxsize=4096)  # the models of a project have the same keys
def _distance(a: str, b: str) -> int:
    """How many letters must be changed, added or dropped: an upper bound, by matching blocks."""
    blocks = difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    return max(len(a), len(b)) - sum(block.size for block in blocks)
