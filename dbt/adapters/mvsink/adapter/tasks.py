"""The adapter's methods that macros call for continual tasks only; the others are in `models`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from dbt.adapters.base.meta import AdapterMeta, available

from dbt.adapters.mvsink.adapter.dbt_engine import AdapterEngine
from dbt.adapters.mvsink.adapter.models import MaintainedAdapter, checked_name
from dbt.adapters.mvsink.adapter.variables import variable
from dbt.adapters.mvsink.materialization import run as phases
from dbt.adapters.mvsink.materialization.errors import translated
from dbt.adapters.mvsink.materialization.options.folder_configs import configs_of
from dbt.adapters.mvsink.materialization.options.table import ModelOptions
from dbt.adapters.mvsink.materialization.run import Prepared
from dbt.adapters.mvsink.materialization.task import ContinualTask, contract_columns, reset_warning
from dbt.adapters.mvsink.materialization.task_unit_test import UnitQuery, unit_query
from dbt.adapters.mvsink.materialization.warn import warn
from dbt.adapters.mvsink.user_sql.checks import without_end

if TYPE_CHECKING:
    from dbt.adapters.mvsink.relation import MvsinkRelation

TASK = "continual_task"


class TaskAdapter(MaintainedAdapter, metaclass=AdapterMeta):
    """Part of the adapter."""

    @available.parse_none
    def mv_prepare_task(
        self,
        config: Any,
        node: Mapping[str, Any],
        relation: MvsinkRelation,
        existing: MvsinkRelation | None,
        invocation: Mapping[str, Any],
        reset: list[str],
    ) -> Prepared:
        """Check a task's name and configs. ``reset`` are the tasks that `mvsink_reset` names.

        The task's text is the node's own: dbt's injected text is cut at a `;` after `CASE ... END`.
        """
        model = checked_name(relation)
        options = _options(model, node, self._manifest())
        requested = self._invocation(invocation)
        names = {str(node["name"]), str(relation.identifier), model}
        named = bool(names & set(reset))
        warning = reset_warning(model, node, requested, named=named)
        if warning:
            warn(f"{model}: {warning}")
        resets = requested.full_refresh and named
        task = ContinualTask(
            _ctes(config.model),
            reset=resets,
            skip_errors=bool(names & set(_as_list(variable(self.config, "mvsink_skip_errors")))),
        )
        invoked = replace(requested, full_refresh=resets)
        with translated(model):
            context = self._context(node, relation, existing, _own_text(config.model), options, invoked)
            return phases.prepare(context, task)

    @available.parse(lambda *_, **__: False)
    def mv_is_task(self, unique_id: str) -> bool:
        """Whether this model is a task."""
        node = self._nodes().get(unique_id)
        return node is not None and node.config.materialized == TASK

    @available.parse_none
    def mv_unit_output(self, test_id: str) -> Any:
        """The rows, or the SQL, of a unit test's fixture for `this`; None without one."""
        test = self._manifest().unit_tests[test_id]
        return next((fixture.rows for fixture in test.given if fixture.input.strip() == "this"), None)

    @available.parse_none
    def mv_unit_query(self, config: Any, tested_id: str, so_far: Any) -> UnitQuery:
        """The query of what the tested task makes of the fixtures. See `task_unit_test`."""
        node = self._nodes()[tested_id].to_dict(omit_none=False)
        model = f"{node['schema']}.{node['alias']}"
        engine = AdapterEngine(self, model)
        text, declared = (
            without_end(_own_text(config.model)),
            _options(model, node, self._manifest()).column_types,
        )
        with translated(model):
            contracted = bool(contract_columns(node))
            return unit_query(
                engine, model, text, _ctes(config.model), declared, so_far, contracted=contracted
            )

    def _manifest(self) -> Any:
        return self.get_macro_resolver()

    def _nodes(self) -> Mapping[str, Any]:
        return cast("Mapping[str, Any]", self._manifest().nodes)


def _options(model: str, node: Mapping[str, Any], manifest: Any) -> ModelOptions:
    with translated(model):
        return ModelOptions.parse_task(model, configs_of(model, node, manifest), contract_columns(node))


def _own_text(node: Any) -> str:
    """The node's text without the ephemeral models that dbt puts in front of it."""
    return str(getattr(node, "_pre_injected_sql", None) or node.compiled_code)


def _as_list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _ctes(node: Any) -> tuple[str, ...]:
    return tuple(str(cte.sql) for cte in node.extra_ctes or ())
