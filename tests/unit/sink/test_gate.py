"""The publish gate without an engine: how much change is too much, who accepts it, and which tests
are a model's audits.
"""

from __future__ import annotations

import doctest
from types import SimpleNamespace as Node

import pytest

from dbt.adapters.mvsink.engine import json_values
from dbt.adapters.mvsink.exceptions import InvalidOption, UnknownAudit
from dbt.adapters.mvsink.materialization.audits import chosen
from dbt.adapters.mvsink.materialization.options.gate import AUDIT, MAX_CHANGE, AuditConfig, accepts
from dbt.adapters.mvsink.sink import MaxChange, gate

LIMIT = {
    "nothing changed": (MaxChange(rows=0), (0, 0, 9), True),
    "as many rows as allowed": (MaxChange(rows=5), (5, 0, 9), True),
    "a row more": (MaxChange(rows=5), (6, 0, 9), False),
    "so many deleted": (MaxChange(rows=5), (0, 6, 9), False),
    "an updated row counts once": (MaxChange(rows=5), (5, 5, 9), True),
    "as large a share as allowed": (MaxChange(percent=50), (0, 5, 10), True),
    "a larger share": (MaxChange(percent=50), (0, 6, 10), False),
    "a fraction of a percent": (MaxChange(percent=0.5), (0, 1, 199), False),
    "of an empty collection there is no share": (MaxChange(percent=0), (6, 0, 0), True),
    "but there are rows": (MaxChange(rows=5, percent=0), (6, 0, 0), False),
    "both limits hold": (MaxChange(rows=5, percent=10), (0, 2, 10), False),
}


@pytest.mark.parametrize(("limit", "change", "passes"), LIMIT.values(), ids=LIMIT)
def test_max_change(limit, change, passes):
    inserted, deleted, current = change
    assert (limit.broken_by(inserted, deleted, current) == "") is passes


def test_the_examples_in_the_docstrings():
    for module in (gate, json_values):
        done = doctest.testmod(module)
        assert done.failed == 0 and done.attempted > 0


def test_values():
    limits = [{"rows": 5}, {"percent": 5}]
    assert [MAX_CHANGE.read(limit) for limit in limits] == [MaxChange(5), MaxChange(None, 5.0)]
    tests = {False: False, True: True, "a": ("a",), ("a", "b"): ("a", "b")}
    assert {value: AUDIT.read(value).tests for value in tests} == tests
    assert not AUDIT.read(True).changes and not AUDIT.read({"tests": True}).changes
    assert AUDIT.read({"tests": ["a"], "scope": "changes"}) == AuditConfig(("a",), changes=True)


ACCEPTED = [
    ("orders", True),
    (["orders"], True),
    (["model.shop.orders"], True),
    (["s.orders"], True),
    ([], False),
    (["o"], False),
]


@pytest.mark.parametrize(("names", "accepted"), ACCEPTED)
def test_the_models_that_mvsink_accept_accepts(names, accepted):
    assert accepts(names, "model.shop.orders", "orders", "s.orders") is accepted


def test_what_can_be_accepted():
    with pytest.raises(InvalidOption, match=r"mvsink_accept: \[orders\]"):
        accepts({"orders": True}, "model.shop.orders", "orders", "s.orders")


# which tests


def node(unique_id, *parents, kind="test", severity="error", **more):
    name = unique_id.split(".")[-1]
    return Node(
        unique_id=unique_id,
        name=name,
        fqn=["shop", "marts", name],
        resource_type=kind,
        depends_on=Node(nodes=list(parents)),
        config=Node(severity=severity),
        **more,
    )


MV, OTHER, BELOW = "model.shop.mv", "model.shop.other", "model.shop.below"
NODES = [
    node(MV, OTHER, kind="model"),
    node(OTHER, kind="model"),
    node("model.shop.middle", MV, kind="model"),
    node(BELOW, "model.shop.middle", kind="model"),
    node("test.shop.generic", MV, attached_node=MV),
    node("test.shop.mild", MV, attached_node=MV, severity="WARN"),
    node("test.shop.relationship", MV, OTHER, attached_node=MV),
    node("test.shop.of_another", MV, OTHER, attached_node=OTHER),
    node("test.shop.singular", MV),
    node("test.shop.with_downstream", MV, BELOW),
    node("test.shop.elsewhere", OTHER, attached_node=OTHER),
    node("unit_test.shop.unit", MV, kind="unit_test"),
]
MANIFEST = Node(nodes={each.unique_id: each for each in NODES})

CHOSEN = {
    "the model's own of error severity": (True, ["generic", "relationship", "singular"]),
    "none": (False, []),
    "by name": (("mild",), ["mild"]),
    "as dbt ls names them": (("shop.marts.with_downstream",), ["with_downstream"]),
    "by unique id, each once": (("test.shop.generic", "generic"), ["generic"]),
    "one that is another's": (("of_another",), ["of_another"]),
}


@pytest.mark.parametrize(("wanted", "names"), CHOSEN.values(), ids=CHOSEN)
def test_which_tests_are_audits(wanted, names):
    assert [audit.name for audit in chosen(MANIFEST, "s.mv", MV, wanted)] == names


@pytest.mark.parametrize("name", ["elsewhere", "unit", "typo"])
def test_what_does_not_read_the_model_is_no_audit_of_it(name):
    with pytest.raises(UnknownAudit) as error:
        chosen(MANIFEST, "s.mv", MV, (name,))
    assert "s.mv: invalid config `audit`" in str(error.value) and f"Got: '{name}'" in str(error.value)
    assert "generic, mild, of_another, relationship, singular, with_downstream" in str(error.value)
