"""A view's assertions: conditions on every row, from its configs and its contract."""

from __future__ import annotations

from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.materialization.contracts import contract_assertions
from dbt.adapters.mvsink.shard_sql import OnError
from dbt.adapters.mvsink.sink import Assertion, not_null


def assertions(context: RunContext) -> tuple[Assertion, ...]:
    """`assert_not_null` and the contract's `not_null` and `check` constraints.

    Without `on_error` the former records a violation, the latter fail the run.
    """
    on_error = context.options.on_error
    names = context.options.assert_not_null
    asserted = [not_null(name, fails=on_error is OnError.FAIL) for name in names]
    return (*asserted, *contract_assertions(context.node, fails=on_error is not OnError.RECORD))
