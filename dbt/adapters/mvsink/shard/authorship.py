"""Who makes the commits of this process: a few texts, such as a user and a git commit, that each
commit records for people. Correctness never needs them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

_lock = threading.Lock()
_find: Callable[[], Mapping[str, str]] = dict
_author: Mapping[str, str] | None = None


def authored_by(find: Callable[[], Mapping[str, str]]) -> None:
    """From now on commits record what ``find`` returns, which is called by the first commit."""
    global _find, _author
    with _lock:
        _find, _author = find, None


def author() -> Mapping[str, str]:
    """What a commit records now."""
    global _author
    with _lock:
        if _author is None:
            _author = _find()
        return _author
