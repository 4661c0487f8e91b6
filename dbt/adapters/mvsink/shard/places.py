"""Where a shard's files are: nothing outside the shard's directory is read, written or deleted, and
every failure of a filesystem or a store names the file.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

import pyarrow as pa

from dbt.adapters.mvsink.shard.errors import NotPermitted, OutsideShard, Unreachable, message_of

REFUSALS = (errno.EACCES, errno.EPERM, errno.EROFS)
REFUSALS_IN_WORDS = ("AccessDenied", "403 Forbidden", "Permission denied")


def local_path(uri: str) -> str | None:
    """The path of a local shard; None for an object store."""
    if uri.startswith("file://"):
        return unquote(uri[len("file://") :])
    return None if "://" in uri else uri


def require_inside(uri: str, path: str, place: str, *, followed: bool = False) -> None:
    """Raises `OutsideShard` if `..` or a symbolic link on the way to ``place`` leaves the shard;
    with ``followed`` if the last name is such a link, too. A store has no links.
    """
    root = local_path(uri)
    if root is None:
        return
    top = os.path.realpath(root)
    real = os.path.realpath(place if followed else os.path.dirname(place))
    if real != top and not real.startswith(f"{top.rstrip(os.sep)}{os.sep}"):
        raise OutsideShard(
            f"{path!r} of shard {uri} is in {real}, outside the shard's directory. It is neither read nor deleted: move its files into the "
            "shard's directory, or remove the link"
        )


@contextmanager
def storage_errors(verb: str, path: str, uri: str) -> Iterator[None]:
    """A failure of the filesystem or of Arrow is an `Unreachable` that names the file."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        kind = NotPermitted if _is_refusal(error) else Unreachable
        raise kind(f"cannot {verb} {path or 'the directory'} of shard {uri}: {message_of(error)}") from error


def _is_refusal(error: BaseException) -> bool:
    """Whether the storage refuses this process the access: a disk by a number, a store in words."""
    if getattr(error, "errno", None) in REFUSALS:
        return True
    return any(words in str(error) for words in REFUSALS_IN_WORDS)
