"""Where SQL names a relation, and its replacement."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.incremental import NotIncremental, analyse
from dbt.adapters.mvsink.user_sql.splice import (
    AmbiguousName,
    TemporalReference,
    relation_names,
    relations,
    replace_relations,
    with_ctes,
)
from dbt.adapters.mvsink.user_sql.words import UnreadableText, parts, words

# The user's SQL, and the same with `db.m` replaced by the query Q. Line ends are blanks here.
REPLACED = [
    ("select * from db.m", "select * from ( Q ) as `m`"),
    ("select * from `db`.`m`", "select * from ( Q ) as `m`"),
    ("select * from DB.`M`", "select * from ( Q ) as `m`"),
    ("select * from db . m", "select * from ( Q ) as `m`"),
    ("select m.a from db.m where m.a > 1", "select m.a from ( Q ) as `m` where m.a > 1"),
    ("select db.m.a, db.m.* from db.m", "select `m`.a, `m`.* from ( Q ) as `m`"),
    ("select x.a from db.m x", "select x.a from ( Q ) x"),
    ("select x.a from db.m as x(a)", "select x.a from ( Q ) as x(a)"),
    ("from db.m `where`", "from ( Q ) `where`"),
    ("select * from a join db.m on a.k = db.m.k", "select * from a join ( Q ) as `m` on a.k = `m`.k"),
    ("select * from a left join db.m using (k)", "select * from a left join ( Q ) as `m` using (k)"),
    ("select * from a, db.m, b", "select * from a, ( Q ) as `m`, b"),
    ("select * from a join b on f(a.x, 1) = b.x, db.m", "select * from a join b on f(a.x, 1) = b.x, ( Q ) as `m`"),
    ("select * from a join b on case when 1 then 2 end, db.m", "select * from a join b on case when 1 then 2 end, ( Q ) as `m`"),
    ("select * from (db.m join b)", "select * from (( Q ) as `m` join b)"),
    ("select * from (values (1), (2)) v(a), db.m", "select * from (values (1), (2)) v(a), ( Q ) as `m`"),
    ("select * from f(1, 2), db.m", "select * from f(1, 2), ( Q ) as `m`"),
    ("select a from db.m union all select b from db.m", "select a from ( Q ) as `m` union all select b from ( Q ) as `m`"),
    ("a in (select b from db.m)", "a in (select b from ( Q ) as `m`)"),
    ("with c as (select 1 from db.m) select 1", "with c as (select 1 from ( Q ) as `m`) select 1"),
    ("table db.m", "select * from ( Q ) as `m`"),
    ("select * from f(table(db.m))", "select * from f(table(select * from ( Q ) as `m`))"),
    ("select * from db.m tablesample (5 rows) where a", "select * from ( Q ) tablesample (5 rows) as `m` where a"),
    ("select * from db.m tablesample (5 rows) repeatable (1) x", "select * from ( Q ) tablesample (5 rows) repeatable (1) x"),
    ("select * from db.m pivot (sum(a) for b in (1, 2))", "select * from ( Q ) as `m` pivot (sum(a) for b in (1, 2))"),
    ("select * from db.m lateral view explode(a) t as k, v", "select * from ( Q ) as `m` lateral view explode(a) t as k, v"),
    ("select trim(both 'x' from a) from db.m", "select trim(both 'x' from a) from ( Q ) as `m`"),
    ("(select * from db.m where false limit 0)", "(select * from ( Q ) as `m` where false limit 0)"),
    ("select '😀' from db.m -- db.m", "select '😀' from ( Q ) as `m` -- db.m"),
]  # fmt: skip

UNTOUCHED = [
    "select 'from db.m', \"from db.m\" from a",
    "select 1 -- from db.m",
    "select 1 /* from db.m /* from db.m */ from db.m */",
    "select r'from db.m\\' from a",
    "select db.m from a db",  # a column of an alias
    "select db.m.a from a db",  # a field of it
    "select * from other.db.m",
    "select * from db.m.n",
    "select * from db.m(1)",
    "select * from `db.m`",
    "select * from m",
    "select extract(day from db.m), trim(db.m) from a db",
    "select a is distinct from db.m, a is not distinct from db.m from a db",
    "select * from a db where db.m = 1 order by db.m",
    "select * from db.m2, db2.m",
]


@pytest.mark.parametrize("sql, expected", REPLACED)
def test_a_relation_becomes_a_query_under_the_same_name(sql, expected):
    assert replace_relations(sql, {"db.m": "Q"}).replace("\n", " ") == expected


@pytest.mark.parametrize("sql", UNTOUCHED)
def test_nothing_else_is_replaced(sql):
    assert relations(sql, "db.m") == ()
    assert replace_relations(sql, {"db.m": "Q"}) == sql


@pytest.mark.parametrize(
    "sql, named",
    [
        ("insert into db.m select 1", 1),
        ("insert into table db.m values (1)", 1),
        ("update db.m set a = 1", 1),
        ("delete from db.m where a", 1),
        ("merge into db.m using db.m s on a", 2),
        ("merge into db.m using (select * from db.m) s on a", 2),
    ],
)
def test_written_relations_are_found_too(sql, named):
    assert len(relations(sql, "db.m")) == named


@pytest.mark.parametrize(
    "suffix", ["version as of 3", "timestamp as of '2026-01-01'", "for system_time as of 'x'", "@v1"]
)
def test_time_travel_is_refused(suffix):
    with pytest.raises(TemporalReference, match="db.m has a time travel clause"):
        relations(f"select * from db.m {suffix}", "db.m")


def test_several_names_are_replaced_at_once():
    """Replacements are not searched for names."""
    replaced = replace_relations("select * from db.a, db.b", {"db.a": "select * from db.b", "db.b": "Q"})
    assert replaced.replace("\n", " ") == "select * from ( select * from db.b ) as `a`, ( Q ) as `b`"


def test_a_query_may_depend_on_the_place_and_its_note():
    sql = "select * from db.m /* old */ x, db.m y, (select * from db.m where false limit 0) /* old */ z"
    replaced = replace_relations(
        sql, {"db.m": lambda span: "OLD" if span.note(sql).startswith("/* old */") else "NEW"}
    )
    assert replaced.replace("\n", " ") == (
        "select * from ( OLD ) /* old */ x, ( NEW ) y, (select * from ( OLD ) as `m` where false limit 0) /* old */ z"
    )


def test_columns_qualified_by_a_name_that_is_not_in_the_text_take_the_alias_given():
    assert (
        replace_relations("db.t.k = x.k and db.t = 1", {}, aliases={"db.t": "u"})
        == "`u`.k = x.k and db.t = 1"
    )


def test_an_open_quote_is_an_error_not_a_text_without_relations():
    with pytest.raises(UnreadableText):
        replace_relations("select 'a from db.m", {"db.m": "Q"})


@pytest.mark.parametrize(
    "ctes, query, expected",
    [
        (None, "select 1", "select 1"),
        ("with a as (q)", "select 1", "with a as (q)\nselect 1"),
        ("with a as (q)", "with b as (r) select 1", "with a as (q),\nb as (r) select 1"),
        ("with recursive a as (q)", "with b as (r) select 1", "with recursive a as (q),\nb as (r) select 1"),
        ("with a as (q)", "WITH RECURSIVE b as (r) select 1", "with recursive a as (q),\nb as (r) select 1"),
    ],
)
def test_common_table_expressions_are_joined(ctes, query, expected):
    assert with_ctes(ctes, query) == expected


@pytest.mark.parametrize("name", ["db.`My Model`", "`DB`.`my model`"])
def test_names_are_compared_without_quotes_and_case(name):
    assert parts(name) == ("db", "my model")


def test_words_say_where_they_are_in_the_text():
    sql = "select /*+ h */ group  by `a``b`.c, 1L, '😀;' ;"
    stream = [(sql[word.start : word.end], word.upper) for word in words(sql)]
    assert [text for text, _ in stream] == [
        "select",
        "/*+ h */",
        "group",
        "by",
        "`a``b`",
        ".",
        "c",
        ",",
        "1L",
        ",",
        "'😀;'",
        ";",
    ]
    assert [upper for _, upper in stream] == [
        "SELECT",
        "",
        "GROUP",
        "BY",
        "",
        ".",
        "C",
        ",",
        "1L",
        ",",
        "",
        ";",
    ]


def test_show_is_a_word_like_any_other():
    """A tokenizer of commands would take all that follows for one text."""
    assert [word.text for word in words("select 1; show tables (x)")] == [
        "select",
        "1",
        ";",
        "show",
        "tables",
        "(",
        "x",
        ")",
    ]


NAMES = [
    ("select 1", ()),
    ("select a.x from db.a, `db`.`b c` as a join c on extract(day from d) = 1", ("db.a", "`db`.`b c`", "c")),
    ("with w as (select * from x.y) select * from w where z in (select z from x.y)", ("x.y", "w")),
    ("select 'from t', from_ -- from u\nfrom db.v", ("db.v",)),
    ("table db.a union all select trim(both from s) from (db.b)", ("db.a", "db.b")),
    ("select * from db.a join db.b using (c, d), db.e", ("db.a", "db.b", "db.e")),
]


@pytest.mark.parametrize(("query", "names"), NAMES)
def test_the_names_of_all_relations(query, names):
    assert relation_names(query) == names


class TestRowB:
    """Two relations of one last name in two schemas."""

    def test_row_b_each_has_an_alias_of_its_own(self):
        query = "select pr.t1.k from pr.t1 where exists (select 1 from x.t1 where x.t1.k = pr.t1.k)"
        text = replace_relations(query, {"pr.t1": "select 1 k", "x.t1": "select 2 k"})
        assert " ".join(text.split()) == (
            "select `pr_t1`.k from ( select 1 k ) as `pr_t1` where exists "
            "(select 1 from ( select 2 k ) as `x_t1` where `x_t1`.k = `pr_t1`.k)"
        )

    @pytest.mark.parametrize(
        "query",
        [
            "select pr.t1.k from pr.t1, x.t1",
            "select pr.t1.k from pr.t1 join y.u as t1 on true",
            "select pr.t1.k from pr.t1 join y.u t1",
            "with t1 as (select 1 k) select pr.t1.k from pr.t1, t1",
            "select pr.t1.k from pr.t1, (select 1 k) t1",
        ],
    )
    def test_row_b_what_else_has_its_name(self, query):
        assert "as `pr_t1`" in replace_relations(query, {"pr.t1": "select 1 k"})
        assert replace_relations(query, {"pr.t1": "select 1 k"}).startswith(("select `pr_t1`.k", "with"))

    def test_row_b_a_name_that_may_be_either_is_an_error(self):
        query = "select t1.k from pr.t1 where exists (select 1 from x.t1 where x.t1.k = pr.t1.k)"
        with pytest.raises(AmbiguousName, match="give each an alias"):
            replace_relations(query, {"pr.t1": "select 1 k"})

    def test_row_b_a_name_of_its_own_stays(self):
        query = "select pr.t1.k, t1.k from pr.t1 join x.t2 on x.t2.t1 = pr.t1.k"
        assert "as `t1`" in replace_relations(query, {"pr.t1": "select 1 k"})

    def test_row_b_is_evaluated_in_full(self):
        query = "select pr.t1.k from pr.t1 where exists (select 1 from x.t1 where x.t1.k = pr.t1.k)"
        outcome = analyse(query, lambda name: [("k", "int")])
        assert isinstance(outcome, NotIncremental) and "the last name of" in outcome.reason
