"""Which rows decide a test: of its text, as dbt compiles it."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.user_sql.deciding_rows import DecidingRows, deciding_rows

M = "`dev`.`orders`"
FILTERED = f"(select * from {M} where status = 'paid') dbt_subquery"
ROWS = DecidingRows()


def not_null(column, relation=M, items=None):
    return f"\n\nselect {items or column}\nfrom {relation}\nwhere {column} is null\n\n"


def accepted(column, values, relation=M):
    return f"""
with all_values as (

    select
        {column} as value_field,
        count(*) as n_records

    from {relation}
    group by {column}

)

select *
from all_values
where value_field not in (
    {values}
)
"""


def unique(column, relation=M):
    return f"""
select
    {column} as unique_field,
    count(*) as n_records

from {relation}
where {column} is not null
group by {column}
having count(*) > 1
"""


def relationship(column, parent="`dev`.`customers`", field="id", relation=M):
    return f"""
with child as (
    select {column} as from_field
    from {relation}
    where {column} is not null
),

parent as (
    select {field} as to_field
    from {parent}
)

select
    from_field

from child
left join parent
    on child.from_field = parent.to_field

where parent.to_field is null
"""


NARROWED = {
    "not_null": (not_null("id"), ROWS),
    "not_null of a quoted name": (not_null("`my id`"), ROWS),
    "not_null that stores failures": (not_null("id", items="*"), ROWS),
    "not_null with a where": (not_null("id", FILTERED), ROWS),
    "accepted_values": (accepted("status", "'a','b'"), ROWS),
    "accepted_values that are numbers": (accepted("status", "1,-2, 3.5"), ROWS),
    "accepted_values with a where": (accepted("status", "'a'", FILTERED), ROWS),
    "accepted_values with a sign of ours": (accepted("status", "'<relation>', 'l0'"), ROWS),
    "unique": (unique("id"), DecidingRows(key="id")),
    "unique, quoted": (unique("`group`"), DecidingRows(key="`group`")),
    "unique of an expression": (unique("concat(a, '-', `b c`)"), DecidingRows(key="concat(a, '-', `b c`)")),
    "unique of a case": (unique("(case when a then b end)"), DecidingRows(key="(case when a then b end)")),
    "unique with a where": (unique("id", FILTERED), DecidingRows(key="id")),
    "relationships": (relationship("customer_id"), DecidingRows(parent="`dev`.`customers`")),
    "relationships with a where": (relationship("c", relation=FILTERED), DecidingRows(parent="`dev`.`customers`")),
    "an expression": (f"select 1 from {M} where not(amount >= 0)", ROWS),
    "a singular test": (f"select id, upper(name) n from {M} where length(name) > 3 and a in (1, 2)", ROWS),
    "without a filter": (f"select * from {M}", ROWS),
    "names of clauses in quotes": (f"select `distinct` from {M} where `group` = 'order by'", ROWS),
    "a comment": (f"-- group by\nselect 1 from {M} where a < 0 /* over () */", ROWS),
}  # fmt: skip


@pytest.mark.parametrize(("query", "rows"), NARROWED.values(), ids=NARROWED)
def test_these_are_decided_by_added_rows(query, rows):
    assert deciding_rows(query, M) == rows


ALL = {
    "an aggregate": (f"select sum(a) s from {M}", "more than one row"),
    "an aggregate in a filter": (f"select 1 from {M} having count(*) > 9", "more than one row"),
    "rows too few": (f"select count(*) n from {M} where a = 1", "more than one row"),
    "a window": (f"select row_number() over (order by a) from {M}", "more than one row"),
    "a join": (f"select 1 from {M} join b using (id)", "more than one row"),
    "a comma join": (f"select 1 from {M}, b where a = b", "more than one row"),
    "a subquery": (f"select 1 from {M} where a not in (select a from b)", "more than one row"),
    "exists": (f"select 1 from {M} where not exists (select 1 from b)", "more than one row"),
    "distinct": (f"select distinct a from {M}", "more than one row"),
    "a limit": (f"select a from {M} where a < 0 limit 5", "more than one row"),
    "a generator": (f"select explode(xs) from {M}", "more than one row"),
    "twice": (f"select 1 from {M} where a < 0 union all select 2 from {M}", "2 times"),
    "not at all": ("select 1 from b", "0 times"),
    "the clock": (f"select 1 from {M} where at > current_timestamp()", "current_timestamp"),
    "the clock without parentheses": (f"select 1 from {M} where d > current_date", "current_date"),
    "chance": (f"select 1 from {M} where rand() < a", "rand"),
    "another's function": (f"select 1 from {M} where is_bad(a)", "is_bad"),
    "a where with a subquery": (not_null("id", f"(select * from {M} where a in (select 1)) dbt_subquery"), "more than one row"),
    "another subquery": (f"select 1 from (select a from {M}) x where a < 0", "more than one row"),
    "a subquery with a limit": (f"select 1 from (select * from {M} where true limit 5) dbt_subquery", "more than one row"),
    "accepted values of another table": (accepted("a", "select x from b"), "more than one row"),
    "accepted values of a function": (accepted("a", "lower('X')"), "more than one row"),
    "unique of an aggregate": (unique("max(a)"), "more than one row"),
    "unique of a subquery": (unique("(select max(x) from b)"), "more than one row"),
    "unique, but twice are allowed": (unique("id").replace("> 1", "> 2"), "more than one row"),
    "unique of another column than grouped": (unique("id").replace("group by id", "group by b"), "more than one row"),
    "relationships to itself": (relationship("a", M), "2 times"),
    "relationships to a filtered parent": (relationship("a", "(select * from c where d)"), "more than one row"),
    "at least one": (f"select 1 from (select count(b) c from {M} having count(b) = 0) x", "more than one row"),
    "a table as a query": (f"select * from (table {M}) where a < 0", "as a whole"),
    "an open quote": (f"select 'a from {M}", "not closed"),
}  # fmt: skip


@pytest.mark.parametrize(("query", "reason"), ALL.values(), ids=ALL)
def test_these_need_all_rows(query, reason):
    answer = deciding_rows(query, M)
    assert isinstance(answer, str)
    assert reason in answer
