"""Whole suites with corrections from the changes of inputs wherever these are known, or without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dbt.adapters.mvsink.materialization.options.table import ModelOptions

MODES = ("auto", "never", "wherever")


def install(mode: str, patch: pytest.MonkeyPatch) -> None:
    """Have models run in a mode: `auto` and `never` are the option's values, whatever the model
    says; `wherever` computes each correction from changes that is known to be right, whatever it
    costs.
    """
    if mode == "never":
        parse = ModelOptions.parse

        def never(model: str, config: Mapping[str, Any]) -> ModelOptions:
            return parse(model, {**config, "incremental": "never"})

        patch.setattr(ModelOptions, "parse", staticmethod(never))
    elif mode == "wherever":
        patch.setattr("dbt.adapters.mvsink.materialization.increment.SMALL_BYTES", -1)
        patch.setattr("dbt.adapters.mvsink.sink.staging.in_vain", lambda *_, **__: "")
        unlimited(patch)


def unlimited(patch: pytest.MonkeyPatch) -> None:
    """However much changed, and however quickly the query is evaluated."""
    patch.setattr("dbt.adapters.mvsink.sink.experience.LEAST", 0)
    for each in ("MAX_SHARE", "MAX_SHARE_LINEAR"):
        patch.setattr(f"dbt.adapters.mvsink.sink.staged_changes.{each}", 1e9)
    patch.setattr("dbt.adapters.mvsink.sink.delta_write.MAX_KEYS_SHARE", 1e9)
    patch.setattr("dbt.adapters.mvsink.sink.delta_write.all_may_differ", lambda *_: False)
