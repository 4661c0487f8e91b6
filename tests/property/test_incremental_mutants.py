"""Wrong rules, each of which random queries must notice, and relations between changes that hold
whatever the rules are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import duckdb
import pytest
from sqlglot.errors import ParseError

from dbt.adapters.mvsink.incremental import blocks, keys, restrict, terms
from dbt.adapters.mvsink.incremental.algebra import Block, Nest, SetOp, leaves
from dbt.adapters.mvsink.incremental.blocks import Changes
from dbt.adapters.mvsink.incremental.compose import Side, Writer
from dbt.adapters.mvsink.incremental.keys import Key, Kind
from dbt.adapters.mvsink.incremental.terms import Terms
from tests.property.test_incremental import case, differs, differs_restricted, restricted
from tests.support.incremental_database import Database, Table
from tests.support.incremental_queries import tables

WITHIN = 300  # cases
telescope, scoping = terms.telescope, terms.scoping


def others_old(source, position, side):
    return lambda leaf: side if leaf is position else Side.OLD


def others_new(source, position, side):
    return lambda leaf: side if leaf is position else Side.NEW


def not_scoped(*kinds):
    def wrong(source, leaf):
        join = scoping(source, leaf)
        return None if join is None or join.kind in kinds else join

    return wrong


def only_rows_that_enter(of_time):
    return lambda self, block, conjunct: list(of_time(self, block, conjunct))[:1]


def first_scope_only(scopes):
    return lambda self, block, join, leaf: list(scopes(self, block, join, leaf))[:1]


def overlapping_scopes(scopes):
    return lambda self, block, join, leaf: [
        scope if join.kind == "full" else scope[-1:] for scope in scopes(self, block, join, leaf)
    ]


def anti_instead_of_semi(scopes):
    def wrong(self, whole, join, leaf):
        for scope in scopes(self, whole, join, leaf):
            yield scope if join.kind == "full" else [*scope[:-1], ("anti", scope[-1][1])]

    return wrong


def witnesses_without_what_was(witnesses):
    def wrong(self, whole, padded, leaf):
        every = witnesses(self, whole, padded, leaf)
        return every[:1]

    return wrong


def untyped_union(change):
    def wrong(self, query):
        body = query.body
        if isinstance(body, SetOp) and body.operator == "UNION" and body.all:
            moving = [side for side in (body.left, body.right) if self.writer.moves(side)]
            if len(moving) == 1:
                return change(self, moving[0])
        return change(self, query)

    return wrong


def derived_tables_stand_still(moves):
    def wrong(self, query):
        return isinstance(query.body, Block) and any(map(self.leaf_moves, leaves(query.body.source)))

    return wrong


def times_of_terms(side):
    return lambda conjuncts: lambda self, block: [self.writer.cut(each, side) for each in block.where]


def leaves_new_as_time_passes(of_time):
    def wrong(self, block, conjunct):
        for term in of_time(self, block, conjunct):
            yield term.replace("from before.", "from after.")

    return wrong


def sign_of_left_rows(of_time):
    def wrong(self, block, conjunct):
        for term in of_time(self, block, conjunct):
            yield term.replace("\n-1L as", "\n1L as")

    return wrong


def without_null_keys(written):
    return lambda self, *rest: written(self, *rest).replace("<=>", "=")


def keys_of_the_first_term(keys_of_terms):
    def wrong(self, block, keys):
        first = SimpleNamespace(terms=lambda listed: list(self.terms.terms(listed))[:1])
        return keys_of_terms(SimpleNamespace(writer=self.writer, terms=first), block, keys)

    return wrong


def keys_of_the_first_window(shared):
    def wrong(block, names):
        if not block.windows:
            return shared(block, names)
        parts = block.windows[0].partition
        return tuple(Key(part, names.nodes[part]) for part in parts) or shared(block, names)

    return wrong


def every_key_of_the_groups(keys_of):
    def wrong(block, names):
        return keys.group_keys(block, names) if "GROUP" in block.more else keys_of(block, names)

    return wrong


def as_if_plain(*kinds):
    return lambda kind_of: lambda block: Kind.PLAIN if kind_of(block) in kinds else kind_of(block)


def rows_of_the_left_only(row_keys):
    def wrong(self, body, names, chosen=()):
        if isinstance(body, SetOp):
            nothing = replace(body, right=replace(body.left))
            return row_keys(self, nothing, names, chosen)
        return row_keys(self, body, names, chosen)

    return wrong


def without_having(behind_where):
    return lambda self, block: behind_where(
        self, replace(block, more={name: part for name, part in block.more.items() if name != "HAVING"})
    )


def old_groups_at_the_new_time(grouped):
    def wrong(self, block, side, diff, scope):
        text = grouped(self, block, side, diff, scope)
        return text if self.clock is None else text.replace(f"({self.clock.old}L)", f"({self.clock.new}L)")

    return wrong


def scope_of_keys_that_are_not_shown(scope_of_keys):
    def wrong(self, block, usable):
        right = scope_of_keys(self, block, usable)
        if right is None:
            return None
        every = keys.keys_of(block, self.names)
        new = self._grouped(block, Side.NEW, None, [self._in_scope(every, self._keys(block, every))])
        return replace(right, new=new)

    return wrong


def null_is_no_key(of_full_join):
    def wrong(self, block, join, leaf):
        return [(kind, text.replace("<=>", "=")) for kind, text in of_full_join(self, block, join, leaf)]

    return wrong


def subqueries_stand_still(conjunct_moves):
    return lambda self, block, conjunct: self.timed(conjunct)


def subqueries_in_the_present(cut):
    def wrong(self, part, time, edits=()):
        if any(part.start <= each.start < part.end for each in self.subqueries) and not edits:
            return cut(self, part, Side.NEW, edits)
        return cut(self, part, time, edits)

    return wrong


BLOCKS = {
    "a subquery decides the same as before": (Writer, "conjunct_moves", subqueries_stand_still),
    "a subquery reads what is, not what was": (Writer, "cut", subqueries_in_the_present),
    "a subquery is never NULL": (terms, "_null_only_by_columns", lambda right: lambda node: True),
    "a full join of which NULL is no key": (Terms, "_of_full_join", null_is_no_key),
    "a full join is a left join": (terms, "scoping", lambda right: not_scoped("full")),
    "NULL is no key of a group": (Changes, "_in_scope", without_null_keys),
    "NULL is no value of a row": (Changes, "_rows", without_null_keys),
    "a group's keys come from one term": (Changes, "_keys", keys_of_the_first_term),
    "window keys are those of one window": (keys, "_shared_by_windows", keys_of_the_first_window),
    "window keys over groups are all of the group": (blocks, "keys_of", every_key_of_the_groups),
    "distinct rows are rows one by one": (blocks, "kind_of", as_if_plain(Kind.DISTINCT)),
    "set operators have keys of their left side only": (Changes, "_row_keys", rows_of_the_left_only),
    "set operators keep every row": (blocks, "compares_rows", lambda right: lambda body: False),
    "group without its HAVING": (Writer, "behind_where", without_having),
    "groups of the past as time passes": (Changes, "_grouped", old_groups_at_the_new_time),
    "group in the shard by keys that are not shown": (Changes, "_scope_of_keys", scope_of_keys_that_are_not_shown),
}  # fmt: skip
MUTANTS = {
    **BLOCKS,
    "the other positions are all old": (terms, "telescope", lambda right: others_old),
    "the other positions are all new": (terms, "telescope", lambda right: others_new),
    "the right side of a left join is linear": (terms, "scoping", lambda right: not_scoped("left")),
    "the right side of a semi join is linear": (terms, "scoping", lambda right: not_scoped("semi")),
    "the right side of an anti join is linear": (terms, "scoping", lambda right: not_scoped("anti")),
    "the left side of a right join is linear": (terms, "scoping", lambda right: not_scoped("right")),
    "one scope of several": (Terms, "_scopes", first_scope_only),
    "scopes that overlap": (Terms, "_scopes", overlapping_scopes),
    "rows that do not match the change": (Terms, "_scopes", anti_instead_of_semi),
    "below two joins only what is, not what was": (Terms, "_witnesses", witnesses_without_what_was),
    "a branch that did not change decides no types": (Changes, "change", untyped_union),
    "time does not pass in derived tables": (Writer, "moves", derived_tables_stand_still),
    "terms of leaves at the old time": (Terms, "conjuncts", times_of_terms(Side.OLD)),
    "rows enter as time passes, none leaves": (Terms, "_of_time", only_rows_that_enter),
    "rows that leave are added": (Terms, "_of_time", sign_of_left_rows),
    "time passes over the new leaves": (Terms, "_of_time", leaves_new_as_time_passes),
    "a conjunct is never NULL at one time only": (terms, "_null_only_by_columns", lambda right: lambda node: True),
}  # fmt: skip
FOCUS = {
    "scopes that overlap": "left join",
    "subquery": "subquery",
    "full join": "full join",
    "window": "window",
    "group": "group",
    "distinct": "distinct",
    "set operators": "set",
    "value of a row": "set",
    "right join": "right join",
    "left join": "left join",
    "time": "clock",
    "NULL": "clock",
    "branch": "union",
}


@pytest.mark.parametrize("wrong", MUTANTS)
def test_a_wrong_rule_is_noticed(wrong, monkeypatch):
    owner, name, mutate = MUTANTS[wrong]
    monkeypatch.setattr(owner, name, mutate(getattr(owner, name)))
    focus = next((each for word, each in FOCUS.items() if word in wrong), None)
    assert any(noticed(seed, focus, wrong not in BLOCKS) for seed in range(WITHIN))


def noticed(seed: int, focus: str | None, plain: bool) -> bool:
    try:
        return differs(*case(seed, focus, plain=plain))
    except (duckdb.Error, ParseError, TypeError):  # no query at all, or one with NULL as a diff
        return True


def nothing_is_null(need):
    return lambda self, leaf, column, keys, nulls: need(self, leaf, column, keys, False)


RESTRICT_KEYS = {
    "a block is evaluated over its changes": ("_in_keys", "group"),
    "a set operator is evaluated over its changes": ("_in_rows", "set"),
}


@pytest.mark.parametrize("wrong", RESTRICT_KEYS)
def test_a_wrong_restriction_by_keys_is_noticed(wrong, monkeypatch):
    name, focus = RESTRICT_KEYS[wrong]
    monkeypatch.setattr(restrict._Needs, name, lambda self, block: None)
    assert any(differs_restricted(seed, focus)[0] for seed in range(WITHIN))


NAMED = {  # which random queries rarely notice
    "NULL is no key": (
        restrict._Needs,
        "_need",
        nothing_is_null,
        "select k, count(*) as n from a group by k",
    ),
    "a key is pushed into windows that have it not": (
        restrict._Needs,
        "_key_columns",
        lambda right: lambda self, block: None,
        "select b.w, n from b join (select k, v, count(*) over (partition by k) as n from a) c on b.w = c.v",
    ),
    "a key is pushed into windows of which one has it not": (
        restrict,
        "keys_of",
        keys_of_the_first_window,
        "select b.w, n, m from b join (select k, v, count(*) over (partition by v, k) as n, count(*) over (partition by k) as m from a) c on b.w = c.v",
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", NAMED)
def test_a_wrong_restriction_is_noticed_by_a_query(wrong, monkeypatch):
    owner, name, mutate, query = NAMED[wrong]
    change = [] if " b " in query else [((None, 2), 1), ((1, 3), 1)]
    a = Table({"k": "int", "v": "int"}, [(None, 1), (1, 1), (1, 2), (2, 5)], change)
    database = Database({"a": a, "b": Table({"w": "int"}, [(5,)], [((1,), 1)])})
    assert restricted(database, query)[0] == database.difference(query)
    monkeypatch.setattr(owner, name, mutate(getattr(owner, name)))
    assert restricted(database, query)[0] != database.difference(query)


RESTRICT = {
    "a chain leaves by the condition by which it entered": ("padded", lambda join: Nest(0, 0, join)),
    "a condition of a left join on one side holds": ("_crosses", lambda *sides: True),
    "a padded leaf is read as its change only": ("scoping", lambda source, leaf: None),
}


@pytest.mark.parametrize("wrong", RESTRICT)
def test_a_wrong_restriction_is_noticed(wrong, monkeypatch):
    name, mutant = RESTRICT[wrong]
    monkeypatch.setattr(restrict, name, mutant)
    assert any(differs_restricted(seed, "left join")[0] for seed in range(10 * WITHIN))


def steps(seed: int) -> tuple[dict[str, Table], dict[str, Table], dict[str, Table]]:
    """A change, another one after it, and both in one."""
    first, random = tables(Random(seed)), Random(-seed)
    second, both = {}, {}
    for name, table in first.items():
        gone = random.sample(table.new, len(table.new) // 2)
        more = [*((row, -1) for row in gone), *((row, 1) for row in table.old[:2])]
        second[name] = Table(table.columns, table.new, more)
        both[name] = Table(table.columns, table.old, [*table.change, *more])
    return first, second, both


def added(*changes: Counter) -> dict:
    total: Counter = Counter()
    for change in changes:
        for row, diff in change.items():
            total[row] += diff
    return {row: diff for row, diff in total.items() if diff}


@pytest.mark.parametrize("seed", range(100, 130))
def test_scopes_may_be_too_wide(seed, monkeypatch):
    database, query, clock = case(seed, "left join")
    every = [("full", "(select 1) as _mv_k on true")] * 2
    monkeypatch.setattr(
        Terms, "_scopes", lambda self, block, join, leaf: [every if join.kind == "full" else []]
    )
    assert not differs(database, query, clock)


@pytest.mark.parametrize("seed", range(40))
def test_a_change_in_two_steps_is_the_change_in_one(seed):
    _, query, clock = case(seed)
    then, middle, now = (clock[0], sum(clock) // 2, clock[1]) if clock else (0, 0, 0)
    clocks = [(then, middle), (middle, now), (then, now)] if clock else [None] * 3
    one, two, both = (Database(each).change(query, at) for each, at in zip(steps(seed), clocks, strict=True))
    assert added(one, two) == both


@pytest.mark.parametrize("seed", range(40))
def test_a_change_and_its_inverse_are_nothing(seed):
    _, query, clock = case(seed)
    forth = tables(Random(seed))
    back = {
        name: Table(table.columns, table.new, [(row, -diff) for row, diff in table.change])
        for name, table in forth.items()
    }
    idle = {
        name: Table(table.columns, table.old, [*table.change, *back[name].change])
        for name, table in forth.items()
    }
    assert (
        added(Database(forth).change(query, clock), Database(back).change(query, clock and clock[::-1])) == {}
    )
    assert Database(idle).change(query) == {}
