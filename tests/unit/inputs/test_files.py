"""Which files a table has, and how they are chosen."""

from __future__ import annotations

import os

import pytest

from dbt.adapters.mvsink.inputs import FilesInput, TooManyFiles
from dbt.adapters.mvsink.inputs import file_tables as module
from dbt.adapters.mvsink.inputs.file_tables import which


@pytest.fixture
def root(tmp_path):
    put(tmp_path / "t", "a.parquet")
    return tmp_path / "t"


def put(root, name, text="rows"):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def paths(root):
    return sorted(file.path for file in FilesInput("i", "t", str(root)).manifest().values())


def test_what_readers_ignore_is_no_data_file(root):
    for name in (
        "_SUCCESS",
        ".a.parquet.crc",
        "_temporary/0/b.parquet",
        "_delta_log/0.json",
        ".spark-staging/c.parquet",
        "k=1/.d",
    ):
        put(root, name)
    put(root, "empty.parquet", "")
    put(root, "k=1/e.parquet")
    put(root, "_k=2/f.parquet")
    assert paths(root) == ["_k=2/f.parquet", "a.parquet", "k=1/e.parquet"]


def test_a_file_that_was_written_again_is_another_file(root):
    table = FilesInput("i", "t", str(root))
    first = table.manifest()
    assert table.manifest() == first
    os.utime(root / "a.parquet", ns=(0, 10**18))
    touched = table.manifest()
    put(root, "a.parquet", "more rows")
    os.utime(root / "a.parquet", ns=(0, 10**18))
    grown = table.manifest()
    assert len(first.keys() | touched.keys() | grown.keys()) == 3


def test_numbers_fit_a_bigint_and_do_not_depend_on_how_the_place_is_given(root):
    [number] = FilesInput("i", "t", str(root)).manifest()
    assert 0 <= number < 2**60
    assert (
        {number}
        == FilesInput("i", "t", f"file://{root}").manifest().keys()
        == FilesInput("i", "t", f"{root}/").manifest().keys()
    )


def test_places_are_spelled_as_spark_spells_them(tmp_path):
    put(tmp_path / "a b", "p=ü%20[x]/c+d,e#f.parquet")
    [file] = FilesInput("i", "t", str(tmp_path / "a b")).manifest().values()
    assert file.uri == f"{tmp_path}/a%20b/p=ü%2520%5Bx%5D/c+d,e%23f.parquet"


WHICH = {
    "nothing else": ({1, 2}, set(), ""),
    "the shorter list": ({1, 2}, {3}, "n not in (3L)"),
    "named": ({2, 1}, {3, 4, 5}, "n in (1L, 2L)"),
    "others not known": ({2, 1}, None, "n in (1L, 2L)"),
    "none": (set(), None, "false"),
}


@pytest.mark.parametrize(("chosen", "others", "wanted"), WHICH.values(), ids=WHICH)
def test_how_files_are_chosen(chosen, others, wanted):
    assert which("n", chosen, others, "i") == wanted


def test_too_many_to_name_are_refused(monkeypatch):
    monkeypatch.setattr(module, "MAX_FILES", 2)
    assert which("n", {1, 2, 3}, {4}, "i") == "n not in (4L)"
    with pytest.raises(TooManyFiles, match="table i: 3 files"):
        which("n", {1, 2, 3}, None, "i")
