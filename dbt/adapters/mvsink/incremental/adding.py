"""Adding up: the new counts and sums of groups are the old ones plus those of the change.

A query *adds up* if it shows its group keys, `count(*)`, and `count(x)` and `sum(x)` of exact
numbers, where each sum comes with the count of its values. Its rows for the keys of a change are
then the stored rows plus the sums over the change; no other row of an input is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.incremental.blocks import Changes
from dbt.adapters.mvsink.incremental.compose import Side
from dbt.adapters.mvsink.incremental.keys import Key, KeyKind, canonical, group_keys, key_names, kind_of
from dbt.adapters.mvsink.incremental.lineage import Exact, exact_argument
from dbt.adapters.mvsink.incremental.name_resolution import output_name
from dbt.adapters.mvsink.physical import DIFF
from dbt.adapters.mvsink.user_sql.algebra import Block, Call, Query, core

MAX_PRECISION, KEPT_SCALE = 37, 6
WRONG = "_mv_wrong"
_Kind = int | tuple[str, int | None]  # of a column: see `_Shape`


def exact_sums(precision: int, scale: int) -> bool:
    """Whether a sum of this decimal type keeps all digits of its values. A value has ten digits
    fewer than the sum, which leaves room for a diff; a product that does not fit keeps six
    decimals.
    """
    return precision <= MAX_PRECISION or scale <= KEPT_SCALE


@dataclass(frozen=True)
class Adding:
    """``query`` gives the sums over the change, in the columns of the query that adds up, then
    `_mv_wrong`, 1 for rows whose sums are not known.

    The other fields name its columns, in lower case: ``keys`` the group keys, ``rows`` `count(*)`,
    ``sums`` each `sum(x)` with its `count(x)`, and ``counts`` each `count(x)`, also without a sum.
    """

    query: str
    keys: tuple[str, ...]
    rows: str
    counts: tuple[str, ...]
    sums: Mapping[str, str]


@dataclass(frozen=True)
class _Shape:
    """A query that adds up. ``columns`` has, in the query's order, the name of each column and what
    it is: the number of a key, or a call with the number of its argument (None for `count(*)`).
    ``exactly`` has the kind of the arguments that are summed.
    """

    block: Block
    keys: tuple[Key, ...]
    columns: tuple[tuple[str, _Kind], ...]
    arguments: tuple[str, ...]
    exactly: Mapping[int, Exact]


def adding(changes: Changes, query: Query) -> Adding | None:
    """How the query adds up; None if it does not, or if nothing that it reads changed."""
    query, block = core(query)
    shape = _shape(changes, block) if isinstance(block, Block) else None
    if shape is None or not changes.writer.moves(query):
        return None
    rows = [name for name, kind in shape.columns if kind == ("count", None)]
    counted = {
        kind[1]: name for name, kind in shape.columns if isinstance(kind, tuple) and kind[0] == "count"
    }
    sums = {
        name: counted.get(kind[1])
        for name, kind in shape.columns
        if isinstance(kind, tuple) and kind[0] == "sum"
    }
    keys = sorted((kind, name) for name, kind in shape.columns if isinstance(kind, int))
    names = [name for name, _ in shape.columns]
    each_once = [number for number, _ in keys] == [*range(len(shape.keys))] and len({*names}) == len(names)
    if not rows or None in sums.values() or not each_once:
        return None
    return Adding(
        _sums_of_change(changes, shape),
        tuple(name for _, name in keys),
        rows[0],
        tuple(counted.values()),
        {name: count for name, count in sums.items() if count is not None},
    )


def _shape(changes: Changes, block: Block) -> _Shape | None:
    names = changes.names
    if kind_of(block) not in (KeyKind.WHOLE, KeyKind.KEYED):
        return None
    if block.windows or "HAVING" in block.more or any(item.star is not None for item in block.items):
        return None
    if changes.writer.values_move(block):
        return None
    keys = group_keys(block, names) if "GROUP" in block.more else ()
    numbers = {canonical(block, names, key.node): number for number, key in enumerate(keys)}
    columns: list[tuple[str, _Kind]] = []
    arguments: dict[str, str] = {}
    exactly: dict[int, Exact] = {}
    for item in block.items:
        node = names.nodes[item].unalias()
        calls = [*filter(item.has, block.calls)]
        kind: _Kind | None = numbers.get(canonical(block, names, node))
        if kind is None and len(calls) == 1 and isinstance(node, (exp.Count, exp.Sum)):
            kind = _call(changes, block, node, calls[0], arguments, exactly)
        name = output_name(names.nodes[item])
        if kind is None or name is None:
            return None
        columns.append((name, kind))
    return _Shape(block, keys, tuple(columns), tuple(arguments.values()), exactly)


def _call(
    changes: Changes,
    block: Block,
    node: exp.Count | exp.Sum,
    call: Call,
    arguments: dict[str, str],
    exactly: dict[int, Exact],
) -> tuple[str, int | None] | None:
    """The call and the number of its argument; None if it does not add up."""
    if isinstance(node.this, exp.Star):
        return ("count", None)
    if len(call.arguments) != 1 or isinstance(node.this, exp.Distinct):
        return None
    part = call.arguments[0]
    key = canonical(block, changes.names, node.this)
    arguments.setdefault(key, changes.writer.cut(part, Side.NEW))
    number = list(arguments).index(key)
    if isinstance(node, exp.Count):
        return ("count", number)
    kind = exact_argument(changes.text, block, changes.names, call)
    if kind is None:
        return None
    exactly[number] = kind
    return ("sum", number)


def _sums_of_change(changes: Changes, shape: _Shape) -> str:
    keys = key_names(len(shape.keys))
    listed = [
        f"({changes.writer.cut(key.part, Side.NEW)}) as {name}"
        for key, name in zip(shape.keys, keys, strict=True)
    ]
    listed += [f"({text}) as _mv_x{number}" for number, text in enumerate(shape.arguments)]
    block = replace(shape.block, listed=", ".join([*listed, "1 as _mv_r"]), signed=True)
    terms = "\nunion all\n".join(changes.terms.terms(block))
    items = [f"{_item(kind, shape)} as {sql.identifier(name)}" for name, kind in shape.columns]
    # a diff beyond an int, and sums beyond their type that became NULL
    wrong = [f"coalesce(max(abs({DIFF})), 0) >= {2**31}L"]
    wrong += [
        f"count(_mv_x{number}) <> count({_weighted(number, shape)}) or "
        f"count(_mv_x{number}) > 0 and {_item(('sum', number), shape)} is null"
        for number in shape.exactly
    ]
    items.append(f"if({' or '.join(f'({each})' for each in wrong)}, 1, 0) as {WRONG}")
    grouped = f" group by {', '.join(keys)}" if keys else ""
    return f"select {', '.join(items)} from (\n{terms}\n) as _mv_t{grouped}"


def _item(kind: _Kind, shape: _Shape) -> str:
    """A column of the sums over the change."""
    if isinstance(kind, int):
        return key_names(len(shape.keys))[kind]
    name, number = kind
    if number is None:
        return f"coalesce(sum({DIFF}), 0L)"
    value = f"_mv_x{number}"
    if name == "count":
        return f"coalesce(sum(if({value} is null, 0L, {DIFF})), 0L)"
    return f"sum({_weighted(number, shape)})"


def _weighted(number: int, shape: _Shape) -> str:
    """A value times its diff, as a decimal: an int needs ten digits, a bigint 20."""
    diff = f"cast({DIFF} as int)" if shape.exactly[number] is Exact.DECIMAL else DIFF
    return f"_mv_x{number} * {diff}"
