"""The change of a query from those rows of its relations that can matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dbt.adapters.mvsink.incremental import Analysed, Basis, Keys, Plan, Sides, analyse, basis
from tests.support.incremental_database import Database, Row, consolidated


def narrowed(
    database: Database, analysed: Analysed, *, added: bool = False
) -> tuple[Basis, dict[str, Sides], int]:
    """The sides with those rows of each relation only that can matter, and how many others there
    are.
    """
    sides = database.sides()
    read = [name.strip("`").lower() for name in analysed.relations]
    changed, left_out = {name: sides[name] for name in read if name in sides}, 0
    based = basis(analysed, list(changed), nulls=True, added=added, reached=True)
    needed = based.needed
    for name, keys in needed.items():
        if keys is not None:
            among = [_among(key, needed[key.changed] or ()) for key in keys]
            matters = f"coalesce({' or '.join(among) or 'false'}, false)"
            left_out += len(database.rows(f"select 1 from {name} where not {matters}", "after"))
            new, old = (f"select * from {schema}.{name} where {matters}" for schema in ("after", "before"))
            changed[name] = Sides(new, old, sides[name].change if name in sides else None)
    return based, changed, left_out


def _among(key: Keys, those: Sequence[Keys]) -> str:
    """That a row has one of the values of ``key``; ``those``: the keys of its `Keys.changed`."""
    values = f"select {key.changed_column} from changes.{key.changed}"
    if key.reached:
        its = " or ".join(_among(each, ()) for each in those if not each.reached)
        values = " union all ".join(
            f"select {key.changed_column} from {schema}.{key.changed} where {its}"
            for schema in ("before", "after")
        )
    return f"{key.column} in ({values})" + (f" or {key.column} is null" if key.nulls else "")


def restricted(database: Database, query: str) -> tuple[list[Counter[Row]], int]:
    """The change from `narrowed` sides in each way that there is, and how many rows these are
    without.
    """
    analysed = analyse(query, database.columns_of)
    assert isinstance(analysed, Analysed)
    based, sides, left_out = narrowed(database, analysed)
    sides = database.with_filters(analysed, sides, whole=True)
    plan, known = based.plan(sides), based.known_scope(sides)
    assert isinstance(plan, Plan)
    scopes = [scoped for scoped in (plan.scoped, known and known.scoped) if scoped is not None]
    ways = [] if plan.query is None else [consolidated(database.rows(plan.query, "run"))]
    return [*ways, *(database.replaced(query, scoped) for scoped in scopes)], left_out
