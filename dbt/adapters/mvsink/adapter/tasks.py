"""The adapter's methods that macros call for continual tasks only; the others are those of every
maintained model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from dbt.adapters.base.meta import AdapterMeta, available

from dbt.adapters.mvsink.adapter.dbt_engine import AdapterEngine
from dbt.adapters.mvsink.adapter.models import MaintainedAdapter
from dbt.adapters.mvsink.adapter.variables import variable
from dbt.adapters.mvsink.materialization.mv import LOWER_ERRORS, Invocation, prepared_query, translate
from dbt.adapters.mvsink.materialization.names import check_names
from dbt.adapters.mvsink.materialization.options.table import ModelOptions
from dbt.adapters.mvsink.materialization.options.task import reset_words
from dbt.adapters.mvsink.materialization.task import TaskRun, contract_columns
from dbt.adapters.mvsink.materialization.task_unit_test import UnitQuery, unit_query
from dbt.adapters.mvsink.materialization.warn import warn

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
    ) -> TaskRun:
        """Check a task's configs. Its text is the node's own: dbt's injected one is cut at a `;`
        after `CASE ... END`.
        """
        model = f"{relation.schema}.{relation.identifier}"
        check_names(model, str(relation.schema), str(relation.identifier))
        try:
            options = ModelOptions.parse_task(model, node["config"], contract_columns(node))
        except LOWER_ERRORS as error:
            raise translate(model, error) from error
        given = Invocation(**invocation, sampled=self._sampled())
        names = {str(node["name"]), str(relation.identifier), model}
        wanted = bool(names & set(reset))
        anew = given.full_refresh and wanted
        if given.full_refresh and not wanted:
            warn(
                f"{model}: --full-refresh does not reset a task; what it wrote stays. To reset it: {reset_words(model)}"
            )
        elif wanted and node["config"].get("full_refresh") is False:
            warn(f"{model}: it is in mvsink_reset and stays as it is, because its full_refresh is false")
        elif wanted and not given.full_refresh:
            warn(
                f"{model}: it is in mvsink_reset, which resets a task only with --full-refresh; it stays as it is"
            )
        run = TaskRun(
            adapter=self,
            relation=relation,
            node=node,
            query=prepared_query(_own_text(config.model)),
            options=options,
            invocation=replace(given, full_refresh=anew),
            current=self.published(existing),
            ctes=_ctes(config.model),
            reset=anew,
            skip_errors=bool(names & set(_listed(variable(self.config, "mvsink_skip_errors")))),
            storage_options=self._credentials().storage_options,
        )
        self._check_that_spark_takes(run)
        self._warn_of_the_clock(run)
        run.warn_of_definition()
        return run

    @available.parse(lambda *_, **__: False)
    def mv_is_task(self, unique_id: str) -> bool:
        """Is this model a task?"""
        node = self._nodes().get(unique_id)
        return node is not None and node.config.materialized == TASK

    @available.parse_none
    def mv_unit_output(self, test_id: str) -> Any:
        """The rows, or the SQL, that a unit test gives for `this`; None if it gives none."""
        test = self._manifest().unit_tests[test_id]
        return next((given.rows for given in test.given if given.input.strip() == "this"), None)

    @available.parse_none
    def mv_unit_query(self, config: Any, tested_id: str, so_far: str) -> UnitQuery:
        """What the tested task makes of the fixtures. See `task_unit`."""
        node = self._nodes()[tested_id].to_dict(omit_none=False)
        model = f"{node['schema']}.{node['alias']}"
        engine = AdapterEngine(self, model)
        text = prepared_query(_own_text(config.model))
        try:
            declared = ModelOptions.parse_task(model, node["config"], contract_columns(node)).column_types
            return unit_query(engine, model, text, _ctes(config.model), declared, so_far)
        except LOWER_ERRORS as error:
            raise translate(model, error) from error

    def _manifest(self) -> Any:
        return self.get_macro_resolver()

    def _nodes(self) -> Mapping[str, Any]:
        return cast("Mapping[str, Any]", self._manifest().nodes)


def _own_text(node: Any) -> str:
    """The node's text without the ephemeral models that dbt puts in front of it."""
    return str(getattr(node, "_pre_injected_sql", None) or node.compiled_code)


def _listed(given: Any) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


def _ctes(node: Any) -> tuple[str, ...]:
    return tuple(str(cte.sql) for cte in node.extra_ctes or ())
