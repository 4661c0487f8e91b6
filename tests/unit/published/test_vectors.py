"""Deletion vectors as the protocol has them, and as another writer wrote them."""

from __future__ import annotations

import struct

import pytest
from pyroaring import BitMap64

from dbt.adapters.mvsink.published import vectors

FEW, MANY = BitMap64([0, 3, 70_000]), BitMap64(range(1, 200_000, 3))
# one that another tool wrote into the log
TEXT = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
KNOWN = {"storageType": "i", "pathOrInlineDv": TEXT, "sizeInBytes": 44, "cardinality": 6}
ROWS = BitMap64([3, 4, 7, 11, 18, 29])


def test_vectors_share_a_file():
    """None is in the log: Spark's VACUUM would fail."""
    kept = vectors.written({"a": FEW, "b": MANY, "c": MANY})
    assert {vectors.file_of(kept.descriptors[path]) for path in "abc"} == {kept.path}
    files = {kept.path: kept.content}
    for path, wanted in {"a": FEW, "b": MANY, "c": MANY}.items():
        assert vectors.read(kept.descriptors[path], files.__getitem__) == wanted
        assert kept.descriptors[path]["cardinality"] == len(wanted)
    assert vectors.unique_id(kept.descriptors["b"]) != vectors.unique_id(kept.descriptors["c"])
    assert vectors.unique_id(None) == ""


def test_the_form_that_other_engines_read():
    """The magic number, one part of the 64 bits, and an array of 16-bit numbers, as in the
    specification of Roaring's portable format.
    """
    data = vectors._from_z85(KNOWN["pathOrInlineDv"])[: KNOWN["sizeInBytes"]]
    head = struct.pack("<iQI", 1681511377, 1, 0)
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, 5, 16) + struct.pack("<6H", 3, 4, 7, 11, 18, 29)
    assert data == head + bitmap
    assert vectors.read(KNOWN, {}.__getitem__) == ROWS and vectors.file_of(KNOWN) is None
    kept = vectors.written({"a": ROWS})
    assert data in kept.content and kept.descriptors["a"]["cardinality"] == len(ROWS)


BROKEN = {
    "another storage type": {**KNOWN, "storageType": "x"},
    "no size": {key: value for key, value in KNOWN.items() if key != "sizeInBytes"},
    "no Z85": {**KNOWN, "pathOrInlineDv": "~~~~~"},
    "another magic number": {**KNOWN, "pathOrInlineDv": "00000" * 10},
}


@pytest.mark.parametrize("descriptor", BROKEN.values(), ids=BROKEN)
def test_what_is_no_vector_is_refused(descriptor):
    with pytest.raises(vectors.UnknownVector):
        vectors.read(descriptor, {}.__getitem__)


def test_a_file_that_is_cut_off_or_changed_is_refused():
    kept = vectors.written({"b": MANY})
    for content in (kept.content[:-20], kept.content[:-30] + b"x" + kept.content[-29:]):
        with pytest.raises(vectors.UnknownVector, match="is not whole"):
            vectors.read(kept.descriptors["b"], {kept.path: content}.__getitem__)
