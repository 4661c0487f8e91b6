"""A scope whose keys the changes of relations hold, so that no query has to find them.

One of the keys of the outermost block will do: all rows with its values are evaluated, those of
other keys among them. It is the key by which `restrict` reads the relations, so that they have all
of these rows. In most models the key is a column of the relation that changed, or is equal to one:
`c_custkey` in `customer left join orders on c_custkey = o_custkey group by c_custkey, c_name`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.incremental.algebra import Block, Relation
from dbt.adapters.mvsink.incremental.blocks import Changes, Scoped
from dbt.adapters.mvsink.incremental.compose import Sides
from dbt.adapters.mvsink.incremental.equalities import Column
from dbt.adapters.mvsink.incremental.keys import keys_of
from dbt.adapters.mvsink.incremental.plan import Analysed
from dbt.adapters.mvsink.incremental.restrict import Changed, Keys, Needs, followed
from dbt.adapters.mvsink.user_sql.words import parts


@dataclass(frozen=True)
class KnownScope:
    """``scoped`` has one column. Its keys are the values of ``keys``, columns of changes that are
    all of the column's type, and NULL if ``nulls``.
    """

    scoped: Scoped
    keys: tuple[Keys, ...]
    nulls: bool


def known_scope(
    analysed: Analysed, relations: Mapping[str, Sides], clock: tuple[int, int] | None = None
) -> KnownScope | None:
    """A scope that holds that of `delta` for the same arguments; None if no key is known. Where
    rows may differ when they are evaluated again, it has only rows whose keys are in a change.
    """
    if not followed(analysed, clock):
        return None
    sides = {parts(name): each for name, each in relations.items()}
    needs = Needs(analysed.names, {name for name, each in sides.items() if each.change is not None})
    spelled = {parts(name): name for name in analysed.relations}
    keys: list[Keys] = []

    def known(block: Block) -> tuple[Column, str] | None:
        outcome = needs.known_key(block)
        if outcome is None:
            return None
        column, values = outcome
        # its own change has every value, also NULL; otherwise an outer join may give a NULL
        nulls = needs.moving(block) != [column[0]] or not isinstance(column[0], Relation)
        if analysed.unrepeatable is not None and (nulls or len(keys_of(block, analysed.names)) > 1):
            return None
        keys.extend(Keys(column[1], spelled[by.relation], by.column, nulls) for by in sorted(values))
        listed = [_values(by, sides[by.relation].change or "") for by in sorted(values)]
        return column, "\nunion\n".join([*listed, *(["select null as _mv_k0"] if nulls else [])])

    changes = Changes(analysed.text, analysed.tree, analysed.marks, analysed.names, sides, None, known)
    scoped = changes.scoped(analysed.tree)
    return None if scoped is None else KnownScope(scoped, tuple(keys), any(key.nulls for key in keys))


def _values(by: Changed, change: str) -> str:
    return f"select {sql.identifier(by.column)} as _mv_k0 from (\n{change}\n) as _mv_c"
