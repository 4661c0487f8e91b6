"""A task over one change as one query for the output afterwards, without writing: for unit tests.

Each statement's delta reads the output before it, a CTE of its own, so the text grows only with the
number of statements:

    _mv_0       the output so far
    _mv_1       _mv_0 and the delta of statement 0, consolidated
    ...

`effects` does the same batch by batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbt.adapters.mvsink.continual_task import bind
from dbt.adapters.mvsink.continual_task.effects import repeated
from dbt.adapters.mvsink.continual_task.statements import Program
from dbt.adapters.mvsink.engine import Column, sql
from dbt.adapters.mvsink.engine.whole_rows import net
from dbt.adapters.mvsink.physical import DIFF
from dbt.adapters.mvsink.shard_sql.as_of import nulls
from dbt.adapters.mvsink.user_sql.splice import with_ctes


def output_after(
    program: Program, columns: Sequence[Column], inputs: Sequence[Column], change: str, before: str | None
) -> str:
    """The rows of the output, as SQL, after the change of the input at one time.

    ``columns`` are the output's, ``inputs`` the input's. ``change`` has these and `_mv_diff`;
    ``before`` the rows of the output so far; None: no rows. Both may name the task's CTEs.
    """
    items = sql.columns(column.name for column in columns)
    net_change = net(inputs, [], change, "<> 0")
    inserted = repeated(inputs, net_change, f"{DIFF} > 0", DIFF)
    deleted = repeated(inputs, net_change, f"{DIFF} < 0", f"-{DIFF}")
    rows = f"select {nulls(columns)} where false" if before is None else before
    so_far = f"select {items}, 1L {DIFF} from {sql.subquery(rows, '_mv_before')}"
    named = [f"_mv_0 as (\n{with_ctes(program.ctes, so_far)}\n)"]
    for number, statement in enumerate(program.statements):
        contents = f"select {items}, {DIFF} from _mv_{number}"
        bindings = bind.StatementBindings(inserted, repeated(columns, contents, "true", DIFF), deleted)
        delta = bind.delta(program, statement, columns, contents, bindings)
        both = sql.union_all([contents, f"select {items}, {DIFF} from {sql.subquery(delta, '_mv_delta')}"])
        named.append(f"_mv_{number + 1} as (\n{net(columns, [], both, '> 0')}\n)")
    after = repeated(columns, f"select {items}, {DIFF} from _mv_{len(program.statements)}", "true", DIFF)
    return f"with {', '.join(named)}\n{after}"
