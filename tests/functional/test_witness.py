"""Spark as the witness of what this package takes a text to mean: of every text in the repository,
of texts of the worst kind, and of misreadings, each of which it must notice without a row.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.engine.plan_text import same_text
from dbt.adapters.mvsink.incremental import Analysed, analyse, claims, explicit, keys, pieces
from dbt.adapters.mvsink.incremental.name_resolution import Names
from dbt.adapters.mvsink.user_sql.algebra import Derived, Join, leaves
from tests.support.session_engine import SessionEngine
from tests.unit.incremental.test_texts import SETS, operators, schema, texts

COLUMNS = {
    "db.t": [("a", "int"), ("b", "int"), ("c", "string"), ("s", "struct<x:int,y:string>"), ("l", "array<int>")],
    "db.u": [("k", "int"), ("d", "int"), ("a", "int")],
    "db.w": [("a", "int"), ("b", "int")],
    "db.maps": [("a", "int"), ("m", "map<string,int>"), ("n", "array<struct<o:map<string,int>>>")],
}  # fmt: skip


@pytest.fixture(scope="module")
def engine(embedded_spark):
    return SessionEngine(embedded_spark)


def read(query: str) -> Analysed:
    analysed = analyse(query, lambda name: COLUMNS.get(name.lower()))
    assert isinstance(analysed, Analysed), analysed
    return analysed


def shared(engine, query: str, analysed: Analysed | None = None, compare=None) -> bool:
    """Whether Spark reads the query as ``analysed`` has it."""
    compare = compare or engine.same_plan
    try:
        every = claims(query, analysed or read(query))
        return all(compare(claim.text, claim.explicit, claim.stand_ins) for claim in every)
    except EngineError:
        return False


def test_nine_of_ten_operators_of_the_repository_have_a_witness(engine):
    every, misread = Counter(), {}
    for name in SETS:
        columns = schema(name)
        for text, query in texts(name).items():
            analysed = analyse(query, lambda relation: columns.get(relation.lower()))  # noqa: B023
            if isinstance(analysed, Analysed):
                every += operators(query)
                if not shared(engine, query, analysed):
                    misread[name, text] = operators(query).total()
    assert misread == {} and every.total() > 1_000


WORST = """
select * from db.t lateral view explode(l) e as x
select * from db.t, lateral posexplode(l)
select a, e.* from db.t, lateral explode(l) as e(v), lateral stack(2, v, a, e.v, b) f(v, w) where e.v > 1
select t.a, d, v from db.t join db.u on t.a = u.k left join lateral explode_outer(l) e(v)
select t.a, v, p from db.t, db.u left outer join lateral posexplode(sequence(u.d, t.b)) as e(p, v) on v > 1 and t.a = u.k or p = 0 -- few
select v, count(*) n from db.t cross join lateral explode(l) v(v) lateral view outer explode(array(v, b)) f as w where w > 1 group by v
select x, b from db.t inner join lateral inline_outer(array(s)) `on`(x, y) on `on`.y = c
select a from db.t, lateral json_tuple(c, 'a', 'b') as `lateral`(a1, `on`) where a1 = `on`
select a from db.t where exists (select 1 from db.u, lateral explode(array(d, k)) e(v) where u.k = t.a and v > 1)
select a from db.t where a in (select * from values (1), (2), (2))
with x as (select a, col from db.t, lateral explode(l)) select x.a, k, e.c from x, db.u, lateral explode(collection => array(u.d, x.col)) as e(c) union select b, a, a from db.w
select * from db.t lateral view outer posexplode(l) e
select a, x from (select a, explode(l) x from db.t) where x > 1
select s.x, t.s.y, db.t.s.x as q from db.t where s.x > 1 -- a comment
select t.*, u.* except (a) from db.t join db.u on t.a = u.a
select * from db.t full join db.u using (a)
select a, k from db.t right join db.u using (a)
select * from db.t natural join db.w
select a, t.b, w.b, u.d from db.t left join db.u using (a) join db.w using (a)
with x(p, q) as (select a, b from db.t), y as (select p from x union all select q from x) select p, count(*) from y group by 1 having count(*) > 1 order by p
select a as b, b as a, count(*) from db.t group by a, b
select a + 1 as a, max(b) m from db.t group by a + 1 order by m desc, a
select `a`, `c` as `odd name` from db.t `T 1` where `T 1`.`a` in (select k from db.u where u.a = `T 1`.b)
select a, (select max(d) from db.u where k = t.a) as m from db.t where exists (select 1 from db.u where u.k = t.a and not (u.d = 3 or d is null))
select /*+ broadcast(u) */ t.a from db.t join db.u on t.a = u.k
select distinct a, b from db.t except select k, d from db.u
select transform(l, x -> x + a) tr, filter(l, a -> a > 1) f from db.t
select interval 1 day as i, cast(a as bigint) b, date '2020-01-01' d, extract(year from date '2020-01-01') y from db.t
select a, b, a + b as ab, ab * 2 as d from db.t
select case when a > 1 then 'x' else c end k, count(*) n from db.t group by k
select a, l[0], s from db.t where a between 1 and 2 and b = 3 or c like '%x\\_%'
select t.a from db.t, db.u, db.t t2 where t.a = u.k and t2.b = u.d
select * from (db.t join db.u on t.a = u.a)
select x.a from db.t x left semi join db.u a on a.k = x.a
(select a from db.t) union (select k from db.u where k > 1 order by d)
select a from db.t order by b desc, t.c
select count(*) c, a from db.t where a > 0 group by all having c > 1 order by c
select id, a from db.t join range(3) r on r.id = a
with a as (select a from db.t) select a.a, (with b as (select k from db.u) select max(k) from b) mx from a
select cast(s.x as string) || 'it''s' as v from db.t where c <> "quoted" and c = 'a''b'
select a, b, row_number() over w r, max(b) over (partition by a) m from db.t window w as (partition by a, b order by b)
select a, a /* one */ + /* two -- */ b as x from db.t -- end
select b, max(c) as m from db.t group by b order by 2 desc, db.t.b nulls last limit 3 offset 1
select t.a, v.y from db.t join (values (1, 'x'), (2, 'y')) as v(x, y) on v.x = t.a
with v(x, y) as (values (1, 'x'), (1, 'x')) select v.y, t.b from v, db.t where v.x = t.a
select * from (values (1, 2), (3, 4) as v(x, y)) as w
select a from db.t union all values (1), (2)
select window.a, sum(window.b) over w s from db.t window window w as (partition by window.a)
select window.a, u.d from db.t window, db.u where u.k = window.b
select a, t.b, u.d, w.b as wb from db.t full join db.u using (a) full join db.w using (a)
select t.a, u.d, w.b from db.t full join db.u on t.a = u.k full join db.w on coalesce(t.a, u.k) = w.a
select * from db.t natural full join (select k as a, d from db.u) u
select a from db.t where exists (select 1 from (select * from db.u where u.k = t.a) x where x.d > 1)
select a from db.t where b >= (select count(*) from (select d from db.u where u.k = t.a and d > 1) x)
select posexplode(l) as (l, a), b from db.t where a > 1
select posexplode(l), c from db.t union select k, d, 'x' from db.u
select p, count(*) n from (select stack(2, a, c, b, 'x') as (p, q), b from db.t) d group by p
select inline_outer(array(s)) (x, y), a from db.t
select m, n, m['k'] as k, m.j, q.m.i as i, n[0].o['k'] as l from db.maps q where m is not null and map_contains_key(m, 'k')
with c(p, q) as (select m, a from db.maps) select p as r, r['k'] as k, try_element_at(p, 'j') as j from c x join db.u on x.p.a = u.k
with f as (select a, b from db.t where a > 1 order by a, b desc limit 5) select u.k, f.b from db.u join f on u.k = f.a -- few
"""


@pytest.mark.parametrize("query", WORST.strip().splitlines())
def test_a_text_of_the_worst_kind_is_read_as_spark_reads_it(query, engine):
    assert shared(engine, query)


def test_the_texts_of_plans_show_the_same_over_servers(engine):
    different = [
        query
        for query in WORST.strip().splitlines()
        if not shared(engine, query, compare=lambda *claim: same_text(engine, *claim))
    ]
    assert different == []


def body(analysed: Analysed, **changes) -> Analysed:
    return replace(analysed, tree=replace(analysed.tree, body=replace(analysed.tree.body, **changes)))


def source(**changes):
    return lambda read: body(read, source=replace(read.tree.body.source, **changes))


def without(clause: str):
    return lambda read: body(
        read, more={name: part for name, part in read.tree.body.more.items() if name != clause}
    )


def relations_swapped(read: Analysed) -> Analysed:
    first, second = leaves(read.tree.body.source)
    join = read.tree.body.source
    return body(
        read,
        source=replace(
            join, left=replace(first, parts=second.parts), right=replace(second, parts=first.parts)
        ),
    )


def another_cte(read: Analysed) -> Analysed:
    first, second = read.tree.ctes
    leaf = next(leaves(read.tree.body.source))
    assert isinstance(leaf, Derived) and leaf.query is second.query
    return body(read, source=replace(leaf, query=first.query))


# what a tree says of a text, wrongly
TREES = {
    "a lost conjunct": (
        "select a from db.t where a > 0 and b > 1",
        lambda read: body(read, where=read.tree.body.where[:1]),
    ),
    "a conjunct of another block": (
        "select a from db.t where a > 0 or b > 1 and c = 'x'",
        lambda read: body(read, where=(read.tree.body.where[0], read.tree.body.where[0])),
    ),
    "swapped items": (
        "select a, b from db.t",
        lambda read: body(read, items=read.tree.body.items[::-1]),
    ),
    "a lost item": ("select a, b from db.t", lambda read: body(read, items=read.tree.body.items[:1])),
    "a left join taken for an inner one": (
        "select t.a from db.t left join db.u on t.a = u.k",
        source(kind="inner"),
    ),
    "a lost ON": ("select t.a from db.t join db.u on t.a = u.k", source(on=None)),
    "a relation taken for another": ("select t.a from db.t join db.w on t.a = w.a", relations_swapped),
    "UNION taken for UNION ALL": (
        "select a from db.t union select k from db.u",
        lambda read: body(read, all=True),
    ),
    "EXCEPT taken for INTERSECT": (
        "select a from db.t except select k from db.u",
        lambda read: body(read, operator="INTERSECT"),
    ),
    "swapped sides": (
        "select a from db.t union all select k from db.u",
        lambda read: body(read, left=read.tree.body.right, right=read.tree.body.left),
    ),
    "a lost DISTINCT": ("select distinct a from db.t", without("DISTINCT")),
    "a lost HAVING": ("select a from db.t group by a having count(*) > 1", without("HAVING")),
    "a CTE taken for another": (
        "with x as (select a from db.t), y as (select b as a from db.t) select a from y",
        another_cte,
    ),
    "swapped names of columns": (
        "select p from (select a, b from db.t) d(p, q)",
        source(columns=("q", "p")),
    ),
    "a lost join": (
        "select t.a from db.t, db.u",
        lambda read: body(read, source=read.tree.body.source.left),
    ),
    "a lost side of UNION": (
        "select a from db.t union all select k from db.u",
        lambda read: replace(read, tree=read.tree.body.left),
    ),
    "a lost lateral view": (
        "select a from db.t lateral view explode(l) e as x",
        lambda read: body(read, laterals=()),
    ),
    "a lost lateral join": (
        "select a from db.t, lateral explode(l) as e(x)",
        lambda read: body(read, laterals=()),
    ),
    "a left lateral join taken for an inner one": (
        "select a, x from db.t left join lateral explode(l) as e(x) on x > 1",
        lambda read: body(read, laterals=(replace(read.tree.body.laterals[0], outer=False, join="inner"),)),
    ),
    "a lateral join without its ON": (
        "select a, x from db.t join lateral explode(l) as e(x) on x > 1",
        lambda read: body(read, laterals=(replace(read.tree.body.laterals[0], on=None),)),
    ),
    "lateral joins of the same columns, swapped": (
        "select a, x from db.t, lateral explode(l) as e(x), lateral explode(array(x, b)) as f(y)",
        lambda read: body(
            read,
            laterals=tuple(
                replace(view, columns=other.columns)
                for view, other in zip(read.tree.body.laterals, read.tree.body.laterals[::-1], strict=True)
            ),
        ),
    ),
    "a lost GROUP BY": ("select max(a) m from db.t group by b", without("GROUP")),
    "a lost key": (
        "select max(c) m from db.t group by a, b",
        lambda read: body(read, keys=read.tree.body.keys[:1]),
    ),
    "a lost ORDER BY": (
        "select a from db.t order by b",
        lambda read: replace(read, tree=replace(read.tree, ordered=False)),
    ),
    "an OUTER that is missed": (
        "select a, x from db.t lateral view outer explode(l) e as x",
        lambda read: body(read, laterals=(replace(read.tree.body.laterals[0], outer=False),)),
    ),
}


@pytest.mark.parametrize("wrong", TREES)
def test_a_misread_tree_is_noticed(wrong, engine):
    query, misread = TREES[wrong]
    assert shared(engine, query)
    assert not shared(engine, query, misread(read(query)))


# texts, and what they would be with another idea of where comments and literals end
COMMENTS = {
    "a comment that ends in a backslash": (
        "select a from db.t where a > 0 -- x\\\n and b = 2",
        "select a from db.t where a > 0 and b = 2",
    ),
    "a comment that ends too early": (
        "select a from db.t where a > 0 /* /* */ and b = 2 */",
        "select a from db.t where a > 0 and b = 2",
    ),
    "a comment inside a literal": (
        "select a from db.t where c = '--' and b = 2",
        "select a from db.t where c = '--'",
    ),
}


@pytest.mark.parametrize("wrong", COMMENTS)
def test_a_misread_comment_is_noticed(wrong, engine):
    query, taken_for = COMMENTS[wrong]
    assert not shared(engine, query, read(taken_for))


def no_quotes(canonical):
    return lambda block, names, node: canonical(block, names, node).lower().replace("true", "false")


def any_leaf(canonical):
    def mutant(block, names, node):
        tree = node.copy()
        for column in tree.find_all(keys.exp.Column):
            column.set("table", None)
        return repr(tree)

    return mutant


def by_output(columns):
    return lambda self, block: set()


# functions that rules use as well, and a text for which each is wrong
RULES = {
    "swapped columns": (Names, "of_leaf", lambda of_leaf: lambda self, leaf: of_leaf(self, leaf)[::-1],
                        "select * from db.t"),
    "a wrong qualifier": (explicit, "owners_of", lambda owners_of: lambda block, names, column: [
                          number for number, (_, columns) in enumerate(names.scope(block)) if column.name in columns][-1:],
                          "select t.a from db.t join db.u on t.b = u.d"),
    "a column of the query around": (explicit, "owners_of", lambda owners_of: lambda block, names, column: (
                                     [] if block in names.outer else owners_of(block, names, column)),
                                     "select a from db.t where exists (select 1 from db.u where k = a and d = 1 or k = 2)"),
    "a name excepted from a star": (Names, "of_star", lambda of_star: lambda self, block, item: [
                                    (leaf, name) for leaf in leaves(block.source) for name in self.of_leaf(leaf)],
                                    "select * except (a) from db.t"),
    "columns behind a semi join": (Names, "of_star", lambda of_star: lambda self, block, item: [
                                   (leaf, name) for leaf in leaves(block.source) for name in self.of_leaf(leaf)],
                                   "select * from db.t left semi join db.u on t.a = u.k"),
    "one name for two columns": (explicit, "canonical", any_leaf,
                                 "select t.a, u.a from db.t join db.u on t.b = u.d"),
    "a literal taken for a column": (explicit, "canonical", no_quotes,
                                     "select count_if(c = 'A') x, count_if(c = 'a') y from db.t"),
    "an output's name taken for a column's": (Names, "columns", by_output,
                                              "select a as b, b as a, count(*) n from db.t group by a, b"),
    "an ordinal that counts from another item": (keys, "_of_item", lambda of_item: lambda block, names, number: of_item(
                                                 block, names, 1 - number), "select a, b, count(*) n from db.t group by 1, 2"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", RULES)
def test_a_wrong_reading_of_names_is_noticed(wrong, engine, monkeypatch):
    owner, name, mutate, query = RULES[wrong]
    assert shared(engine, query)
    analysed = read(query)
    monkeypatch.setattr(owner, name, mutate(getattr(owner, name)))
    assert not shared(engine, query, analysed)


def test_the_innermost_part_that_is_misread_is_named(engine, monkeypatch):
    query = "select a\nfrom (\n  select * from db.t\n) x\nwhere a in (select k from db.u)"
    analysed = read(query)
    monkeypatch.setattr(Names, "of_leaf", lambda self, leaf: self.relations[leaf.parts][::-1])
    lines = [
        line
        for line, piece in pieces(analysed.written or analysed)
        if not engine.same_plan(piece.text, piece.explicit, piece.stand_ins)
    ]
    assert lines[:1] == [3]


def test_joins_are_compared_as_well(engine):
    query = "select a from db.t where exists (select 1 from db.u where k = t.a)"
    analysed = read(query)
    written, joined = claims(query, analysed)
    assert "semi join" in joined.text and isinstance(analysed.tree.body.source, Join)
    assert all(engine.same_plan(each.text, each.explicit, each.stand_ins) for each in (written, joined))


@pytest.mark.parametrize("column", [0, 24, 25, 39])
def test_of_a_wide_plan_with_a_generator_every_column_is_compared(column, engine):
    """Spark prints 25 columns, and compares no plans with generators."""
    items = [f"a + {number} c{number}" for number in range(40)]
    query = "select {}, x from _mv_w0 lateral view explode(array(a)) t as x"
    others = [item.replace("+", "-") if number == column else item for number, item in enumerate(items)]
    one, same, other = (query.format(", ".join(each)) for each in (items, items, others))
    columns = {"_mv_w0": [("a", "int")]}
    assert engine.same_plan(one, same, columns)
    assert not engine.same_plan(one, other, columns)
