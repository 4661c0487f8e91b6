"""dbt's results as the commands have them."""

from __future__ import annotations

from types import SimpleNamespace

from dbt.adapters.mvsink.cli.dbt_runner import Dbt, Model


def result(unique_id, status="success"):
    node = SimpleNamespace(unique_id=unique_id, schema="s", alias="m")
    return SimpleNamespace(node=node, status=status, message="", adapter_response={})


def test_hooks_of_a_run_are_no_models_unless_they_fail(monkeypatch):
    results = [
        result("operation.shop.on-run-start-0"),
        result("operation.shop.on-run-end-0", "error"),
        result("model.shop.m"),
    ]
    monkeypatch.setattr(Dbt, "_invoke", lambda *_: SimpleNamespace(results=results))
    model = Model("model.shop.m", "self_correcting_mv", "shop.m")
    ran = Dbt(".", ".").run([model])
    assert [each.unique_id for each in ran] == ["operation.shop.on-run-end-0", "model.shop.m"]
