"""The adapter's methods that macros call for continual tasks only; the others are those of every maintained model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from dbt.adapters.base.meta import AdapterMeta, available

from dbt.adapters.mvsink.maintained import LOWER_ERRORS, Invocation, prepared_query, translate
from dbt.adapters.mvsink.maintained_adapter import MaintainedAdapter
from dbt.adapters.mvsink.task_options import TaskOptions
from dbt.adapters.mvsink.task_run import TaskRun, contract_columns

if TYPE_CHECKING:
    from dbt.adapters.mvsink.impl import MvsinkAdapter
    from dbt.adapters.mvsink.relation import MvsinkRelation


class TaskAdapter(MaintainedAdapter, metaclass=AdapterMeta):
    """Mixed into the adapter."""

    @available.parse_none
    def mv_prepare_task(
        self,
        config: Any,
        node: Mapping[str, Any],
        relation: MvsinkRelation,
        existing: MvsinkRelation | None,
        invocation: Mapping[str, Any],
        reset: list[str],
    ) -> TaskRun:
        """Check a task's configs. Its text is the node's own: dbt's injected one is cut at a `;` after `CASE ... END`."""
        model = f"{relation.schema}.{relation.identifier}"
        compiled = config.model
        text = getattr(compiled, "_pre_injected_sql", None) or compiled.compiled_code
        try:
            options = TaskOptions.parse(model, node["config"], contract_columns(node))
        except LOWER_ERRORS as error:
            raise translate(model, error) from error
        given = Invocation(**invocation, sampled=self._sampled())
        wanted = bool({str(node["name"]), str(relation.identifier), model} & set(reset))
        return TaskRun(
            adapter=cast("MvsinkAdapter", self),
            relation=relation,
            node=node,
            query=prepared_query(text),
            options=options,
            invocation=given,
            current=self.published(existing),
            ctes=tuple(str(cte.sql) for cte in compiled.extra_ctes or ()),
            reset=given.full_refresh and wanted and node["config"].get("full_refresh") is not False,
            storage_options=self._credentials().storage_options,
        )
