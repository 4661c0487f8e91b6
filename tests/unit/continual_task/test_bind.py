"""What runs for a statement: the user's text with its relations bound, inside the query that makes
a delta of it.
"""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.continual_task.bind import (
    StatementBindings,
    analysed,
    assigned,
    bind,
    bound,
    delta,
    groups,
)
from dbt.adapters.mvsink.continual_task.parse import parse
from dbt.adapters.mvsink.continual_task.statements import Delete, Insert, Merge, Update
from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.shard_sql.current_view import Apart

COLUMNS = (Column("key", parse_type("int", "")), Column("a b", parse_type("array<string>", "")))
BINDINGS = StatementBindings(
    "IN",
    "THIS",
    "DEL",
    {"db.shard": "SHARD", "DB.X": "not this", "`db`.t": "nor this"},
    now=7,
    contents="ALL",
)


def line(text: str) -> str:
    return " ".join(text.split())


def made(statement: str, ctes: str = "") -> str:
    program = parse(f"{ctes} on input db.x as (\n{statement}\n)", "db.t", "my_task")
    return line(delta(program, program.statements[0], COLUMNS, "CONTENTS", BINDINGS))


BOUND = [
    ("select * from db.x", "select * from ( IN ) as `x`"),
    ("select * from `DB`.X d", "select * from ( IN ) d"),
    ("select * from db.x /* mv_deletes */", "select * from ( DEL ) as `x` /* mv_deletes */"),
    ("select * from db.x i join db.x /* mv_deletes */ d", "select * from ( IN ) i join ( DEL ) /* mv_deletes */ d"),
    ("select * from (select * from db.x where false limit 0) /* mv_deletes */ d",
     "select * from (select * from ( DEL ) as `x` where false limit 0) /* mv_deletes */ d"),
    ("select * from db.x /* mv_contents */ w join db.x /* mv_deletes */ join db.x i",
     "select * from ( ALL ) /* mv_contents */ w join ( DEL ) as `x` /* mv_deletes */ join ( IN ) i"),
    ("select * from (select * from db.x where false limit 0) /* mv_contents */ d",
     "select * from (select * from ( ALL ) as `x` where false limit 0) /* mv_contents */ d"),
    ("select * from db.t, db.shard", "select * from ( THIS ) as `t`, ( SHARD ) as `shard`"),
    ("select * from db.plain", "select * from db.plain"),
    ("select timestamp_millis(1700000000000L) /* mv_now */", "select timestamp_millis(7L) /* mv_now */"),
    ("select 'db.x' -- db.x", "select 'db.x' -- db.x"),
]  # fmt: skip


@pytest.mark.parametrize("text, expected", BOUND)
def test_what_relations_mean_in_a_statement(text, expected):
    program = parse("on input db.x as (delete from db.t)", "db.t", "my_task")
    assert line(bind(program, text, BINDINGS)) == expected


@pytest.mark.parametrize(
    "mark, words", [("mv_deletes", "the deleted rows"), ("mv_contents", "the whole contents")]
)
def test_rows_of_the_input_that_are_not_bound_are_an_error(mark, words):
    program = parse("on input db.x as (delete from db.t)", "db.t", "my_task")
    with pytest.raises(ValueError, match=f"my_task reads {words} of its input, but they are not bound"):
        bind(program, f"select * from db.x /* {mark} */", StatementBindings("IN", "THIS"))


NEW_KEY = "'key', cast( {} as int), 'a b', cast(`{}`.`a b` as array<string>)"
SIDES = (
    "select if(_mv_side, _mv_new.`key`, `key`) `key`, if(_mv_side, _mv_new.`a b`, `a b`) `a b`, {} _mv_diff from ( {} ) `_mv_changed` "
    "lateral view explode(if(_mv_new._mv_kept, array(false, true), array(false))) _mv_sides as _mv_side"
)
SIGN = "if(_mv_side, _mv_diff, -_mv_diff)"
SEVERAL = (
    "concat('[MERGE_CARDINALITY_VIOLATION] MERGE: ', _mv_matches, ' source rows match one row of the target: ', 'key = ', "
    "coalesce(replace(translate(left(cast(`key` as string), 100), concat(chr(10), chr(13)), ' '), 'SQLSTATE', 'sqlstate'), 'NULL'), "
    "'. SQLSTATE: 23K01')"
)
CHECKED = f"case when _mv_matches > 1 then raise_error({SEVERAL}) else {SIGN} end"
OLD = "`{0}`.`key`, `{0}`.`a b`, `{0}`._mv_diff"
NO_NEW = "named_struct('_mv_kept', false, 'key', cast(null as int), 'a b', cast(null as array<string>))"
NUMBERED = "( select *, monotonically_increasing_id() _mv_target from ( CONTENTS ) `_mv_contents` ) `t`"
COUNTED = (
    "select *, count(*) over (partition by _mv_target) _mv_matches from ( {} ) where _mv_new is not null"
)
MERGE = "merge into db.t using db.x on t.key = db.x.key"

DELTAS = [
    ("insert into db.t select * from db.x",
     "select cast(_mv_0 as int) `key`, cast(_mv_1 as array<string>) `a b`, 1L _mv_diff from "
     "( select * from ( IN ) as `x` ) `_mv_insert`(_mv_0, _mv_1)"),
    ("insert into db.t (`A b`) values (array('x'))",
     "select cast(null as int) `key`, cast(_mv_0 as array<string>) `a b`, 1L _mv_diff from ( values (array('x')) ) `_mv_insert`(_mv_0)"),
    ("delete from db.t", "select `key`, `a b`, -_mv_diff _mv_diff from ( CONTENTS ) `t`"),
    ("delete from db.t where db.t.key in (select key from db.x where x.key = t.key)",
     "select `key`, `a b`, -_mv_diff _mv_diff from ( CONTENTS ) `t` where ( "
     "`t`.key in (select key from ( IN ) as `x` where x.key = t.key) )"),
    ("delete from db.t as o where o.key = 1 -- one", "select `key`, `a b`, -_mv_diff _mv_diff from ( CONTENTS ) `o` where ( o.key = 1 )"),
    ("delete from db.t where key < (select max(key) from db.t)",
     "select `key`, `a b`, -_mv_diff _mv_diff from ( CONTENTS ) `t` where ( key < (select max(key) from ( THIS ) as `t`) )"),
    ("update db.t set key = db.t.key + 1 where key > 0",
     SIDES.format(SIGN, "select `t`.`key`, `t`.`a b`, _mv_diff, named_struct('_mv_kept', true, "
                  + NEW_KEY.format("`t`.key + 1", "t") + ") _mv_new from ( CONTENTS ) `t` where ( key > 0 )")),
    ("update db.t o set o.KEY = default",
     SIDES.format(SIGN, "select `o`.`key`, `o`.`a b`, _mv_diff, named_struct('_mv_kept', true, 'key', cast(null as int), 'a b', "
                  "cast(`o`.`a b` as array<string>)) _mv_new from ( CONTENTS ) `o`")),
    (f"{MERGE} when matched then delete",
     "select `key`, `a b`, -_mv_diff _mv_diff from ( CONTENTS ) `t` left semi join ( IN ) `x` on ( t.key = `x`.key )"),
    (f"{MERGE} when matched and db.x.v > 1 then update set key = db.x.v when matched then delete",
     SIDES.format(CHECKED, COUNTED.format(
         f"select {OLD.format('t')}, _mv_target, case when ( `x`.v > 1 ) then named_struct('_mv_kept', true, "
         f"{NEW_KEY.format('`x`.v', 't')}) when true then {NO_NEW} end _mv_new from {NUMBERED} join ( IN ) `x` on ( t.key = `x`.key )"))),
    (f"{MERGE} when matched and x.v then delete",
     SIDES.format(CHECKED, COUNTED.format(
         f"select {OLD.format('t')}, _mv_target, case when ( x.v ) then {NO_NEW} end _mv_new from {NUMBERED} "
         "join ( IN ) `x` on ( t.key = `x`.key )"))),
    (f"{MERGE} when not matched and v then insert (key) values (x.v)",
     "select _mv_new.`key`, _mv_new.`a b`, 1L _mv_diff from ( select case when ( v ) then named_struct('_mv_kept', true, 'key', "
     "cast( x.v as int), 'a b', cast(null as array<string>)) end _mv_new from ( IN ) `x` left anti join ( CONTENTS ) `t` "
     "on ( t.key = `x`.key ) ) where _mv_new is not null"),
    ("merge into db.t o using (select * from db.x) s on o.key = s.key when not matched then insert *",
     "select _mv_new.`key`, _mv_new.`a b`, 1L _mv_diff from ( select case when true then named_struct('_mv_kept', true, 'key', "
     "cast( `s`.`key` as int), 'a b', cast( `s`.`a b` as array<string>)) end _mv_new from (select * from ( IN ) as `x`) `s` "
     "left anti join ( CONTENTS ) `o` on ( o.key = s.key ) ) where _mv_new is not null"),
    (f"{MERGE} when not matched by source and db.t.key > 1 then update set key = 0",
     SIDES.format(SIGN, f"select * from ( select {OLD.format('t')}, case when ( `t`.key > 1 ) then named_struct('_mv_kept', true, "
                  f"{NEW_KEY.format('0', 't')}) end _mv_new from ( CONTENTS ) `t` left anti join ( IN ) `x` on ( t.key = `x`.key ) ) "
                  "where _mv_new is not null")),
]  # fmt: skip


@pytest.mark.parametrize("statement, expected", DELTAS)
def test_the_delta_of_a_statement(statement, expected):
    assert made(statement) == expected


def test_the_delta_of_a_merge_is_the_union_of_its_kinds_of_clauses():
    query = made(
        f"{MERGE} when matched then update set * when not matched then insert * when not matched by source then delete"
    )
    assert query.count("union all") == 2 and query.count("raise_error") == 1


@pytest.mark.parametrize(
    "source, expected",
    [
        ("db.x", "join ( IN ) `x` on"),
        ("db.x /* mv_deletes */ d", "join ( DEL ) /* mv_deletes */ `d` on"),
        ("db.x as D", "join ( IN ) `D` on"),
        ("db.plain", "join db.plain `plain` on"),
        ("(select 1 key) s", "join (select 1 key) `s` on"),
        ("(select 1 k)", "join (select 1 k) `_mv_source` on"),
    ],
)
def test_a_merges_source_is_known_by_its_alias_or_its_own_name(source, expected):
    assert expected in made(f"merge into db.t using {source} on a when matched then update set key = 1")


def test_ephemeral_models_are_bound_and_in_front_of_everything():
    ctes = "with __dbt__cte__e as (select * from db.x where b)"
    front = "with __dbt__cte__e as (select * from ( IN ) as `x` where b)"
    assert made("delete from db.t where key in (select key from __dbt__cte__e)", ctes).startswith(
        f"{front} select `key`"
    )
    own = made("with c as (select * from db.t) insert into db.t select * from c", ctes)
    assert own.startswith(f"{front}, c as (select * from ( THIS ) as `t`) select cast(_mv_0")


def test_an_inserts_query_alone_is_bound_for_analysis():
    program = parse(
        "with e as (q) on input db.x as (with c as (r) insert into db.t select * from db.x)",
        "db.t",
        "my_task",
    )
    assert (
        line(analysed(program, program.statements[0], BINDINGS))
        == "with e as (q), c as (r) select * from ( IN ) as `x`"
    )


ASSIGNED = [  # the columns that are assigned, and the query that has the types of their values
    ("update db.t set key = db.t.key + 1, `a b` = default where key > 0", ("key", "a b"),
     "select * from ( select `t`.key + 1 _mv_0, null _mv_1 from ( CONTENTS ) `t` ) `_mv_part_0`"),
    (f"{MERGE} when matched then delete", None, None),
    ("delete from db.t", None, None),
    ("insert into db.t select 1", None, None),
    (f"{MERGE} when matched and a then update set key = x.k when matched then delete when not matched then insert (key) values (1) "
     "when not matched by source then update set key = t.key", ("key", "key", "key"),
     "select * from ( select x.k _mv_0 from ( CONTENTS ) `t` join ( IN ) `x` on ( t.key = `x`.key ) ) `_mv_part_0` "
     "cross join ( select 1 _mv_0 from ( IN ) `x` ) `_mv_part_1` cross join ( select t.key _mv_0 from ( CONTENTS ) `t` ) `_mv_part_2`"),
    ("with c as (select * from db.x) merge into db.t o using c on a when not matched then insert *", ("key", "a b"),
     "with c as (select * from ( IN ) as `x`) select * from ( select `c`.`key` _mv_0, `c`.`a b` _mv_1 from c `c` ) `_mv_part_0`"),
]  # fmt: skip


@pytest.mark.parametrize("text, names, query", ASSIGNED)
def test_the_assigned_values_of_an_update_or_a_merge_are_queried_in_their_scope(text, names, query):
    program = parse(f"on input db.x as ({text})", "db.t", "my_task")
    values = assigned(program, program.statements[0], COLUMNS, "CONTENTS", BINDINGS)
    assert (values and values.columns) == names
    assert (values and line(values.query)) == query


def test_a_bound_statement_has_every_alias():
    text = "insert into db.t select 1; delete from db.t; update db.t set a = 1; merge into db.t using db.x on a when matched then delete"
    program = parse(f"on input db.x as ({text})", "db.t", "my_task")
    insert, delete, update, merge = (bound(program, statement, BINDINGS) for statement in program.statements)
    assert isinstance(insert, Insert) and insert.query == "select 1"
    assert isinstance(delete, Delete) and delete.alias == "t"
    assert isinstance(update, Update) and update.alias == "t"
    assert isinstance(merge, Merge) and (merge.alias, merge.source_alias) == ("t", "x")


def test_bound_queries_are_not_bound_again():
    """A reference's query may name what stands for something else in the user's text."""
    program = parse("on input db.x as (insert into db.t select * from db.r)", "db.t", "my_task")
    bindings = StatementBindings("IN", "THIS", references={"db.r": "select * from db.x"})
    assert "from ( select * from db.x ) as `r`" in line(
        delta(program, program.statements[0], COLUMNS, "CONTENTS", bindings)
    )


APART = Apart("BASE", "REST")
NARROWED = {
    "delete from db.t where key = 1": True,
    "update db.t set key = 2 where key = 1": True,
    "delete from db.t": False,
    "update db.t set key = 2": False,
    "delete from db.t where rand() < 0.5": False,  # it would be asked twice
    "insert into db.t select key, null from db.t where key = 1": False,
    "merge into db.t using db.x x on t.key = x.key when matched then delete": False,
}


@pytest.mark.parametrize(("text", "narrowed"), NARROWED.items(), ids=NARROWED)
def test_only_rows_that_match_the_condition_are_consolidated(text, narrowed):
    program = parse(f"on input db.x as ({text})", "db.t", "my_task")
    query = line(delta(program, program.statements[0], COLUMNS, "CONTENTS", BINDINGS, APART))
    assert ("BASE" in query, "REST" in query) == (narrowed, narrowed)
    assert not narrowed or ("CONTENTS" not in query and query.count("( key = 1 )") == 2)


GROUPS = {
    "delete from db.t; insert into db.t select * from db.x; insert into db.t select 1, null": [[0, 1, 2]],
    "insert into db.t select * from db.x; insert into db.t select 1, null": [[0, 1]],
    "insert into db.t select * from db.x; delete from db.t": [[0], [1]],
    "insert into db.t select * from db.x; insert into db.t select * from db.t": [[0], [1]],
    "insert into db.t select 1, null; insert into db.t with c as (select * from `DB`.T) select * from c": [
        [0],
        [1],
    ],
    "delete from db.t; update db.t set key = 1; insert into db.t select * from db.x": [[0], [1, 2]],
}


@pytest.mark.parametrize(("text", "numbers"), GROUPS.items(), ids=GROUPS)
def test_statements_that_read_the_output_wait_for_those_before(text, numbers):
    program = parse(f"on input db.x as ({text})", "db.t", "my_task")
    assert [[statement.number for statement in group] for group in groups(program)] == numbers
