"""Which rows of a relation the query's own conditions keep."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.incremental import Analysed, analyse, filters

COLUMNS = {
    "f": {"id": "bigint", "d_id": "int", "day": "date", "state": "string", "paid": "boolean", "x": "double", "at": "timestamp"},
    "d": {"id": "int", "kind": "string"},
    "e": {"id": "int", "n": "tinyint", "name": "varchar(10)"},
}  # fmt: skip


def kept(query: str) -> dict[str, str]:
    """The filters in words."""
    analysed = analyse(query, lambda name: list(COLUMNS[name.split(".")[-1].strip("`").lower()].items()))
    assert isinstance(analysed, Analysed), analysed
    return {
        name: " or ".join(
            " and ".join(f"{each.column} {each.operator} {', '.join(map(str, each.values))}" for each in alternative)
            for alternative in kept.alternatives
        )
        for name, kept in filters(analysed).items()
    }  # fmt: skip


COMPARED = [
    ("id = 5", "id = 5"),
    ("5 <= id", "id >= 5"),
    ("(id) < (-5)", "id < -5"),
    ("not id = 5", ""),
    ("id <> 5 and state != 'x'", "id <> 5 and state <> x"),
    ("id between 1 and 9", "id >= 1 and id <= 9"),
    ("id not between 1 and 9", ""),
    ("id in (1, 2)", "id in 1, 2"),
    ("id in (1, null)", ""),
    ("id not in (1, 2)", ""),
    ("id = 5.0", ""),
    ("id = '5'", ""),
    ("id <=> 5", ""),
    ("id > d_id", ""),
    ("id + 1 = 5", ""),
    ("id = 1 or d_id = 2", ""),
    ("d_id < 3000000000", ""),
    ("d_id < 2147483647", "d_id < 2147483647"),
    ("day >= date'2024-02-29' and day < '2025-01-01'", "day >= 2024-02-29 and day < 2025-01-01"),
    ("day = cast('2024-01-01' as date)", "day = 2024-01-01"),
    ("day = '2024-2-1'", ""),
    ("day = '2024-02-30'", ""),
    ("day > date'2024-01-01' + interval 1 day", ""),
    ("state = 'it''s'", ""),
    ("state = 'a\\'b'", ""),
    ('state = "a"', ""),
    ("state = 'ä b'", "state = ä b"),
    ("lower(state) = 'a'", ""),
    ("paid", "paid = True"),
    ("not paid and paid = true", "paid = False and paid = True"),
    ("x > 1", ""),
    ("at > '2024-01-01'", ""),
    (f"id in ({', '.join(map(str, range(101)))})", ""),
]


@pytest.mark.parametrize(("condition", "expected"), COMPARED)
def test_comparisons_of_a_column_with_constants_of_its_type_are_filters(condition, expected):
    assert kept(f"select id from f where {condition}") == ({"f": expected} if expected else {})


JOINS = [
    ("f join d on f.d_id = d.id and d.kind = 'a' and f.id > 1", {"d": "kind = a", "f": "id > 1"}),
    ("f left join d on f.d_id = d.id and d.kind = 'a' and f.id > 1", {"d": "kind = a"}),
    ("f right join d on f.d_id = d.id and d.kind = 'a' and f.id > 1", {"f": "id > 1"}),
    ("f left semi join d on f.d_id = d.id and d.kind = 'a' and f.id > 1", {"d": "kind = a"}),
    ("f left anti join d on f.d_id = d.id and d.kind = 'a' and f.id > 1", {"d": "kind = a"}),
    ("f full join d on f.d_id = d.id and d.kind = 'a' and f.id > 1", {}),
    ("f left join d on f.d_id = d.id where d.kind = 'a'", {"d": "kind = a"}),
    ("f full join d on f.d_id = d.id where d.kind = 'a'", {"d": "kind = a"}),
    ("f left join (d left join e on d.id = e.id) on f.d_id = d.id and e.n = 1", {"e": "n = 1"}),
    ("f left join (d join e on d.id = e.id and e.n = 1) on f.d_id = d.id", {"e": "n = 1"}),
    ("e where name = 'a'", {}),
]


@pytest.mark.parametrize(("source", "expected"), JOINS)
def test_a_condition_filters_the_side_that_must_fulfil_it(source, expected):
    assert kept(f"select 1 as one from {source}") == expected


BELOW = [
    # every place where a relation is read has its own
    ("select id from f where id = 1 union all select id from f where id = 2 and paid", {"f": "id = 1 or id = 2 and paid = True"}),
    ("select id from f where id = 1 union all select id from f", {}),
    ("select id from f where id = 1 and exists (select 1 from f g where g.paid)", {"f": "id = 1 or paid = True"}),
    ("select id from d where id in (select d_id from f where paid) and kind = 'a'", {"d": "kind = a", "f": "paid = True"}),
    ("select d.id, (select max(f.id) from f where f.paid and f.d_id = d.id) m from d", {"f": "paid = True"}),
    # through CTEs and derived tables, under other names
    ("with s as (select *, id + 1 as next from f where paid) select id from s where day > '2024-01-01' and next = 5",
     {"f": "day > 2024-01-01 and paid = True"}),
    ("with s as (select id as k from f) select t.k from s as t(k) where t.k = 1", {"f": "id = 1"}),
    ("with s as (select * from f) select a.id from s a join s b on a.id = b.id where a.id = 1 and b.paid", {"f": "id = 1 or paid = True"}),
    ("with s as (select * from f) select id from s where id = 1 union all select id from s", {}),
    ("select k from (select id as k from d union all select d_id from f) u where k = 1", {"d": "id = 1", "f": "d_id = 1"}),
    ("select k from (select id as k from f union all select id from d) u where k = 1", {}),  # bigint and int
    ("select k from (select cast(id as int) k from f) u where k = 1", {}),
    # of groups and windows only keys are
    ("select n from (select d_id, count(*) n from f group by d_id) g where d_id = 1", {"f": "d_id = 1"}),
    ("select n from (select d_id, max(id) n from f group by d_id) g where n = 1", {}),
    ("select id from (select id, d_id, row_number() over (partition by d_id order by id) r from f) w where d_id = 1 and r = 1", {"f": "d_id = 1"}),
    ("select id from (select id, d_id, row_number() over (partition by d_id order by id) r from f) w where id = 1 and r = 1", {}),
    ("select id from (select distinct id, d_id from f) t where id = 1", {"f": "id = 1"}),
    ("select d_id, count(*) n from f where paid group by d_id having count(*) > 1", {"f": "paid = True"}),
]  # fmt: skip


@pytest.mark.parametrize(("query", "expected"), BELOW)
def test_a_row_matters_if_it_does_in_one_of_the_places_where_it_is_read(query, expected):
    assert kept(query) == expected


def test_names_are_those_of_the_relation():
    assert kept("select v.K from DB.f as v(K, b, c, d, P, g, h) where v.k = 1 and v.p") == {
        "DB.f": "id = 1 and paid = True"
    }


def test_what_is_read_in_very_many_places_has_no_filter():
    steps = [
        f"s{number} as (select a.id from s{number - 1} a join s{number - 1} b on a.id = b.id where a.id <> {number} and b.id > 0)"
        for number in range(1, 9)
    ]
    text = f"with s0 as (select id from f), {', '.join(steps)} select id from s8"
    assert kept(text) == {}
    few = f"with s0 as (select id from f), {', '.join(steps[:2])} select id from s2"
    assert kept(few) == {"f": "id <> 2 and id <> 1 or id > 0 or id > 0 and id <> 1"}
