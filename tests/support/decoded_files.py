"""Which files below a directory contain a value, whatever their format: Parquet with its statistics
and dictionaries, Avro, JSON, texts. Independent of the code that wrote them.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq


def files_with(directory: Path, mark: str) -> list[str]:
    """The files with this text, relative to the directory."""
    return [
        str(path.relative_to(directory))
        for path in sorted(directory.rglob("*"))
        if path.is_file() and any(mark.encode() in part for part in _decoded(path))
    ]


def _decoded(path: Path) -> Iterator[bytes]:
    content = path.read_bytes()
    yield str(path).encode()
    yield content
    if content[:4] == b"PAR1":
        yield from _parquet(path)
    elif content[:4] == b"Obj\x01":
        yield from _avro(content)


def _parquet(path: Path) -> Iterator[bytes]:
    file = pq.ParquetFile(path)
    for batch in file.iter_batches():
        yield json.dumps(batch.to_pylist(), default=str).encode()
    metadata = file.metadata
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            statistics = metadata.row_group(group).column(column).statistics
            if statistics is not None and statistics.has_min_max:
                yield f"{statistics.min!r} {statistics.max!r}".encode()


def _avro(content: bytes) -> Iterator[bytes]:
    """The decompressed blocks of an object container file."""
    position, codec = 4, b"null"
    while True:
        count, position = _number(content, position)
        if not count:
            break
        for _ in range(count):
            key, position = _bytes(content, position)
            value, position = _bytes(content, position)
            codec = value if key == b"avro.codec" else codec
    position += 16  # the sync marker
    while position < len(content):
        _, position = _number(content, position)
        block, position = _bytes(content, position)
        assert codec in (b"null", b"deflate"), codec
        yield zlib.decompress(block, -15) if codec == b"deflate" else block
        position += 16


def _number(content: bytes, position: int) -> tuple[int, int]:
    result, shift = 0, 0
    while True:
        byte = content[position]
        position += 1
        result |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return (result >> 1) ^ -(result & 1), position


def _bytes(content: bytes, position: int) -> tuple[bytes, int]:
    length, position = _number(content, position)
    return content[position : position + length], position + length
