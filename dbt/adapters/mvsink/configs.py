"""Every config of a maintained model, as dbt knows it: a field per key of the table of options."""

from __future__ import annotations

from dataclasses import field, make_dataclass
from typing import Any

from dbt.adapters.spark.impl import SparkConfig

from dbt.adapters.mvsink.materialization.options.table import OPTIONS

MvsinkConfig: type[SparkConfig] = make_dataclass(
    "MvsinkConfig",
    [
        (key, Any, field(default=None))
        for option in OPTIONS.values()
        if not option.is_dbts
        for key in option.keys
    ],
    bases=(SparkConfig,),
    namespace={"__module__": __name__},
)
