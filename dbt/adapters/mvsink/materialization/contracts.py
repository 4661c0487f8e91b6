"""Conditions on every row of a model, from its configs and its enforced contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dbt.adapters.mvsink.engine import Column
from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.shard_sql import OnError
from dbt.adapters.mvsink.sink import Assertion, not_null

MAINTAINED = ("self_correcting_mv", "continual_task")
ENFORCED = ("not_null", "check")


def contract_assertions(node: Mapping[str, Any], *, fails: bool) -> tuple[Assertion, ...]:
    """The conditions of `not_null` and `check`. A row that breaks one fails the query (``fails``)
    or becomes an error update.
    """
    assertions: list[Assertion] = []
    for kind, constraint, columns in _declared(node):
        if kind == "not_null":
            assertions += [not_null(column, fails=fails) for column in columns]
        elif kind == "check" and constraint.get("expression"):
            expression = str(constraint["expression"])
            name = constraint.get("name") or expression
            assertions.append(
                Assertion(
                    f"not ({expression}\n)", f"check constraint {name} is violated: {expression}", fails
                )
            )
    return tuple(assertions)


def unenforced_constraints(node: Mapping[str, Any]) -> tuple[str, ...]:
    """The kinds of the contract's constraints that a shard does not enforce: `unique`, keys."""
    kinds = {kind for kind, _, _ in _declared(node)}
    return tuple(sorted(kind.replace("_", " ") for kind in kinds.difference(ENFORCED)))


def statement_breaks_contract(
    number: int, contract: Sequence[Column], inserted: Sequence[tuple[str, str]]
) -> Exception:
    """dbt's error, with its table of differences, for an INSERT of a task whose query gives other
    columns than the ``contract`` has.
    """
    from dbt.exceptions import ContractError

    class StatementBreaksContract(ContractError):
        def get_message(self) -> str:
            return (
                f"{super().get_message()}\nThese are the columns of statement {number}, an INSERT without a list of columns: with a contract "
                "it goes by the names that its query gives them. To insert by position, list the contract's columns: "
                "`insert into {{ this }} (...)`"
            )

    create: Any = StatementBreaksContract
    error: Exception = create(
        [{"name": column.name, "data_type": column.type.text} for column in contract],
        [{"name": name, "data_type": kind} for name, kind in inserted],
    )
    return error


def constraints_are_enforced() -> None:
    """Keep dbt from warning that maintained models ignore constraints, as it does by default.

    For constraints that they do not enforce (`unique`, keys) we warn ourselves.
    """
    from dbt.contracts.graph.nodes import ModelNode

    dbts: Any = vars(ModelNode)["materialization_enforces_constraints"]
    if not isinstance(dbts, _Enforces):
        setattr(ModelNode, "materialization_enforces_constraints", _Enforces(dbts))  # noqa: B010 - a property, to mypy


class _Enforces(property):
    """dbt's own property, which is also true for maintained models."""

    def __init__(self, dbts: property):
        super().__init__(lambda node: node.config.materialized in MAINTAINED or dbts.__get__(node))


def _declared(node: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], list[str]]]:
    """Kind, constraint and columns of each, those of columns first; empty if no contract is
    enforced.
    """
    if not (node.get("config") or {}).get("contract", {}).get("enforced"):
        return
    for column in (node.get("columns") or {}).values():
        for constraint in column.get("constraints") or []:
            yield _kind(constraint), constraint, [column["name"]]
    for constraint in node.get("constraints") or []:
        yield _kind(constraint), constraint, constraint.get("columns") or []


def _kind(constraint: Mapping[str, Any]) -> str:
    return str(getattr(constraint["type"], "value", constraint["type"]))


def assertions(context: RunContext) -> tuple[Assertion, ...]:
    """`assert_not_null` and the contract's `not_null` and `check` constraints.

    Without `on_error` a violation of the former is recorded, while one of the latter fails the run.
    """
    on_error = context.options.on_error
    names = context.options.assert_not_null
    asserted = [not_null(name, fails=on_error is OnError.FAIL) for name in names]
    return (*asserted, *contract_assertions(context.node, fails=on_error is not OnError.RECORD))
