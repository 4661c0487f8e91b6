"""What a correction replaces and what it is computed from: one value, decided before anything is
read.

`Basis.needed` says which rows of the relations can matter. `Basis.plan` is the query over these
rows, and `Basis.known_scope` is one whose keys are values in the changes, so that no query has to
find them. All three follow from the rows that the correction replaces (`replaced`) and from the one
key by which all of these rows are read (`_Known`). In most models this key is a column of the
relation that changed, or is equal to one: `c_custkey` in `customer left join orders on c_custkey =
o_custkey group by c_custkey, c_name`. A known scope is wider: it uses one key only, so it holds all
rows that share its value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.incremental.blocks import Scoped
from dbt.adapters.mvsink.incremental.change_plan import Analysed, Plan, changes_of, planned
from dbt.adapters.mvsink.incremental.compose import Sides
from dbt.adapters.mvsink.incremental.keys import KeyKind, keys_of, kind_of
from dbt.adapters.mvsink.incremental.lineage import plain_column
from dbt.adapters.mvsink.incremental.refuse import NotIncremental
from dbt.adapters.mvsink.incremental.replaced import Replaced
from dbt.adapters.mvsink.incremental.restrict import Changed, Keys, Needs, followed
from dbt.adapters.mvsink.user_sql.algebra import Block, Relation
from dbt.adapters.mvsink.user_sql.words import parts


@dataclass(frozen=True)
class KnownScope:
    """``scoped`` has one key column. The keys are the values of ``keys``, columns of changes that
    all have this column's type, and NULL if ``nulls``.
    """

    scoped: Scoped
    keys: tuple[Keys, ...]
    nulls: bool


@dataclass(frozen=True)
class _Known:
    """One key, and the columns of changes that hold its values. ``rows`` are the rows that share
    it.
    """

    rows: Replaced
    values: tuple[Changed, ...]
    keys: tuple[Keys, ...]
    nulls: bool


@dataclass(frozen=True)
class Basis:
    """See `basis`.

    ``needed`` has for each relation the alternatives of which a row, old or new, must satisfy one
    to matter to the query's change. If it is None, every row may matter; if it is empty, only the
    relation's change does. ``replaced`` are the rows of the model that `Plan.scoped` replaces, and
    ``known`` is the key of `known_scope`.
    """

    analysed: Analysed
    changed: frozenset[tuple[str, ...]]
    clock: tuple[int, int] | None
    needed: Mapping[str, tuple[Keys, ...] | None]
    replaced: Replaced | None
    known: _Known | None

    def plan(self, relations: Mapping[str, Sides]) -> Plan | NotIncremental:
        """`delta` over ``relations``, which may lack the rows that are not needed."""
        return planned(
            self.analysed, changes_of(self.analysed, self._fit(relations), self.clock), self.replaced
        )

    def known_scope(self, relations: Mapping[str, Sides]) -> KnownScope | None:
        """A scope that contains that of `plan` for the same relations; None if no key is known. If
        rows may differ when they are evaluated again, it has only rows whose keys are in a change.
        """
        known = self.known
        if known is None:
            return None
        changes = changes_of(self.analysed, self._fit(relations), self.clock)
        listed = [_values(by, changes.sides[by.relation].change or "") for by in known.values]
        keys = "\nunion\n".join([*listed, *(["select null as _mv_k0"] if known.nulls else [])])
        scoped = changes.scoped(self.analysed.tree, known.rows, keys)
        return KnownScope(scoped, known.keys, known.nulls)

    def _fit(self, relations: Mapping[str, Sides]) -> Mapping[str, Sides]:
        changed = {parts(name) for name, each in relations.items() if each.change is not None}
        if changed != self.changed:
            raise ValueError("a basis is for the relations that it was made for")
        return relations


def basis(
    analysed: Analysed,
    changed: Collection[str],
    clock: tuple[int, int] | None = None,
    *,
    nulls: bool = False,
    added: bool = False,
    reached: bool = False,
) -> Basis:
    """What a correction is computed from if the relations ``changed`` have changed.

    ``clock`` is as for `delta`; rows that enter or leave because time passes have no key. ``nulls``
    and ``reached`` say whether the caller supports `Keys.nulls` and `Keys.reached`; if it does not,
    every row of such a relation may matter. ``added`` means that the change is that of
    `Plan.adding`, so no group is evaluated again.
    """
    names = frozenset(parts(name) for name in changed)
    changes = changes_of(analysed, dict.fromkeys(changed, Sides("", "", "")), clock)
    replaced = changes.replaced(analysed.tree)
    if not followed(analysed, clock):
        return Basis(analysed, names, clock, dict.fromkeys(analysed.relations), replaced, None)
    needs = Needs(analysed.names, names, replaced)
    needs.terms(analysed.tree, added=added)
    spelled = {parts(name): name for name in analysed.relations}
    needed = {name: needs.of(key, spelled, nulls) for key, name in spelled.items()}
    # values of rows between are known only where these rows are read by keys of their own
    while unknown := [name for name, keys in needed.items() if not _are_known(keys or (), needed, reached)]:
        needed |= dict.fromkeys(unknown)
    moves = changes.writer.moves(analysed.tree)
    known = _known(analysed, needs, replaced, spelled) if replaced is not None and moves else None
    return Basis(analysed, names, clock, needed, replaced, known)


def _known(
    analysed: Analysed, needs: Needs, replaced: Replaced, spelled: Mapping[tuple[str, ...], str]
) -> _Known | None:
    """The key by which ``needs`` reads all replaced rows; None if their query is not a block with
    keys.
    """
    block = replaced.query.body
    outcome = needs.known_key(block) if isinstance(block, Block) and replaced.keys else None
    if outcome is None or not isinstance(block, Block):
        return None
    if kind_of(block) is KeyKind.PLAIN:  # all of its keys together say which rows differ
        return None
    column, values = outcome
    # its own change has every value, also NULL; otherwise an outer join may give a NULL
    nulls = needs.moving(block) != [column[0]] or not isinstance(column[0], Relation)
    if analysed.unrepeatable is not None and (nulls or len(keys_of(block, analysed.names)) > 1):
        return None
    listed = tuple(sorted(values))
    keys = tuple(Keys(column[1], spelled[by.relation], by.column, nulls) for by in listed)
    [key, *_] = [key for key in replaced.keys if plain_column(block, analysed.names, key.node) == column]
    return _Known(replaced.only(key), listed, keys, nulls)


def _are_known(keys: Iterable[Keys], needed: Mapping[str, Sequence[Keys] | None], reached: bool) -> bool:
    """Whether the values of all ``keys`` are known. ``reached`` says whether keys may be values of
    rows in between that a change reaches.
    """
    between = [needed[key.changed] or () for key in keys if key.reached]
    return not between or (reached and all(any(not key.reached for key in its) for its in between))


def _values(by: Changed, change: str) -> str:
    return f"select {sql.identifier(by.column)} as _mv_k0 from (\n{change}\n) as _mv_c"
