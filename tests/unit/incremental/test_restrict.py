"""Which rows can matter to a change, by the keys of the changes."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.incremental import Analysed, Keys, analyse, basis

COLUMNS = {"f": ["id", "d_id", "e_id"], "d": ["id", "g_id"], "e": ["id", "code"], "g": ["id"]}
JOINED = "select f.id from f {} join d on f.d_id = d.id {} join e on f.e_id = e.id"


def needed(
    query: str, *changed: str, types: dict[str, str] | None = None, added: bool = False
) -> dict[str, object]:
    kinds = types or {}
    columns = {
        name: [(column, kinds.get(f"{name}.{column}", "int")) for column in each]
        for name, each in COLUMNS.items()
    }
    analysed = analyse(query, lambda name: columns[name.split(".")[-1]])
    assert isinstance(analysed, Analysed), analysed
    return {
        name: keys if keys is None else {(key.column, f"{key.changed}.{key.changed_column}") for key in keys}
        for name, keys in basis(analysed, changed, added=added).needed.items()
    }


@pytest.mark.parametrize(
    "query, changed, expected",
    [
        # a changed fact: the keys of its change in each dimension, nothing of the fact itself
        (JOINED.format("", "left"), ["f"], {"f": set(), "d": {("id", "f.d_id")}, "e": {("id", "f.e_id")}}),
        # a changed dimension: its keys in the fact; no equality of its change reaches the other
        (JOINED.format("", "left"), ["d"], {"f": {("d_id", "d.id")}, "d": set(), "e": None}),
        # the padded side is read as it is and as it was, too
        (JOINED.format("", "left"), ["e"], {"f": {("e_id", "e.id")}, "d": None, "e": {("id", "e.id")}}),
        (JOINED.format("left semi", "left anti"), ["d"], {"f": {("d_id", "d.id")}, "d": {("id", "d.id")}, "e": None}),
        # and all of its rows that the other side's may match
        (
            "select e.id from f right join (d right join e on d.id = e.code) on f.id = d.g_id",
            ["d"],
            {"f": {("id", "d.g_id")}, "d": {("id", "d.id")}, "e": {("code", "d.id")}},
        ),
        ("select e.id from e left join (d join f on d.g_id = f.d_id) on e.code = d.id", ["d"], {"e": {("code", "d.id")}, "d": {("id", "d.id")}, "f": None}),
        # several inputs: one of the alternatives
        (JOINED.format("", ""), ["f", "d"], {"f": {("d_id", "d.id")}, "d": {("id", "f.d_id")}, "e": None}),
        ("select f.id from f, d where f.d_id = d.id or f.id = 1", ["d"], {"f": None, "d": set()}),
        ("select f.id from f join d on f.d_id = d.id and d.id > 2 where d.g_id = 1", ["f"], {"f": set(), "d": {("id", "f.d_id")}}),
        # through CTEs and derived tables, under other names
        (
            "with s as (select * from f), t as (select id as key from d) select s.id from s join t as u(k) on s.d_id = u.k",
            ["f"],
            {"f": set(), "d": {("id", "f.d_id")}},
        ),
        (
            "select f.id from f join (select id from d union all select g_id from d union all select code from e) u on u.id = f.id",
            ["f"],
            {"f": set(), "d": {("id", "f.id"), ("g_id", "f.id")}, "e": {("code", "f.id")}},
        ),
        ("select f.id from f join (select id + 1 as id from d) u on u.id = f.id", ["f"], {"f": set(), "d": None}),
        # a chain of equalities, but none out of a left join by the condition it came in by
        ("select 1 as n from d join f on d.id = f.d_id join e on e.code = d.id", ["f"], {"d": {("id", "f.d_id")}, "f": set(), "e": {("code", "f.d_id")}}),
        (
            "select 1 as n from f left join d on f.d_id = d.id and f.e_id = d.id join g on g.id = f.e_id",
            ["f"],
            {"f": set(), "d": {("id", "f.e_id")}, "g": {("id", "f.e_id")}},
        ),
        (
            "select 1 as n from f left join d on f.d_id = d.id and f.e_id = d.id join g on g.id = f.e_id join e on e.id = f.d_id",
            ["g"],
            {"f": {("e_id", "g.id")}, "d": {("id", "g.id")}, "g": set(), "e": None},
        ),
        # of a branch of UNION ALL that does not change, no row is read
        ("select id from f union all select id from d", ["f"], {"f": set(), "d": set()}),
        ("select x.id from f as x join f as y on x.id = y.d_id", ["f"], {"f": {("d_id", "f.id"), ("id", "f.d_id")}}),
    ],
)  # fmt: skip
def test_rows_that_can_matter(query, changed, expected):
    assert needed(query, *changed) == expected


def test_equality_between_types_connects_nothing():
    """For '1' = 1 and 1 = '01'."""
    query = "select 1 as n from d join f on d.id = f.d_id join e on e.code = d.id"
    assert needed(query, "f", types={"d.id": "string"}) == {"d": None, "f": set(), "e": None}


def test_names_are_those_of_the_text():
    analysed = analyse(
        "select f.id from DB.f as f join d on D_ID = d.id",
        lambda name: [("id", "int")] + ([("D_Id", "int")] if "f" in name else []),
    )
    assert basis(analysed, ["db.F"]).needed == {"DB.f": (), "d": (Keys("id", "DB.f", "d_id"),)}


@pytest.mark.parametrize(
    "query",
    [
        "select f.id from f full join d on f.d_id = d.id",
        "select f.id from f join d on f.d_id = d.id where (exists (select 1 from f as g where g.id = d.id) or f.id = 1)",
        "select count(*) as n from f join d on f.d_id = d.id",
        "select distinct d.id + 1 as n from f join d on f.id = d.g_id",
        "select d_id + 1 as n from f intersect select id from d",
    ],
)
def test_where_it_is_not_known_every_row_may_matter(query):
    assert needed(query, "f") == {"f": None, "d": None}


GROUPED = "select f.d_id, count(*) as n from f {} join d on f.d_id = d.id group by f.d_id"
KEYED = {("d_id", "f.d_id", True)}


@pytest.mark.parametrize(
    "query, changed, expected",
    [
        # groups, windows and DISTINCT: by a key of the changes
        (GROUPED.format(""), ["f"], {"f": KEYED, "d": {("id", "f.d_id", True)}}),
        (GROUPED.format("left"), ["d"], {"f": {("d_id", "d.id", True)}, "d": {("id", "d.id", True)}}),
        ("select *, count(*) over (partition by e_id, d_id) as n, rank() over (partition by d_id order by id) as r from f", ["f"], {"f": KEYED}),
        ("select distinct d_id from f", ["f"], {"f": KEYED}),
        # one key of several that is known will do; none is
        ("select g_id, d_id, count(*) as n from f join d on f.d_id = d.id group by g_id, d_id", ["f"], {"f": KEYED, "d": {("id", "f.d_id", True)}}),
        ("select g_id, count(*) as n from f join d on f.d_id = d.id group by g_id", ["f"], {"f": None, "d": None}),
        # never a key of the padded side of a left join
        ("select d.id, count(*) as n from f left join d on f.d_id = d.id group by d.id", ["f"], {"f": None, "d": None}),
        # set operators by place
        ("select id, d_id from f except select id, g_id from d", ["f"], {"f": {("id", "f.id", True)}, "d": {("id", "f.id", True)}}),
        # from above, into keys and into the PARTITION BY that all windows share
        ("select e.id, n from e join (select d_id, count(*) as n from f group by d_id) c on e.code = c.d_id", ["e"], {"e": set(), "f": {("d_id", "e.code", False)}}),
        ("select e.id, n from e join (select d_id, e_id, count(*) over (partition by d_id) as n from f) c on e.code = c.e_id", ["e"], {"e": set(), "f": None}),
        ("select e.id, n from e join (select d_id, count(*) as n from f group by d_id) c on e.code = c.n", ["e"], {"e": set(), "f": None}),
        ("select e.id from e join (select distinct d_id from f) c on e.code = c.d_id", ["e"], {"e": set(), "f": {("d_id", "e.code", False)}}),
        # and from below: the keys of a nested block's change
        ("select e.id, n from e join (select d_id, count(*) as n from f group by d_id) c on e.code = c.d_id", ["f"], {"e": {("code", "f.d_id", False)}, "f": KEYED}),
    ],
)  # fmt: skip
def test_rows_of_the_keys_matter(query, changed, expected):
    columns = {name: [(column, "int") for column in each] for name, each in COLUMNS.items()}
    analysed = analyse(query, columns.get)
    assert isinstance(analysed, Analysed), analysed
    matter = basis(analysed, changed, nulls=True).needed
    assert {
        name: keys
        if keys is None
        else {(key.column, f"{key.changed}.{key.changed_column}", key.nulls) for key in keys}
        for name, keys in matter.items()
    } == expected
    # for a caller that does not heed NULLs as keys
    plain = basis(analysed, changed).needed
    assert all(
        plain[name] is None for name, keys in matter.items() if keys is None or any(key.nulls for key in keys)
    )


def test_when_time_passes_every_row_may_matter():
    now = "timestamp_millis(5000L) /* mv_now */"
    query = f"select f.id from f join d on f.d_id = d.id where d.g_id > year({now})"
    analysed = analyse(query, lambda name: [(column, "int") for column in COLUMNS[name]])
    assert basis(analysed, ["f"], (1000, 2000)).needed == {"f": None, "d": None}
    assert basis(analysed, ["f"]).needed == {"f": (), "d": (Keys("id", "f", "d_id"),)}


def test_of_sums_that_are_added_no_group_is_evaluated_again():
    """Only what joins with a change is read. To evaluate groups again, all is: no change has the
    values of their key.
    """
    query = (
        "select e.code, sum(f.id) s from f join d on f.d_id = d.id join e on f.e_id = e.id group by e.code"
    )
    assert needed(query, "f", "d") == {"f": None, "d": None, "e": None}
    assert needed(query, "f", "d", added=True) == {
        "f": {("d_id", "d.id")},
        "d": {("id", "f.d_id")},
        "e": None,
    }
    assert needed("select id, count(*) n from f group by id", "f", added=True) == {"f": set()}


def test_groups_below_sums_that_are_added_are_evaluated_again():
    query = "select n, count(*) c from (select d_id, count(*) n from f group by d_id) g group by n"
    assert needed(query, "f", added=True) == {"f": None}
    analysed = analyse(query, lambda name: [(column, "int") for column in COLUMNS[name]])
    assert isinstance(analysed, Analysed)
    assert basis(analysed, ["f"], nulls=True, added=True).needed == {
        "f": (Keys("d_id", "f", "d_id", nulls=True),)
    }


BETWEEN = "select g.id from f join d on f.d_id = d.id join g on d.g_id = g.id"
REACHED = Keys("id", "d", "g_id", reached=True)


def reached(query: str) -> dict[str, object]:
    columns = {name: [(column, "int") for column in each] for name, each in COLUMNS.items()}
    analysed = analyse(query, columns.__getitem__)
    assert isinstance(analysed, Analysed), analysed
    return dict(basis(analysed, ["f"], reached=True).needed)


def test_values_in_the_rows_between_reach_a_relation_that_no_equality_connects_with_the_change():
    assert reached(BETWEEN) == {"f": (), "d": (Keys("id", "f", "d_id"),), "g": (REACHED,)}
    assert needed(BETWEEN, "f") == {"f": set(), "d": {("id", "f.d_id")}, "g": None}


def test_rows_between_that_are_read_in_full_reach_nothing():
    """``d`` has a key of the change, and is read in full for the sake of ``e``."""
    by_e = "select d.id from f join e on f.e_id = e.id join d on e.code = d.id"
    both = reached(f"{BETWEEN} union all {by_e}")
    assert both["g"] == (REACHED,)
    assert both["d"] == (Keys("id", "e", "code", reached=True), Keys("id", "f", "d_id"))
    every_e = "select e.id from f cross join e"
    whole = reached(f"{BETWEEN} union all {by_e} union all {every_e}")
    assert whole == {"f": (), "d": None, "e": None, "g": None}
