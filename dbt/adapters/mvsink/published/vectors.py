"""Deletion vectors: which rows of a data file a Delta table does not show.

Delta's protocol keeps the positions as a 64-bit Roaring bitmap behind a magic number, in the log
itself (storage type ``i``) or in a file (``u``, named by a UUID) that holds several:

    file    version (1 byte)  { size (4 bytes, big endian)  data  CRC-32 (4 bytes, big endian) }*
    data    magic (4 bytes, little endian)  the bitmap in Roaring's portable format

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#deletion-vector-format

Vectors are written to files only: Spark's VACUUM (Delta 4.4) ends with a MatchError if the log has
a vector itself. Those of other tools are read in both forms.
"""

from __future__ import annotations

import base64
import struct
import uuid
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyroaring import BitMap64

MAGIC = 1681511377
VERSION = b"\x01"
# The directory of vectors' files. VACUUM leaves directories alone whose name begins with `_`.
PREFIX = "_vectors"
# Z85 is the base 85 of Python's `b85encode` with other digits.
_PYTHON = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TO_Z85, _FROM_Z85 = bytes.maketrans(_PYTHON, _Z85), bytes.maketrans(_Z85, _PYTHON)
_UUID_DIGITS = 20


class UnknownVector(ValueError):
    """A deletion vector that does not follow the protocol, or that is damaged."""


@dataclass(frozen=True)
class StoredVectors:
    """Vectors ready to be stored: the descriptor of each for the log, by data file, and the
    ``content`` of the file that holds them. ``path`` is that file's path below the table; None if
    there are no vectors.
    """

    descriptors: Mapping[str, Mapping[str, Any]]
    path: str | None
    content: bytes


def written(vectors: Mapping[str, BitMap64]) -> StoredVectors:
    """How to store these vectors, which are by data file. The caller writes the file."""
    name = uuid.uuid4()
    descriptors: dict[str, Mapping[str, Any]] = {}
    content = bytearray(VERSION)
    for path, positions in vectors.items():
        data = struct.pack("<i", MAGIC) + positions.serialize()
        descriptors[path] = {
            "storageType": "u",
            "pathOrInlineDv": PREFIX + _z85(name.bytes),
            "offset": len(content),
            "sizeInBytes": len(data),
            "cardinality": len(positions),
        }
        content += struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    return StoredVectors(descriptors, _file_of(PREFIX, name) if descriptors else None, bytes(content))


def file_of(descriptor: Mapping[str, Any]) -> str | None:
    """The path of a vector's file below the table; None if the vector is in the log, or if its file
    is named in another way than by a UUID.
    """
    text = descriptor.get("pathOrInlineDv")
    if descriptor.get("storageType") != "u" or not isinstance(text, str) or len(text) < _UUID_DIGITS:
        return None
    prefix, name = text[:-_UUID_DIGITS], text[-_UUID_DIGITS:]
    return _file_of(prefix, uuid.UUID(bytes=_from_z85(name)))


def read(descriptor: Mapping[str, Any], bytes_of: Callable[[str], bytes]) -> BitMap64:
    """The positions that a vector hides. ``bytes_of`` reads a file below the table.

    Raises `UnknownVector`.
    """
    try:
        if descriptor["storageType"] == "i":
            data = _from_z85(descriptor["pathOrInlineDv"])[: descriptor["sizeInBytes"]]
        else:
            path = file_of(descriptor)
            if path is None:
                raise UnknownVector(f"a deletion vector of storage type {descriptor['storageType']!r}")
            begin = descriptor.get("offset") or len(VERSION)
            stored = bytes_of(path)[begin : begin + descriptor["sizeInBytes"] + 8]
            data = stored[4:-4]
            if len(data) != descriptor["sizeInBytes"] or struct.unpack(">I", stored[-4:])[0] != zlib.crc32(
                data
            ):
                raise UnknownVector(f"{path} is not whole")
        if struct.unpack("<i", data[:4])[0] != MAGIC:
            raise UnknownVector("a deletion vector without its magic number")
        return BitMap64.deserialize(data[4:])
    except (KeyError, TypeError, struct.error) as error:
        raise UnknownVector(f"a deletion vector that cannot be read: {error}") from error


def unique_id(descriptor: Mapping[str, Any] | None) -> str:
    """A text that distinguishes the vectors that one data file has had; empty if it has none."""
    if not descriptor:
        return ""
    offset = descriptor.get("offset")
    place = "" if offset is None else f"@{offset}"
    return f"{descriptor.get('storageType')}{descriptor.get('pathOrInlineDv')}{place}"


def _file_of(prefix: str, name: uuid.UUID) -> str:
    return "/".join(part for part in (prefix, f"deletion_vector_{name}.bin") if part)


def _z85(data: bytes) -> str:
    return base64.b85encode(data).translate(_TO_Z85).decode()


def _from_z85(text: str) -> bytes:
    try:
        return base64.b85decode(text.encode().translate(_FROM_Z85))
    except (ValueError, UnicodeError) as error:
        raise UnknownVector(f"{text[:40]!r} is not Z85") from error
