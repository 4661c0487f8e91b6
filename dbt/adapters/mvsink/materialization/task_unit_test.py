"""dbt's unit tests of a task: fixtures are the change at one time, and the output after it is
compared.

dbt makes every fixture an ephemeral model, whose query it passes with the test (`extra_ctes`). The
input's fixture may have `_mv_diff`, by default 1; the fixture of `this` is the output so far.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbt.adapters.mvsink.continual_task.effects import output_after
from dbt.adapters.mvsink.continual_task.parse import parse
from dbt.adapters.mvsink.engine import Column, Engine, parse_type, sql
from dbt.adapters.mvsink.exceptions import UnknownFixtureColumn
from dbt.adapters.mvsink.materialization.fixture_values import fixture_value
from dbt.adapters.mvsink.materialization.task_columns import analysed_columns, by_name
from dbt.adapters.mvsink.physical import DIFF
from dbt.adapters.mvsink.shard_sql.as_of import nulls
from dbt.adapters.mvsink.user_sql.splice import with_ctes
from dbt.adapters.mvsink.user_sql.words import parts

NO_OUTPUT = "None"  # dbt's rendering of `this` if there is no fixture for it


@dataclass(frozen=True)
class UnitQuery:
    """A query of the output's rows, and its columns' names and types as dbt wants them."""

    sql: str
    types: Mapping[str, str]
    quoted: Mapping[str, str]


def unit_query(
    engine: Engine,
    model: str,
    text: str,
    ctes: Sequence[str],
    declared: Sequence[Column],
    so_far: str | Sequence[Mapping[str, Any]] | None = None,
    *,
    contracted: bool = False,
) -> UnitQuery:
    """The output of the task ``text`` for the fixtures ``ctes``. Raises what a run would raise. If
    ``contracted``, the ``declared`` columns are an enforced contract's.

    ``so_far`` has the fixture's rows of `this`, or SQL of any types. dbt's own fixture for them is
    not used: it exists only if the text names `this`, and has types only if the task has run.
    """
    output = f"__dbt__cte__{parts(model)[-1]}"
    others = tuple(cte for cte in ctes if parts(cte.strip().split()[0])[-1] != output)
    program = parse(text, output if len(others) < len(ctes) else NO_OUTPUT, model, others)
    fixture = engine.columns(with_ctes(program.ctes, f"select * from {program.input.name}"))
    inputs = tuple(Column(name, parse_type(kind, name)) for name, kind in fixture if name.lower() != DIFF)
    program = by_name(engine, program, inputs, declared, contracted=contracted)
    columns = analysed_columns(engine, program, inputs, declared)
    diff = f"cast({DIFF} as bigint)" if len(inputs) < len(fixture) else "1L"
    change = f"select {sql.columns(c.name for c in inputs)}, {diff} {DIFF} from {program.input.name}"
    before = None
    if isinstance(so_far, str):
        before = _typed(engine, model, so_far, columns)
    elif so_far is not None:
        before = _of_rows(model, so_far, columns)
    return UnitQuery(
        output_after(program, columns, inputs, change, before),
        {column.name.lower(): column.type.text for column in columns},
        {column.name.lower(): sql.identifier(column.name) for column in columns},
    )


def _typed(engine: Engine, model: str, so_far: str, columns: Sequence[Column]) -> str:
    """The rows of ``so_far`` as rows of the output; missing columns are NULL."""
    fixture = {name.lower() for name, _ in engine.columns(so_far)}
    _check_names(model, fixture, columns)
    items = [
        f"cast({sql.identifier(c.name) if c.name.lower() in fixture else 'null'} as {c.type.spelled}) {sql.identifier(c.name)}"
        for c in columns
    ]
    return f"select {', '.join(items)} from {sql.subquery(so_far, '_mv_given')}"


def _of_rows(model: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> str:
    """The same of rows as YAML or CSV has them."""
    if not rows:
        return f"select {nulls(columns)} where false"
    queries = []
    for row in rows:
        values = {str(name).lower(): value for name, value in row.items()}
        _check_names(model, values, columns)
        items = (
            f"{fixture_value(c.name, values.get(c.name.lower()), c.type.spelled)} {sql.identifier(c.name)}"
            for c in columns
        )
        queries.append(f"select {', '.join(items)}")
    return sql.union_all(queries)


def _check_names(model: str, fixture: Iterable[str], columns: Sequence[Column]) -> None:
    names = {column.name.lower() for column in columns}
    for name in sorted(set(fixture) - names):
        raise UnknownFixtureColumn(model, name, sorted(names))
