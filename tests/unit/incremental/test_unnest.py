"""Which subqueries become joins, and the text that has them."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.incremental import Analysed, analyse

COLUMNS = {
    "a": [("k", "int"), ("v", "int"), ("s", "string"), ("ts", "timestamp")],
    "b": [("k", "int"), ("w", "int"), ("n", "bigint"), ("t", "string")],
    "c": [("k", "int"), ("inner_", "struct<k:int>"), ("ts", "timestamp")],
    "d": [("k", "int"), ("a", "struct<k:int>")],
    "u_odd": [("u_0", "int"), ("u__1", "int")],
}
NOW = "timestamp_millis(5000L) /* mv_now */"


def text(query: str) -> str:
    analysed = analyse(query, lambda name: COLUMNS[name.lower()])
    assert isinstance(analysed, Analysed), analysed
    return analysed.text


JOINED = {
    "select k from a where exists (select 1 from b where b.k = a.k)": (
        "select k from a left semi join (select b.k as u_0_0 from b) as u_0 on u_0.u_0_0 = a.k where 1 = 1"
    ),
    "select k from a where v > 1 and not (exists (select b.* from b where (b.k + 1 = a.k) and b.w < v)) and v < 9": (
        "select k from a left anti join (select b.k as u_0_0, b.w as u_0_1 from b) as u_0 "
        "on (u_0.u_0_0 + 1 = a.k) and u_0.u_0_1 < v where v > 1 and 1 = 1 and v < 9"
    ),
    "select k from a where (k) in (select n from b where t = 'k')": (
        "select k from a left semi join (select n from b where t = 'k') as u_0(u_0_0) on k = u_0.u_0_0 where 1 = 1"
    ),
    "select k from a where a.k in (select k from b group by k having count(*) > 1)": (
        "select k from a left semi join (select k from b group by k having count(*) > 1) as u_0(u_0_0) on a.k = u_0.u_0_0 where 1 = 1"
    ),
    "select k from a where s in (select t from b where b.k = a.k)": (
        "select k from a left semi join (select b.k as u_0_0, t as u_0_1 from b) as u_0 on s = u_0.u_0_1 and u_0.u_0_0 = a.k where 1 = 1"
    ),
    "select k from a where (select 0.5 * max(w) from b where w > 1 and a.k = b.n) >= v": (
        "select k from a left semi join (select b.n as u_0_0, 0.5 * max(w) as u_0_1 from b where w > 1 group by b.n) as u_0 "
        "on a.k = u_0.u_0_0 and u_0.u_0_1 >= v where 1 = 1"
    ),
    "select k from a where v > (select max(w) from b where b.k = a.k) -- the most\nand s = 'x'": (
        "select k from a left semi join (select b.k as u_0_0, max(w) as u_0_1 from b group by b.k) as u_0 "
        "on u_0.u_0_0 = a.k and v > u_0.u_0_1 where 1 = 1 -- the most\nand s = 'x'"
    ),
    # a comma binds less than a join
    "select a.s from a, c where a.k = c.k and exists (select 1 from b where b.k = v)": (
        "select a.s from a cross join c left semi join (select b.k as u_0_0 from b) as u_0 on u_0.u_0_0 = v where a.k = c.k and 1 = 1"
    ),
    # subqueries of subqueries, and two of one block
    "select k from a where exists (select 1 from b where b.k = a.k and w in (select k from c)) and v in (select w from b)": (
        "select k from a left semi join (select w from b) as u_0(u_0_0) on v = u_0.u_0_0 "
        "left semi join (select b.k as u__0_0 from b left semi join (select k from c) as u_1(u_1_0) on w = u_1.u_1_0 where 1 = 1) as u__0 "
        "on u__0.u__0_0 = a.k where 1 = 1 and 1 = 1"
    ),
    # in a CTE, below groups, in a branch of a set operator
    "with d as (select k from a where k in (select k from b)) select k, count(*) n from d group by k union all select k, 1 from a": (
        "with d as (select k from a left semi join (select k from b) as u_0(u_0_0) on k = u_0.u_0_0 where 1 = 1) "
        "select k, count(*) n from d group by k union all select k, 1 from a"
    ),
    # its names are new
    "select u_0 from u_odd where exists (select 1 from b where k = u_0)": (
        "select u_0 from u_odd left semi join (select k as u___0_0 from b) as u___0 on u___0.u___0_0 = u_0 where 1 = 1"
    ),
    # the mark of mv_now() is a comment
    f"select k from a where exists (select 1 from c where c.k = a.k and c.ts < {NOW})": (
        f"select k from a left semi join (select c.k as u_0_0 from c where c.ts < {NOW}) as u_0 on u_0.u_0_0 = a.k where 1 = 1"
    ),
    "select k from a where exists (select 1 from b -- of it\n where b.k = a.k -- the key\n and w > 1)": (
        "select k from a left semi join (select b.k as u_0_0 from b where w > 1) as u_0 on u_0.u_0_0 = a.k where 1 = 1\n\n"
    ),
    "select k from a where exists (select 1 from b where\n b.k = a.k and t = 'two\nlines')": (
        "select k from a left semi join (select b.k as u_0_0 from b where t = 'two\nlines') as u_0 on u_0.u_0_0 = a.k where 1 = 1\n\n"
    ),
}  # fmt: skip
STAY = {
    "NOT IN": "select k from a where k not in (select k from b)",
    "below NOT": "select k from a where not (k in (select k from b))",
    "below OR": "select k from a where (exists (select 1 from b where b.k = a.k) or v = 1)",
    "below CASE": "select k from a where case when exists (select 1 from b where b.k = a.k) then v > 1 else v < 1 end",
    "two in one conjunct": "select k from a where v between (select min(w) from b where b.k = a.k) and (select max(w) from b where b.k = a.k)",
    "in the select list": "select k, exists (select 1 from b where b.k = a.k) e from a",
    "no column outside": "select k from a where exists (select 1 from b where w > 1)",
    "no value is equal": "select k from a where exists (select 1 from b where b.k > a.k)",
    "groups": "select k from a where exists (select b.k from b where b.k = a.k group by b.k having count(*) > 1)",
    "an aggregate always gives a row": "select k from a where exists (select count(*) from b where b.k = a.k)",
    "a generator may give none": "select k from a where exists (select explode(array(w)) from b where b.k = a.k)",
    "one column outside or two": "select a.k from a join c on a.k = c.k where exists (select 1 from b where b.w = ts)",
    "a field of a struct": "select k from a where exists (select 1 from c where c.inner_.k = a.k)",
    "a field of a struct with the name of a relation": "select s from a where exists (select 1 from d where a.k = v)",
    "no source": "select k from a where exists (select 1 where a.k = 1)",
    "other types in IN": "select k from a where k in (select t from b)",
    "an unknown type in IN": "select k from a where k in (select w + 1 from b)",
    "of an expression": "select k from a where k + 1 in (select k from b)",
    "a union": "select k from a where k in (select k from b union all select w from b)",
    "another type of key": "select k from a where v > (select max(w) from b where b.t = a.k)",
    "no key": "select k from a where v > (select max(w) from b where b.k < a.k)",
    "not a key alone": "select k from a where v > (select max(w) from b where b.k = a.k and b.w > a.v)",
    "a count of no rows is no NULL": "select k from a where v > (select count(*) from b where b.k = a.k)",
    "a value of no rows": "select k from a where v > (select coalesce(max(w), 0) from b where b.k = a.k)",
    "a value beside": "select k from a where v > (select max(w) + a.v from b where b.k = a.k)",
    "a null-safe comparison": "select k from a where v <=> (select max(w) from b where b.k = a.k)",
    "it is not one group": "select k from a where v > (select max(w) from b where b.k = a.k group by w)",
    "LATERAL VIEW": "select k from a lateral view explode(array(v)) l as e where exists (select 1 from b where b.k = a.k)",
    "a comma before a right join": "select a.s from a, c right join b on c.k = b.k where exists (select 1 from b d where d.k = a.v)",
    "the time in a condition of both": f"select k from a where exists (select 1 from c where c.ts < a.ts + ({NOW} - a.ts) and c.k = a.k)",
    "the time in a comparison": f"select k from a where ts > {NOW} - (select max(c.ts - c.ts) from c where c.k = a.k)",
    "a derived table that names the block around": "select k from a where exists (select 1 from b where b.k < a.k and w in (select x.w from (select w from b where t = a.v) x))",
    "a comma before USING": "select a.s from a, c join b using (k) where exists (select 1 from b d where d.k = a.v)",
}  # fmt: skip


@pytest.mark.parametrize("query", JOINED)
def test_a_subquery_in_where_is_a_join(query):
    assert text(query).split() == JOINED[query].split()
    assert text(query).count("\n") >= query.count("\n")


@pytest.mark.parametrize("why", STAY)
def test_what_is_not_certain_to_be_equal_stays(why):
    assert text(STAY[why]) == STAY[why]


def test_a_literal_keeps_its_lines():
    query = "select k from a where exists (select 1 from b where b.k = a.k and t = 'two\nlines')"
    assert "'two\nlines'" in text(query)


def test_a_reason_names_the_line_of_the_users_text():
    query = "select k\nfrom a\nwhere exists (\n  select 1\n  from b\n  where b.k = a.k\n)\nand rand() > 1"
    outcome = analyse(query, lambda name: COLUMNS[name.lower()])
    assert outcome.reason.startswith("line 8: rand()")
