"""What is for the full correction, and the reason that users read."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.incremental import Analysed, NotIncremental, Sides, analyse, delta
from dbt.adapters.mvsink.user_sql.checks import uncertain

COLUMNS = {
    "a": [("k", "int"), ("v", "int"), ("s", "struct<x:int>"), ("xs", "array<int>"), ("m", "map<int,int>")],
    "b": [("k", "int"), ("name", "string collate UTF8_LCASE"), ("ok", "string"), ("raw", "variant")],
    "d": [("k", "int"), ("_mv_time", "bigint")],
    "p": [("k", "int"), ("code", "char(5)"), ("codes", "array<char(2)>"), ("short", "varchar(5)")],
    "u": [("k", "int"), ("user", "string")],
    "f": [("k", "int"), ("ds", "array<double>")],
}
NOW = "timestamp_millis(5000L) /* mv_now */"
FULL = "line 1: a full join that compares no columns of one type by =, such as `a.k = b.k`, `coalesce(a.k, b.k) = c.k` or USING"
REFUSED = {
    # what has no rule
    "select k from a anti semi join b on true": "line 1: a join of kind ANTI SEMI JOIN",
    "select x.k from (a join b on a.k = b.k) as x": "line 1: an alias for a join in parentheses",
    "select b.* from a, explode(a.xs) b": "line 1: a table function of columns",
    "select a.s.* from a": "line 1: a star over a struct",
    "select k, :x as n from a": "line 1: a parameter",
    "select k, ? as n from a": "line 1: a parameter",
    "select 1 as one from a having true": "line 1: HAVING without groups",
    "select k from a where max(k) > 1": "line 1: an aggregate: max()",
    "select k from a where row_number() over (order by k) = 1": "line 1: a window: row_number()",
    "select rank() over (w order by k) as n from a window w as (partition by k)": "line 1: a window that extends another",
    "select rank() over u as n from a window w as (partition by k)": "line 1: a window u that the WINDOW clause does not define",
    "select session_window(k, '1 hour') as n, count(*) as m from a group by 1": "line 1: a window: session_window()",
    "select k, count(*) as n from a group by rollup(k)": "line 1: ROLLUP, CUBE or GROUPING SETS",
    "select k, count(*) as n from a group by k with cube": "line 1: ROLLUP, CUBE or GROUPING SETS",
    "select k, count(*) as n from a group by grouping sets ((k), ())": "line 1: ROLLUP, CUBE or GROUPING SETS",
    "select k, v, count(*) as n from a group by (k, v)": "line 1: GROUP BY a literal or several columns in parentheses",
    "select a.k, count(*) as n from a group by 2": "line 1: GROUP BY an aggregate",
    "select a.k, count(*) as n from a group by 3": "line 1: GROUP BY a number beyond the items",
    "select *, count(*) as n from b group by 1": "line 1: an ordinal together with a star",
    "select *, count(*) as n from b group by all": "line 1: GROUP BY ALL together with a star",
    "select count(*) as n from a group by all": "line 1: GROUP BY ALL without a key",
    "select k + 1 as n, count(*) as m from a group by n + 1": "line 1: n is not a column of what the block reads",
    "select any(k > 1) as n, explode(xs) as x from a": "line 1: the generator explode() in an expression",
    "select count(distinct *) as n from b": "line 1: a star inside a function call",
    "select max(*) as n from a": "line 1: a star inside a function call",
    "select distinct k, k from a": "line 1: whole rows are compared, but columns have no names or equal names",
    "select k + 1 from a union select k from b": "line 1: whole rows are compared, but columns have no names or equal names",
    "select distinct * from (select k from a) c join (select k from b) d using (k)": "line 1: whole rows are compared, but columns have no names or equal names",
    "select k from a limit 3": "line 1: LIMIT or OFFSET",
    "select k\nfrom a\noffset 3": "line 3: LIMIT or OFFSET",
    "select a.k from a full outer join b on a.k > b.k": FULL,
    "select a.k from a full outer join b on a.k = b.ok": FULL,
    "select a.k from a full outer join b on a.k = b.k or a.v = b.k": FULL,
    "select a.k from a natural full join (select ok from b) c": FULL,
    "select a.k from a full join b using (k) full join (select ok as k from b) c using (k)": FULL,
    "select a.k from a full join b using (k) full join p on coalesce(a.k, b.ok) = p.k": FULL,
    "select k from a where k in (select k from b limit 2)": "line 1: LIMIT or OFFSET",
    "select k from a where exists (select 1 from b where a.k = other.k)": "line 1: other.k is not a column of what the block reads",
    "select k from a where exists (with c as (select * from b where b.k = a.v) select 1 from c)": "line 1: a.v is not a column of what the block reads",
    # what only ON may name is a column of the query around, or an alias
    "select k from a where exists (select 1 from u left semi join b on u.k = b.k where b.k = name)": "line 1: b.k is a column behind a semi or anti join",
    "select k from a where exists (select 1 from u left anti join a as o on u.k = o.k where v = 1)": "line 1: v is a column behind a semi or anti join",
    "select k as v, v + 1 as n from u left semi join a on u.k = a.k": "line 1: v is a column behind a semi or anti join",
    "select k as v, count(*) as n from u left semi join a on u.k = a.k group by v + 1": "line 1: v is a column behind a semi or anti join",
    "select k from a where k > (select rand() from b)": "line 1: rand() differs from run to run",
    "select k from a where k in (select first(k) from b group by ok)": "line 1: first() cannot be repeated, and decides more than an output value",
    "select (select max(k) from b) as n, count(*) as o from a group by n": "line 1: GROUP BY a subquery",
    "select k, last(ok) over (partition by k) as l from (select k, ok from b order by k, ok) s": "line 1: last() takes rows in the order of a query below it",
    "select k, first(ok) as f from (select k, ok from b sort by ok) s group by k": "line 1: first() takes rows in the order of a query below it",
    "select (select first(ok) from b) as n from a": "line 1: first() cannot be repeated, and decides more than an output value",
    "select max((select first(ok) from b)) as n, k from a group by k": "line 1: first() cannot be repeated, and decides more than an output value",
    "select (select rand() from b) as n from a": "line 1: rand() differs from run to run",
    "select k, count(*) over (partition by (select max(k) from b)) as n from a": "line 1: a subquery",
    "select a.k from a join b on a.k in (select k from b)": "line 1: a subquery",
    # in a subquery Spark reads them as the user of the session
    "select k as `user` from a": "line 1: user is also the name of a function without parentheses",
    "select u.`user`, count(*) as n from u group by 1": "line 1: user is also the name of a function without parentheses",
    "select distinct * from u": "column user of u has the name of a function without parentheses",
    # values from elsewhere
    "select now() as n from a": "line 1: now() differs from run to run",
    "select k from a where rand() < 0.5": "line 1: rand() differs from run to run",
    "select uuid() as n from a": "line 1: uuid() differs from run to run",
    "select unix_timestamp() as n from a": "line 1: unix_timestamp() differs from run to run",
    "select current_date as n from a": "line 1: current_date differs from run to run or from session to session",
    "select k from a where name = current_user": "line 1: current_user differs from run to run or from session to session",
    "select user as n from a": "line 1: user differs from run to run or from session to session",
    "select version() as n from a": "line 1: version() differs from run to run",
    "select aes_encrypt(ok, 'x') as n from b": "line 1: aes_encrypt() differs from run to run",
    "select k from a where timestamp 'now' > v": "line 1: timestamp 'now' differs from run to run",
    "select date'Today ' as n from a": "line 1: date 'Today ' differs from run to run",
    "select _metadata.file_path as n from a": "line 1: a file's _metadata is not part of an input's rows",
    "select input_file_name() as n from a": "line 1: input_file_name() differs from run to run",
    "select '${env:HOME}' as n from a": "${...} is replaced by Spark with a value of the session",
    "select k + rate as n from a": "line 1: rate is not a column of what the block reads",
    "select session.rate as n from a": "line 1: session.rate is not a column of what the block reads",
    "select k from a, (select b.k as o from b where b.k = a.v) c": "line 1: a.v is not a column of what the block reads",
    # what is not known
    "select my_function(k) as n from a": "line 1: my_function() is not a known built-in function; deterministic_functions can allow it",
    "select db.upper(k) as n from a": "line 1: db.upper() is not a known built-in function; deterministic_functions can allow it",
    "select k from c": "line 1: the columns of c are not known",
    "select k from d": "line 1: column _mv_time of d: names with _mv_ are reserved",
    "select k from a where": "line 1: a clause without content",
    "select k from a where k ==== 1": "sqlglot cannot read the text",
    "select k from (a": "line 1: a parenthesis that is not closed",
    "select 'x from a": "a quote or a comment is not closed",
    "select k from a lateral view inline(array(s)) e": "line 1: the columns of inline() have no names",
    # syntax
    "select k from a tablesample (10 percent)": "line 1: TABLESAMPLE",
    "select * from a pivot (max(v) for k in (1, 2))": "line 1: PIVOT",
    "select * from a unpivot (n for c in (k, v))": "line 1: UNPIVOT",
    "select transform(k) using 'cat' as (n) from a": "line 1: TRANSFORM",
    "with recursive r as (select 1 as n union all select n + 1 from r) select * from r": "line 1: a recursive WITH",
    "from a |> where k > 1": "line 1: pipe syntax (|>)",
    "from a select k": "line 1: a query that is not a SELECT",
    "table a": "line 1: a query that is not a SELECT",
    "select k from a version as of 3": "line 1: time travel written by the user",
    "select k from a timestamp as of '2026-01-01'": "line 1: time travel written by the user",
    "select k from a for version as of 3": "line 1: time travel written by the user",
    "select k from a with ('mergeSchema' = 'true')": "line 1: a relation with options",
    "select * from a, lateral (select a.k + 1 as n)": "line 1: a LATERAL subquery: join a derived table by its key, or write a generator itself, as in `lateral explode(x) as e(v)`",
    "select k, n from a join lateral (select max(k) n from b where b.k = a.k) on true": "line 1: a LATERAL subquery: join a derived table by its key, or write a generator itself, as in `lateral explode(x) as e(v)`",
    "select k from lateral explode(array(1)) e(k)": "line 1: LATERAL before all joins",
    "select k from a, lateral db.explode(xs)": "line 1: LATERAL other than with a generator",
    "select k from a, lateral range(k)": "line 1: range() is not a known built-in function; deterministic_functions can allow it",
    "select k from a right join lateral explode(xs) on true": "line 1: a LATERAL join of kind RIGHT JOIN",
    "select k from a left semi join lateral explode(xs) e(x) on x > 1": "line 1: a LATERAL join of kind LEFT SEMI JOIN",
    "select k from a natural join lateral explode(xs) e(k)": "line 1: a LATERAL join of kind NATURAL JOIN",
    "select a.k from a join lateral explode(xs) e(k) using (k)": "line 1: a FROM clause that cannot be analyzed",
    "select k from a left join lateral explode(xs) e(x)": "line 1: LEFT JOIN LATERAL without ON, which Spark takes for an inner join: write ON true",
    "select k from a left outer join lateral posexplode(xs), b": "line 1: LEFT JOIN LATERAL without ON, which Spark takes for an inner join: write ON true",
    "select a.k from a, lateral explode(xs) e(x) join b on b.k = e.x": "line 1: a join behind a LATERAL one: write it behind all other joins of its SELECT, or with what it joins in a derived table",
    "select a.k from a cross join lateral explode(xs), b": "line 1: a join behind a LATERAL one: write it behind all other joins of its SELECT, or with what it joins in a derived table",
    "select a.k from b join (a join lateral explode(xs) e(x) on true) on b.k = e.x": "line 1: a LATERAL join in parentheses: write it behind all other joins of its SELECT, or with what it joins in a derived table",
    "select * from a, lateral inline(array(s))": "line 1: the columns of inline() have no names",
    "select * from f, lateral explode(map(k, k))": "line 1: a generator whose columns have no names, and that is not certain to be over an array: name them, as in `posexplode(x) as (a, b)`",
    "select k from a, lateral explode(transform(xs, x -> rand())) e(x)": "line 1: rand() differs from run to run",
    "select k from a join lateral explode(xs) e(x) on x = rand()": "line 1: rand() differs from run to run",
    "select k from a join lateral explode(xs) e(x) on x in (select k from b)": "line 1: a subquery",
    "select k from a join lateral explode(xs) e(x) on x > other": "line 1: other is not a column of what the block reads",
    # Spark joins with distinct values, of which -0.0 and 0.0 are one
    "select k from f join lateral explode(ds) e(x) on true": "line 1: LATERAL with ON over ds, which is not certain to be of a type without -0.0: write the condition into WHERE, or use LATERAL VIEW [OUTER]",
    "select k from f, lateral explode(array(k)) e(x) left join lateral explode(array(x)) g(y) on true": "line 1: LATERAL with ON over x, which is not certain to be of a type without -0.0: write the condition into WHERE, or use LATERAL VIEW [OUTER]",
    "select struct(*) as n from a": "line 1: a star inside a function call",
    "select coalesce(a.*) as n from a": "line 1: a star inside a function call",
    "select 1 + explode(xs) as n from a": "line 1: the generator explode() in an expression",
    "select inline(array(s)) from a": "line 1: a generator whose columns have no names, and that is not certain to be over an array: name them, as in `posexplode(x) as (a, b)`",
    "select stack(2, k, v) from a": "line 1: a generator whose columns have no names, and that is not certain to be over an array: name them, as in `posexplode(x) as (a, b)`",
    "select posexplode(xs) as (p, x), count(*) over (partition by k) as n from a": "line 1: the generator posexplode() in an expression",
    "select 1 + posexplode(xs) as p from a": "line 1: the generator posexplode() in an expression",
    "select k from a order by k limit greatest(1, 2)": "line 1: two parsers read the text differently",
    "select k from a order by k + 1 limit 1": "line 1: LIMIT or OFFSET",
    "select x.k from b join (select k, v from a order by k limit 1) x on b.k = x.k": "line 1: LIMIT over ties cannot be repeated, and decides more than an output value",
    "select k, first(v) as n from a group by k\nunion select k, v from a\norder by k limit 3": "line 1: first() cannot be repeated, and decides more than an output value",
    "select k as _mv_time from a": "line 1: the name _mv_time: names with _mv_ are reserved",
    "select k from a where ok collate UNICODE = 'x'": "line 1: a collation",
    # types
    "select raw from b": "column raw of b is of type variant, which cannot be compared",
    "select k from b where name = 'x'": "column name of b has a collation",
    "select k from p where code in (select ok from b)": "column code of p is of type char(5), which Spark pads to compare it",
    "select codes from p": "column codes of p is of type array<char(2)>, which Spark pads to compare it",
}  # fmt: skip


def analysed(query: str, **options: object) -> Analysed | NotIncremental:
    return analyse(query, lambda name: COLUMNS.get(name.lower()), **options)


@pytest.mark.parametrize("query", REFUSED)
def test_a_query_that_is_refused_is_never_taken_for_unchanged(query):
    assert analysed(query) == NotIncremental(REFUSED[query])


def doubling(steps: int) -> str:
    """Each CTE reads the one before it in two places."""
    ctes = [f"c{n} as (select p.k from c{n - 1} p join c{n - 1} q on p.k = q.k)" for n in range(1, steps + 1)]
    return f"with c0 as (select k from a), {', '.join(ctes)} select k from c{steps}"


def test_what_reads_a_relation_in_very_many_places_is_refused_at_once():
    assert isinstance(analysed(doubling(8)), Analysed)
    too_many = "line 1: relations are read in more than 500 places, through CTEs or views"
    assert analysed(doubling(9)) == analysed(doubling(60)) == NotIncremental(too_many)
    assert analysed(f"select k from a where k in ({doubling(60)})") == NotIncremental(too_many)


FROM_ELSEWHERE = ("differs from run to run", "a value of the session", "is not a built-in function")


@pytest.mark.parametrize("query", [q for q, why in REFUSED.items() if any(e in why for e in FROM_ELSEWHERE)])
def test_values_from_elsewhere_are_never_said_to_be_unchanged_either(query):
    """The run that asks whether its inputs are unchanged judges by words alone: as strictly."""
    assert uncertain(query)


@pytest.mark.parametrize(
    "query",
    [
        "select k, unix_timestamp(ok) as n from b",
        "select filter(xs, x -> x > k) as n, s.x, a.s.x as y from a",
        "select k, date '2026-01-01' as d, explode(xs) as x from a",
        "select `now`.k from a as `now`",
        "select k as n, n + 1 as o from a",
        "select k from a -- limit 3",
        "select 'now()' as n, `k` from a;",
        "select left(ok, 2) as n, if(k > 1, 2, 3) as o, k div 2 as p, cast(k as decimal(10, 2)) as q from b",
    ],
)
def test_what_only_looks_like_it_is_not_refused(query):
    assert isinstance(analysed(query), Analysed)


def test_functions_that_are_declared_deterministic_are_allowed():
    query = "select My_Function(k) as n, db.other(v) as o from a"
    assert isinstance(analysed(query, deterministic_functions=["my_function", "DB.other"]), Analysed)


@pytest.mark.parametrize(
    "query",
    [
        f"select k, {NOW} as n from a",
        f"select * from a join b on a.k = b.k and {NOW} > timestamp '2026-01-01'",
        f"select k, n from a lateral view explode(array({NOW})) e as n",
        f"select k, n from a, lateral explode(array({NOW})) as e(n)",
        f"select k, n from a left join lateral explode(array(k)) as e(n) on {NOW} > timestamp '2026-01-01'",
        f"select * from (select k, {NOW} as n from a) where n > timestamp '2026-01-01'",
    ],
)
def test_mv_now_outside_where_is_refused_when_time_passes(query):
    columns = {"a": COLUMNS["a"][:2], "b": COLUMNS["b"][:1]}
    outcome = analyse(query, columns.get)
    assert isinstance(outcome, Analysed)
    changed = {"a": Sides("select 1", "select 2", "select 3")}
    refused = delta(outcome, changed, (1000, 2000))
    assert refused == NotIncremental("line 1: mv_now() outside WHERE, and its value changed")
    assert not isinstance(delta(outcome, changed), NotIncremental)


@pytest.mark.parametrize("items", ["`k`", "`k` as n, v", "(k) as n"])
def test_distinct_may_stand_before_a_quoted_name(items):
    assert analysed(f"select distinct {items} from a").relations["a"][0] == "k"


def test_a_change_of_a_relation_that_the_query_does_not_read_is_a_mistake_of_the_caller():
    outcome = analysed("select k from a")
    with pytest.raises(ValueError, match="the query does not read db.b"):
        delta(outcome, {"db.b": Sides("", "", "")})
