"""Wrong rules for `incremental`: what to replace with what. Tests must notice each of them."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

from dbt.adapters.mvsink.incremental import (
    blocks,
    change_plan,
    keys,
    name_resolution,
    replaced,
    terms,
    top_rows,
    unnest,
)
from dbt.adapters.mvsink.incremental.blocks import Changes
from dbt.adapters.mvsink.incremental.compose import Side, Writer
from dbt.adapters.mvsink.incremental.keys import Key, KeyKind
from dbt.adapters.mvsink.incremental.terms import Terms
from dbt.adapters.mvsink.user_sql.algebra import Block, Derived, LateralView, Relation, SetOp, leaves
from dbt.adapters.mvsink.user_sql.algebra import blocks as blocks_of
from dbt.adapters.mvsink.user_sql.inline_tables import SELECT

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
    return lambda kind_of: lambda block: KeyKind.PLAIN if kind_of(block) in kinds else kind_of(block)


def rows_of_the_left_only(row_keys):
    def wrong(self, body, names, chosen=()):
        if isinstance(body, SetOp):
            nothing = replace(body, right=replace(body.left))
            return row_keys(self, nothing, names, chosen)
        return row_keys(self, body, names, chosen)

    return wrong


def without_having(behind_where):
    return lambda self, block, side: behind_where(
        self, replace(block, more={name: part for name, part in block.more.items() if name != "HAVING"}), side
    )


def old_groups_at_the_new_time(grouped):
    def wrong(self, block, side, diff, scope):
        text = grouped(self, block, side, diff, scope)
        return text if self.clock is None else text.replace(f"({self.clock.old}L)", f"({self.clock.new}L)")

    return wrong


def scope_of_keys_that_are_not_shown(new_in_scope):
    def wrong(self, replaced, query):
        if not replaced.keys:
            return new_in_scope(self, replaced, query)
        every = keys.keys_of(replaced.query.body, self.names)
        scope = self._in_scope(every, self._keys(replaced.query.body, every))
        return self._grouped(replaced.query.body, Side.NEW, None, [scope])

    return wrong


def null_is_no_key(of_full_join):
    def wrong(self, block, join, leaf):
        return [(kind, text.replace("<=>", "=")) for kind, text in of_full_join(self, block, join, leaf)]

    return wrong


def subqueries_stand_still(conjunct_moves):
    return lambda self, block, conjunct: self.timed(conjunct)


def subqueries_in_the_present(cut):
    def wrong(self, part, time, edits=()):
        if any(map(part.has, self.subqueries)) and not edits:
            return cut(self, part, Side.NEW, edits)
        return cut(self, part, time, edits)

    return wrong


def values_in_the_present(select):
    def wrong(self, block, reading, diff, conditions, scopes, listed=Side.NEW):
        return select(self, block, reading, diff, conditions, scopes)

    return wrong


def having_in_the_present(behind_where):
    return lambda self, block, side: behind_where(self, block, Side.NEW)


def values_of_new_leaves(of_values):
    def wrong(self, block):
        for term in of_values(self, block):
            yield term.replace("from before.", "from after.")

    return wrong


def rank_over_everything(keys_of):
    def wrong(block, names):
        right = keys_of(block, names)
        if right or not block.windows or "GROUP" in block.more:
            return right
        return tuple(Key(part, names.nodes[part]) for part in block.windows[0].partition)

    return wrong


# by what is wrong: owner, name, and what makes the wrong one of the right one
def matched_anyway(done):
    def wrong(self):
        if (right := done(self)) is not None:
            edits = tuple(
                (start, end, text.replace("anti join", "semi join")) for start, end, text in right.edits
            )
            right = replace(right, edits=edits)
        return right

    return wrong


def every_row_of_the_subquery(relation):
    return lambda self, inner, own, grouped="": relation(self, inner, [], grouped)


def among_without_nulls(is_among):
    def wrong(self, block, conjunct, side):
        text = is_among(self, block, conjunct, side)
        return None if text is None else text.rpartition(" or ")[0].rpartition(" or ")[0]

    return wrong


def first_column_alone(merged_from):
    def wrong(source, names, name):
        right = merged_from(source, names, name)
        return replace(right, text=terms._text(right.columns[0]))

    return wrong


def first_of_columns_alone(first_of):
    def wrong(block, names, node):
        right = first_of(block, names, node)
        return None if right is None else replace(right, text=terms._text(right.columns[0]))

    return wrong


def derived_tables_of_subqueries_are_new(leaf_edits):
    def wrong(self, query, side):
        below = {
            (leaf.start, leaf.end): self.leaf(leaf, Side.NEW)
            for block in blocks_of(query)
            for leaf in leaves(block.source)
            if isinstance(leaf, Derived) and any(each.has(leaf) for each in self.subqueries)
        }
        edits = leaf_edits(self, query, side)
        return [(start, end, below.get((start, end), text)) for start, end, text in edits]

    return wrong


def with_keys_of_other_columns(of_join):
    def wrong(self, query, block, shown):
        right = of_join(self, query, block, shown)
        return None if right is None else replace(right, columns=right.columns[::-1])

    return wrong


def in_another_order(item_columns):
    return lambda node: item_columns(node)[::-1]


def with_other_words(words, others):
    """A LATERAL join of a change with others of its words."""

    def mutate(cut):
        def wrong(self, part, side, edits=()):
            right = cut(self, part, side, edits)
            return re.sub(words, others, right) if isinstance(part, LateralView) else right

        return wrong

    return mutate


def no_equal_rows(as_selects):
    return lambda text: as_selects(text).replace(SELECT, SELECT.replace("*/", "*/ distinct"))


def maps_of_relations_only(kinds):
    return lambda self, owner, name: kinds(self, owner, name) if isinstance(owner, Relation) else iter(())


BLOCKS = {
    "a full join by the first column of a merged one": (terms, "_merged_from", first_column_alone),
    "a full join by the first of several columns": (terms, "_first_of", first_of_columns_alone),
    "a derived table of a subquery reads what is, not what was": (Writer, "_leaf_edits", derived_tables_of_subqueries_are_new),
    "a join of sums is in the shard by other keys": (replaced.Replacing, "_of_join", with_keys_of_other_columns),
    "the columns of a generator in a set are in another order": (name_resolution, "item_columns", in_another_order),
    "a LATERAL join of the preserved side is an inner one": (Writer, "cut", with_other_words("^left (outer )?join", "join")),
    "a LATERAL join has no condition": (Writer, "cut", with_other_words(" on .*", " on true")),
    "VALUES have no equal rows": (change_plan, "as_selects", no_equal_rows),
    "NOT IN of a subquery has no NULL": (Terms, "_is_among", among_without_nulls),
    "a subquery in the select list is as it was": (Writer, "values_move", lambda right: lambda self, block: False),
    "a subquery in the select list shows what is, not what was": (Writer, "select", values_in_the_present),
    "a subquery in HAVING reads what is, not what was": (Writer, "behind_where", having_in_the_present),
    "a subquery in the select list, over new leaves": (Terms, "_of_values", values_of_new_leaves),
    "window keys where none is shared": (replaced, "keys_of", rank_over_everything),
    "a subquery decides the same as before": (Writer, "conjunct_moves", subqueries_stand_still),
    "a subquery reads what is, not what was": (Writer, "cut", subqueries_in_the_present),
    "NOT EXISTS of a subquery is EXISTS": (unnest._Joining, "done", matched_anyway),
    "a subquery that is a join without its own conditions": (unnest._Joining, "_relation", every_row_of_the_subquery),
    "a full join of which NULL is no key": (Terms, "_of_full_join", null_is_no_key),
    "a full join is a left join": (terms, "scoping", lambda right: not_scoped("full")),
    "NULL is no key of a group": (Changes, "_in_scope", without_null_keys),
    "NULL is no value of a row": (Changes, "_rows", without_null_keys),
    "a group's keys come from one term": (Changes, "_keys", keys_of_the_first_term),
    "window keys are those of one window": (keys, "_shared_by_windows", keys_of_the_first_window),
    "window keys over groups are all of the group": (replaced, "keys_of", every_key_of_the_groups),
    "distinct rows are rows one by one": (blocks, "kind_of", as_if_plain(KeyKind.DISTINCT)),
    "set operators have keys of their left side only": (Changes, "_row_keys", rows_of_the_left_only),
    "set operators keep every row": (SetOp, "compares_rows", lambda right: property(lambda self: False)),
    "group without its HAVING": (Writer, "behind_where", without_having),
    "groups of the past as time passes": (Changes, "_grouped", old_groups_at_the_new_time),
    "top rows are one more": (top_rows, "_kept", lambda right: lambda alias, limit, offset: right(alias, limit + 1, offset)),
    "top rows are the first ones in spite of an offset": (top_rows, "_kept", lambda right: lambda alias, limit, offset: right(alias, limit, 0)),
    "top rows whose order has no direction": (top_rows, "_order", lambda right: lambda *args: [by.split(" ")[0] for by in right(*args)]),
    "group in the shard by keys that are not shown": (Changes, "_new_in_scope", scope_of_keys_that_are_not_shown),
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
    "LATERAL": "lateral",
    "join of sums": "sums",
    "in a set": "set",
    "top rows": "top rows",
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
