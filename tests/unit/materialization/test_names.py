"""Which schemas and aliases a maintained model may have."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.exceptions import InvalidName
from dbt.adapters.mvsink.materialization.run import check_names

BAD = [
    "",
    ".",
    "..",
    "../../x",
    "a/b",
    "a\\b",
    "a b",
    " a",
    "a-b",
    "a.b",
    "é",
    "${env:HOME}",
    "a%20b",
    "a`b",
    "a\n",
    "a'b",
    "x" * 129,
]


@pytest.mark.parametrize("name", ["orders", "Orders_2", "_x", "2024", "hourly", "x" * 128])
def test_good_names(name):
    check_names("m", name, name)
    check_names("m", f"catalog.{name}", name)


@pytest.mark.parametrize("name", BAD)
def test_bad_aliases_are_refused_with_the_models_name(name):
    with pytest.raises(InvalidName) as raised:
        check_names("s.m", "s", name)
    assert raised.value.msg.startswith(f"s.m: invalid alias\n  Got: {name!r}\n  Expected: letters")


@pytest.mark.parametrize("name", [name for name in BAD if name != "a.b"] + ["a..b", ".a"])
def test_bad_schemas_are_refused(name):
    with pytest.raises(InvalidName, match="invalid schema"):
        check_names("s.m", name, "m")


@pytest.mark.parametrize(
    "name", ["_delta_log", "_mvsink", "_inputs", "_sums", "_staging", "batches", "leases", "_Delta_Log"]
)
def test_row_k_an_alias_that_is_a_directory_of_ours_is_refused(name):
    with pytest.raises(InvalidName, match="(?s)s.m: invalid alias.*a directory of shards' own: .*_delta_log"):
        check_names("s.m", "s", name)


def test_row_k_a_schema_may_have_a_name_that_matters_only_within_a_shard():
    check_names("batches.m", "batches", "m")
    with pytest.raises(InvalidName, match="invalid schema"):
        check_names("_delta_log.m", "_delta_log", "m")
