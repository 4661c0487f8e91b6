"""Sums over a change, added to the rows of a shard that holds sums (`incremental.adding`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from dbt.adapters.mvsink.engine import Column, sql
from dbt.adapters.mvsink.engine.net import net
from dbt.adapters.mvsink.incremental import WRONG, Adding, exact_sums
from dbt.adapters.mvsink.physical import DIFF, ERROR


def adds_up(adding: Adding, columns: Sequence[Column]) -> bool:
    """Whether sums of these types have all digits of what they add."""
    types = {column.name.lower(): column.type.arrow() for column in columns}
    decimals = (types[name] for name in adding.sums if pa.types.is_decimal(types[name]))
    return all(exact_sums(kind.precision, kind.scale) for kind in decimals)


def added(adding: Adding, columns: Sequence[Column], change: str, stored: str | None) -> str:
    """The new rows for the keys of ``change``, a query of `Adding.query`'s rows. ``stored``: the
    shard's updates for these keys.

    Fails where the sums cannot be known: then the query of the sums is to be evaluated.
    """
    name_of = {column.name.lower(): sql.identifier(column.name) for column in columns}
    items = sql.columns(column.name for column in columns)
    terms = [f"select {items}, {WRONG} from (\n{change}\n)"]
    if stored is not None:
        nulls = [f"{name_of[count]} > 0 and {name_of[name]} is null" for name, count in adding.sums.items()]
        wrong = " or ".join(f"({each})" for each in (f"{DIFF} <> 1", f"{ERROR} is not null", *nulls))
        rows = net(columns, [ERROR], stored, "<> 0")
        terms.append(f"select {items}, if({wrong}, 1, 0) {WRONG} from (\n{rows}\n)")
    keys = [name_of[key] for key in adding.keys]
    sums = [f"sum({name}) {name}" for column, name in name_of.items() if column not in adding.keys]
    grouped = f" group by {', '.join(keys)}" if keys else ""
    summed = (
        f"select {', '.join([*keys, *sums])}, max({WRONG}) {WRONG} from (\n{sql.union_all(terms)}\n){grouped}"
    )
    shown = ", ".join(_shown(adding, column, name_of) for column in columns)
    rows = name_of[adding.rows]
    wrong = " or ".join([f"{WRONG} > 0", f"{rows} < 0", *(_impossible(adding, name_of))])
    kept = f"{rows} <> 0" if keys else "true"
    return f"select {shown} from (\n{summed}\n) where if({wrong}, raise_error('sums that do not add up'), {kept})"


def _shown(adding: Adding, column: Column, name_of: Mapping[str, str]) -> str:
    """A sum of no values is NULL, and has the type that it has in the shard."""
    name = sql.identifier(column.name)
    count = adding.sums.get(column.name.lower())
    if count is None:
        return name
    return f"if({name_of[count]} > 0, cast({name} as {column.type.spelled}), null) {name}"


def _impossible(adding: Adding, name_of: Mapping[str, str]) -> Iterator[str]:
    for count in adding.counts:
        if count != adding.rows:
            yield f"{name_of[count]} < 0 or {name_of[count]} > {name_of[adding.rows]}"
