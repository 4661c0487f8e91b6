"""Variables that name models."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.adapter.named_models import check_named
from dbt.adapters.mvsink.exceptions import UnknownModel


def node(name, materialized, alias=""):
    return SimpleNamespace(
        name=name,
        alias=alias or name,
        schema="dev",
        unique_id=f"model.shop.{name}",
        config=SimpleNamespace(materialized=materialized),
    )


NODES = [
    node("upsert", "continual_task"),
    node("order_log", "continual_task", "LOG"),
    node("orders", "self_correcting_mv"),
    node("plain", "table"),
]
MANIFEST = SimpleNamespace(nodes={each.unique_id: each for each in NODES})


def check(**variables):
    check_named(SimpleNamespace(cli_vars=variables, vars=None, project_name="shop"), MANIFEST)


@pytest.mark.parametrize("variable", ["mvsink_skip_errors", "mvsink_reset"])
@pytest.mark.parametrize("name", ["upsert", "order_log", "LOG", "log", "dev.LOG", "model.shop.order_log", []])
def test_row_o_a_task_may_be_named_in_every_way_that_a_run_knows(variable, name):
    check(**{variable: name})


@pytest.mark.parametrize(
    ("variables", "parts"),
    [
        (
            {"mvsink_skip_errors": ["upsret"]},
            ["`mvsink_skip_errors`", "Did you mean `upsert`?", "Got: 'upsret'"],
        ),
        ({"mvsink_skip_errors": ["upsert", "x"]}, ["Got: 'x'", "Expected: order_log, upsert"]),
        ({"mvsink_skip_errors": "orders"}, ["no continual_task of this name", "order_log, upsert"]),
        ({"mvsink_reset": "plain"}, ["`mvsink_reset`", "Got: 'plain'"]),
        ({"mvsink_accept": ["order"]}, ["Did you mean `orders`?", "no self_correcting_mv"]),
    ],
)
def test_row_o_another_name_is_refused_with_the_known_ones(variables, parts):
    with pytest.raises(UnknownModel) as error:
        check(**variables)
    assert all(part in str(error.value) for part in parts), error.value
