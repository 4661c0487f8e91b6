"""Reading the text: spans, precedence, the two readings, and that nothing is rendered again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dbt.adapters.mvsink.incremental import Analysed, Sides, analyse, clock_probe, delta
from dbt.adapters.mvsink.user_sql.algebra import Block, Fragment, Item, Join, Nest, Query, Refused, SetOp
from dbt.adapters.mvsink.user_sql.reader import read
from dbt.adapters.mvsink.user_sql.trees import trees
from tests.support.incremental_rules import readable

COLUMNS = {"a": ["k", "v", "w"], "b": ["k", "v", "x"], "db.a": ["k", "v", "w"]}
SIDES = {
    name: Sides(*(f"select * from {schema}.{name[-1]}" for schema in ("after", "before", "changes")))
    for name in COLUMNS
}
NOW = "timestamp_millis(5000L) /* mv_now */"


def analysed(query: str) -> Analysed:
    outcome = analyse(
        query, lambda name: [(column, "int") for column in COLUMNS[name.replace("`", "").lower()]]
    )
    assert isinstance(outcome, Analysed), outcome
    return outcome


def changed(query: str, *names: str) -> str:
    return delta(analysed(query), {name: SIDES[name.replace("`", "")] for name in names}).query


def shape(node: Any) -> str:
    if isinstance(node, Query):
        return shape(node.body)
    if isinstance(node, SetOp):
        return f"({shape(node.left)} {node.operator.lower()} {shape(node.right)})"
    if isinstance(node, Join):
        return f"({shape(node.left)} {node.kind} {shape(node.right)})"
    if isinstance(node, Nest):
        return f"[{shape(node.inner)}]"
    return shape(node.source) if hasattr(node, "source") else node.alias


@pytest.mark.parametrize(
    "query, expected",
    [
        ("select 1 from a, b join c on true", "((a comma b) inner c)"),
        ("select 1 from a join b on true, c right join d on true", "(((a inner b) comma c) right d)"),
        ("select 1 from a left join (b cross join c) on true", "(a left [(b cross c)])"),
        ("select 1 from a union all select 1 from b union all select 1 from c", "((a union b) union c)"),
        ("select 1 from a union all select 1 from b intersect select 1 from c", "(a union (b intersect c))"),
        ("select 1 from a except (select 1 from b minus select 1 from c)", "(a except (b minus c))"),
        ("select 1 from (((select 1) x))", "[[x]]"),
    ],
)
def test_precedence_is_sparks(query, expected):
    assert shape(read(query)) == expected


@pytest.mark.parametrize(
    "where, expected",
    [
        ("a and b", ["a", "b"]),
        ("a between 1 and 2 and b", ["a between 1 and 2", "b"]),
        ("a and (b and c)", ["a", "(b and c)"]),
        ("a and b or c", ["a and b or c"]),
        ("case when a and b then c or d end and e", ["case when a and b then c or d end", "e"]),
        ("not a and a between b between 1 and 2 and 3", ["not a", "a between b between 1 and 2 and 3"]),
    ],
)
def test_conjuncts_are_split_at_their_ands(where, expected):
    query = f"select 1 from t where {where} -- and so on"
    [conjuncts] = [read(query).body.where]
    assert [query[part.start : part.end] for part in conjuncts] == expected


@pytest.mark.parametrize(
    "query",
    [
        "select offset from a where limit > 1",
        "select a from t where x is distinct from y and z",
        "select extract(year from d), trim(both 'x' from y), t.`from`, 'a from b' from t",
        "select all a from t",
        "select /*+ broadcast(t) */ a from t -- end",
        "select a from t lateral view outer explode(x) e as f lateral view explode(f) g",
        "select a from t, lateral explode(x) as e(f) left join lateral explode(f) on a > 1 lateral view explode(f) g",
        "with c(x) as (select 1), d as (select * from c) select * from d as e(y)",
        "((select a from t) -- the inner one )\n) order by a",
        "select max(a) over w, sum(a) over (partition by b, c order by d desc) from t window w as (partition by b)",
    ],
)
def test_every_part_is_one_expression(query):
    trees(query, read(query))


def conjuncts_as_one(block: Block) -> Block:
    first, *_, last = block.where
    return replace(block, where=(first, Fragment(first.end + 5, last.end)))


# what a text says that the explicit text takes over as it is, and how it could be misread
UNNOTICED = {
    "a LIMIT behind ORDER BY": ("select a from t order by a limit greatest(1, 2)", None),
    "an OFFSET behind ORDER BY": ("(select a from t) order by a offset greatest(1, 2)", None),
    "a query behind FROM": ("select a from t where exists (from u)", None),
    "a query that is not seen": ("select a, (select 1 from u) from t", lambda block: replace(block, subqueries=())),
    "a star": ("select t.*, a from t", lambda block: replace(block, items=tuple(Item(each.start, each.end) for each in block.items))),
    "a partition": ("select max(a) over (partition by b, c) from t", lambda block: replace(block, windows=(replace(block.windows[0], partition=block.windows[0].partition[:1]),))),
    "an order": ("select max(a) over w from t window w as (order by b)", lambda block: replace(block, windows=(replace(block.windows[0], order=()),))),
    "a window": ("select max(a) over (order by b) from t", lambda block: replace(block, windows=())),
    "two conjuncts as one": ("select a from t where b and c and d", conjuncts_as_one),
    "a part of two": ("select a from t where b", lambda block: replace(block, where=(Fragment(7, 8), Fragment(9, 23)))),
}  # fmt: skip


@pytest.mark.parametrize("text, misread", UNNOTICED.values(), ids=UNNOTICED)
def test_what_spark_would_not_notice_is_refused(text, misread):
    tree = read(text)
    with pytest.raises(Refused, match=r"two parsers read the text differently|sqlglot cannot read the text"):
        trees(text, tree if misread is None else replace(tree, body=misread(tree.body)))


def test_an_expression_is_never_rendered_again():
    expression = "CAST( k  AS Decimal(10 ,2)) /* a */ + -- b\n  1e0  "
    text = changed(f"SELECT {expression} As `N`  from a Where (v)>1 And w  Is Not Null", "a")
    assert expression in text
    assert "(v)>1" in text and "w  Is Not Null" in text


def test_a_cte_is_never_left_in_the_query_of_a_change():
    text = changed(
        "with c as (with d as (select k from a) select k from d) select c.k from c join b on c.k = b.k",
        "a",
        "b",
    )
    assert "with" not in text


def test_a_with_in_parentheses_is_removed_too():
    query = "with c as (select k from a) select * from (with d as (select k from c) (with e as (select 1) (select k from d))) x"
    assert readable(changed(f"select x.k from b join ({query}) x on true", "b")) == (
        "select x.k, _mv_diff from Δb as `b` join ( select * from ( (select k from ( select k from ( select k from a ) as `c` ) as `d`) ) as `x` ) as `x` on true"
    )


def test_mv_now_in_a_comment_is_text():
    outcome = analysed(f"select k -- {NOW}\n from a where v > 1")
    assert clock_probe(outcome, (1, 2)) is None
    assert delta(outcome, {}, (1, 2)).terms == 0


def test_names_of_ctes_are_resolved_from_the_inside():
    query = "with a as (select k from a where v > 1) select * from (with a as (select k + 1 as k from a) select k from a) x"
    assert readable(changed(query, "a")) == (
        "select * except (_mv_diff), _mv_diff from ( select k, _mv_diff from ( select k + 1 as k, _mv_diff "
        "from ( select k, _mv_diff from Δa as `a` where ( v > 1 ) ) as `a` ) as `a` ) as `x`"
    )


def test_columns_qualified_by_a_whole_name_stay_valid():
    assert readable(changed("select db.a.k, `db`.`a`.* from db.a where DB.A.v > 1", "`db`.a")) == (
        "select `a`.k, `a`.* except (_mv_diff), _mv_diff from Δa as `a` where ( `a`.v > 1 )"
    )


@pytest.mark.parametrize(
    "query, expected",
    [
        ("select k from a", {"a": ("k",)}),
        ("select a.k from a join b using (v)", {"a": ("k", "v"), "b": ("k", "v")}),
        ("select a.* from a, b", {"a": ("k", "v", "w"), "b": ()}),
        ("with s as (select * from a) select k as n from s where w > 1", {"a": ("k", "w")}),
        ("with s as (select * from a) select * from s", {"a": ("k", "v", "w")}),
        ("with s(x) as (select k from a) select x from s", {"a": ("k",)}),
        ("select x from a as s(x, y, z)", {"a": ("k", "v", "w")}),
        ("select k as n from a union all select x from (select * from b)", {"a": ("k",), "b": ("k", "x")}),
        (
            "select n from (select k as n, v as o, w as p from a union all select * from b)",
            {"a": ("k", "v", "w"), "b": ("k", "v", "x")},
        ),
        ("select 1 as one from a natural join b", {"a": ("k", "v", "w"), "b": ("k", "v", "x")}),
        ("select 1 as one from A join `a` on true", {"A": ()}),
    ],
)
def test_columns_that_may_be_used(query, expected):
    assert analysed(query).relations == expected


@pytest.mark.parametrize(
    "query, expected",
    [
        ("select k from a", None),
        (f"select k from a where {NOW} > timestamp '2026-01-01'", None),
        (
            f"select k from a where date_trunc('day', cast({NOW} as date)) > v and k > 1",
            "select (date_trunc('day', cast(timestamp_millis(1L) /* mv_now */ as date)))"
            " <=> (date_trunc('day', cast(timestamp_millis(2L) /* mv_now */ as date))) as same",
        ),
        (
            f"select k from a where coalesce(v, year({NOW})) > 1",
            "select (year(timestamp_millis(1L) /* mv_now */)) <=> (year(timestamp_millis(2L) /* mv_now */)) as same",
        ),
    ],
)
def test_the_largest_constant_around_mv_now_is_compared(query, expected):
    assert clock_probe(analysed(query), (1, 2)) == expected
