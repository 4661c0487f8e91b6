"""The publish gate without an engine: how much change is too much, who accepts it, and which tests
are a model's audits.
"""

from __future__ import annotations

import doctest
from types import SimpleNamespace as Node

import pytest
from dbt.artifacts.resources.v1.components import DependsOn, MacroDependsOn

from dbt.adapters.mvsink.engine import EngineError, types
from dbt.adapters.mvsink.exceptions import InvalidOption, UnknownAudit
from dbt.adapters.mvsink.materialization.audits import chosen
from dbt.adapters.mvsink.materialization.options.gate_options import AUDIT, MAX_CHANGE, AuditConfig, accepts
from dbt.adapters.mvsink.shard_sql import Counts
from dbt.adapters.mvsink.sink import Audit, Gate, MaxChange, gate
from dbt.adapters.mvsink.sink.errors import AuditFailed
from dbt.adapters.mvsink.sink.gate import Contents, check
from tests.support.engines import NoEngine

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
    for module in (gate, types):
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


# ``depends_on`` is dbt's own: that of a seed has no `nodes`, and a source may have none
SEED = "seed.shop.codes"
SEED_NODE = Node(unique_id=SEED, name="codes", resource_type="seed", depends_on=MacroDependsOn())
READ_TOO = {
    "a seed": (SEED, MacroDependsOn(macros=["macro.dbt.x"])),
    "a snapshot": ("snapshot.shop.old", DependsOn(nodes=[OTHER])),
    "a model": (OTHER, DependsOn()),
    "an ephemeral model": ("model.shop.cte", DependsOn(nodes=[SEED])),
    "a source": ("source.shop.raw.codes", None),
    "a function": ("function.shop.clean", DependsOn(nodes=[SEED])),
}


@pytest.mark.parametrize(("unique_id", "depends_on"), READ_TOO.values(), ids=READ_TOO)
def test_row_n_a_test_that_reads_any_kind_of_node_can_be_an_audit(unique_id, depends_on):
    kind, name = unique_id.split(".")[0], unique_id.split(".")[-1]
    read = Node(unique_id=unique_id, name=name, resource_type=kind)
    if depends_on is not None:
        read.depends_on = depends_on
    manifest = Node(nodes={each.unique_id: each for each in (*NODES, SEED_NODE)}, sources={}, functions={})
    getattr(manifest, f"{kind}s", manifest.nodes)[unique_id] = read
    both = node("test.shop.both", MV, unique_id, attached_node=MV)
    manifest.nodes[both.unique_id] = both
    assert both in chosen(manifest, "s.mv", MV, True)


def test_row_n_what_is_downstream_through_a_function_or_a_snapshot_is_left_out():
    function = node("function.shop.clean", MV, kind="function")
    snapshot = node("snapshot.shop.old", "function.shop.clean", kind="snapshot")
    test = node("test.shop.late", MV, "snapshot.shop.old", attached_node=MV)
    nodes = {each.unique_id: each for each in (*NODES, snapshot, test)}
    manifest = Node(nodes=nodes, sources={}, functions={function.unique_id: function})
    assert "late" not in [each.name for each in chosen(manifest, "s.mv", MV, True)]


class Missing(NoEngine):
    """Every query reads a relation that does not exist."""

    def query(self, statement, what):
        raise EngineError("[TABLE_OR_VIEW_NOT_FOUND] `s`.`codes`", "42P01")


def test_row_n_a_first_load_leaves_an_audit_over_what_is_not_built_yet_to_dbts_own_test():
    gate = Gate(audits=(Audit("relationships_mv", str, str),))
    checked = check(gate, Missing(), "s.mv", Counts(3), None, False, Contents("", first=True))
    assert checked.warnings == [
        "audit relationships_mv was not checked: it reads a relation that does not exist yet ([TABLE_OR_VIEW_NOT_FOUND] `s`.`codes`). "
        "This is the first load; later ones fail. `dbt build` runs the test itself afterwards"
    ]
    with pytest.raises(AuditFailed, match="relationships_mv cannot run"):
        check(gate, Missing(), "s.mv", Counts(3), None, False, Contents(""))
