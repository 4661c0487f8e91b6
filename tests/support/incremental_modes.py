"""Whole suites with corrections from the changes of inputs wherever these are known, or without."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.materialization.options.table import ModelOptions

MODES = ("auto", "never", "wherever", "large")


class NoLimit(float):
    """As a share of rows, too, if there are none."""

    def __mul__(self, rows: float) -> float:
        return math.inf


def install(mode: str, patch: pytest.MonkeyPatch) -> None:
    """Have models run in a mode: `auto` and `never` are the option's values, whatever the model
    says; `wherever` computes each correction from changes that is known to be right, whatever it
    costs; `large` is `auto` for data that are never few and queries that are never quick.
    """
    if mode == "never":
        parse = ModelOptions.parse

        def never(model: str, config: Mapping[str, Any]) -> ModelOptions:
            return parse(model, {**config, "incremental": "never"})

        patch.setattr(ModelOptions, "parse", staticmethod(never))
    elif mode in ("wherever", "large"):
        patch.setattr(limits, "SMALL_BYTES", -1)
        patch.setattr(limits, "QUICK_EVALUATION", 0)
        if mode == "wherever":
            patch.setattr("dbt.adapters.mvsink.sink.decide._in_vain", lambda case: None)
            unlimited(patch)


def unlimited(patch: pytest.MonkeyPatch) -> None:
    """However much changed, and however quickly the query is evaluated."""
    patch.setattr(limits, "QUICK_EVALUATION", 0)
    patch.setattr(limits, "FEW_CHANGES", 0)
    patch.setattr(limits, "TRIED_CHANGES", 0)
    for each in ("MAX_CHANGED", "MAX_CHANGED_LINEAR", "MAX_KEYS", "MANY_ROWS"):
        patch.setattr(limits, each, NoLimit(math.inf))
