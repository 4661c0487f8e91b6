"""The adapter's method for `mvsink plan --against`: what a run would do to another target's shard.

The models have run in temporary schemas and have been compared; this applies the model's policies.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dbt.adapters.base.meta import AdapterMeta, available

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.adapter.models import MaintainedAdapter
from dbt.adapters.mvsink.adapter.variables import variable
from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.inputs.reference import References
from dbt.adapters.mvsink.materialization.errors import translated
from dbt.adapters.mvsink.materialization.options.freshness import with_freshness
from dbt.adapters.mvsink.materialization.options.gate_options import accepts
from dbt.adapters.mvsink.materialization.options.table import ModelOptions
from dbt.adapters.mvsink.shard import ReadHandle, ShardClient
from dbt.adapters.mvsink.sink import Audit, Gate, SinkRequest, change_limit
from dbt.adapters.mvsink.sink.run_plan import ForecastChange, forecast

if TYPE_CHECKING:
    from dbt.adapters.mvsink.relation import MvsinkRelation

PASSED = Audit("audits of the temporary run", lambda contents: contents, lambda contents: contents)


class JudgementAdapter(MaintainedAdapter, metaclass=AdapterMeta):
    """Part of the adapter."""

    @available.parse(lambda *_, **__: "{}")
    def mv_judge(self, relation: MvsinkRelation, node: Mapping[str, Any], request: str) -> str:
        """A `Forecast` as JSON.

        ``relation``: the shard's, in the other target; ``request``: JSON with its ``uri``, the
        ``columns`` that the query has now (types by name), and the ``change``, a `ForecastChange`.
        """
        asked, model = json.loads(request), f"{relation.schema}.{relation.identifier}"
        with (
            translated(model),
            ShardClient(self._credentials().storage_options).open_reader(asked["uri"]) as reader,
        ):
            columns = tuple(Column(name, parse_type(text, name)) for name, text in asked["columns"].items())
            wanted = self._request(model, node, reader, columns)
            return json.dumps(asdict(forecast(wanted, reader.state(), ForecastChange(**asked["change"]))))

    def _request(
        self, model: str, node: Mapping[str, Any], reader: ReadHandle, columns: tuple[Column, ...]
    ) -> SinkRequest:
        options, now = ModelOptions.parse(model, with_freshness(node)), wall_clock.now_ms()
        name, accept = str(node["name"]), variable(self.config, "mvsink_accept")
        return SinkRequest(
            model=model,
            query="",
            columns=columns,
            time=now,
            clock=now,
            retain_history=options.retain_history,
            references=References(),
            on_schema_change=options.on_schema_change,
            gate=Gate(
                change_limit(options.max_change, reader.history),
                (PASSED,) if options.audit.tests else (),
                accepts(accept, str(node["unique_id"]), name, model),
            ),
        )
