"""Every config of a maintained model, as dbt knows it. `options` checks and reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dbt.adapters.spark.impl import SparkConfig


@dataclass
class MvsinkConfig(SparkConfig):
    """See the module and docs/configuration.md."""

    refresh: Any | None = None
    retain_history: Any | None = None
    assert_not_null: Any | None = None
    on_error: Any | None = None
    read_only: Any | None = None
    adopt: Any | None = None
    audit: Any | None = None
    max_change: Any | None = None
    initial_snapshot: Any | None = None
    snapshot: Any | None = None
    on_late_reference: Any | None = None
    input_files: Any | None = None
