"""Delta tables written without Spark, and what only other writers put into a log, written by hand.
For tests.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
MAGIC = 1681511377  # of the roaring bitmap array that Delta's protocol describes


def append(root: Path, *ids: int, **options: Any) -> None:
    """One commit that adds one file of the column ``id``."""
    write_deltalake(str(root), pa.table({"id": pa.array(ids, pa.int32())}), mode="append", **options)


def actions(root: Path, version: int) -> list[dict[str, Any]]:
    """The actions of one commit."""
    return [json.loads(line) for line in log_file(root, version).read_text().splitlines()]


def write_actions(root: Path, version: int, commit: list[dict[str, Any]]) -> None:
    """A commit with these actions, written or written over."""
    log_file(root, version).write_text("\n".join(map(json.dumps, commit)) + "\n")


def log_file(root: Path, version: int) -> Path:
    return root / "_delta_log" / f"{version:020d}.json"


def delete_by_vector(
    root: Path, version: int, path: str, positions: list[int], deleted_before: list[int] | None = None
) -> None:
    """Commit ``version`` that deletes rows of ``path``, as Spark does it with deletion vectors on;
    ``deleted_before`` were deleted by earlier commits.
    """
    add = next(
        a["add"] for v in range(version) for a in actions(root, v) if a.get("add", {}).get("path") == path
    )
    remove = {
        "path": path,
        "dataChange": True,
        "deletionTimestamp": 1,
        "extendedFileMetadata": True,
        "partitionValues": {},
    }
    if deleted_before:
        remove["deletionVector"] = inline_vector(deleted_before)
    write_actions(
        root,
        version,
        [
            {"commitInfo": {"timestamp": 1, "operation": "DELETE"}},
            {"remove": remove},
            {"add": {**add, "deletionVector": inline_vector(positions)}},
        ],
    )


def inline_vector(positions: list[int]) -> dict[str, Any]:
    """A deletion vector kept in the log itself."""
    bitmap = struct.pack("<II", 12346, 1) + struct.pack("<HHI", 0, len(positions) - 1, 16)
    bitmap += b"".join(struct.pack("<H", position) for position in positions)
    data = struct.pack("<I", MAGIC) + struct.pack("<QI", 1, 0) + bitmap
    padded = data + b"\0" * (-len(data) % 4)
    return {
        "storageType": "i",
        "pathOrInlineDv": "".join(_z85(word) for (word,) in struct.iter_unpack(">I", padded)),
        "sizeInBytes": len(data),
        "cardinality": len(positions),
    }


def _z85(word: int) -> str:
    digits = []
    for _ in range(5):
        word, digit = divmod(word, 85)
        digits.append(Z85[digit])
    return "".join(reversed(digits))


def data_paths(root: Path, version: int) -> list[str]:
    """The paths that a commit adds."""
    return [action["add"]["path"] for action in actions(root, version) if "add" in action]
