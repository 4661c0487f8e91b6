"""Narrow, wide, nested and empty tables; rows that come thousands of times; values at the ends of
their types.
"""

from __future__ import annotations

import pytest

from tests.functional.rough.base import Case, Table

pytestmark = pytest.mark.usefixtures("small_data")


def wide(columns: int, name: str = "c{}", rows: int = 6) -> Case:
    """As many columns; the last one changes in one row."""
    plain = ", ".join(f"id + {number} as {name.format(number)}" for number in range(columns - 1))
    last = f"if(id = 3, :n, id) as {name.format(columns - 1)}"
    return Case(f"select {plain + ', ' if plain else ''}{last} from range({rows})")


def struct(fields: int, value: str = "id") -> str:
    """Its fields may be NULL: PySpark's `toArrow` fails on a NULL struct of fields that may not."""
    return (
        "named_struct("
        + ", ".join(f"'field_{number}', nullif({value} + {number}, -1)" for number in range(fields))
        + ")"
    )


class TestWidths(Table):
    CASES = {f"columns_{number}": wide(number) for number in (1, 28, 29, 31, 32, 33, 40, 60, 200)} | {
        "long_names_150": wide(150, "a_long_name_as_tools_that_export_make_them_{}"),
        "texts_40": Case("select " + ", ".join(f"concat('text ', id, {n}) as c{n}" for n in range(39)) + ", if(id = 1, :n, id) as last from range(6)"),
        "nulls_40": Case("select " + ", ".join(f"if(id % {n + 2} = 0, null, id) as c{n}" for n in range(39)) + ", :n as last from range(6)"),
    }  # fmt: skip


class TestNested(Table):
    CASES = {
        "struct_25": Case(f"select id, {struct(25, 'id * :n')} as s from range(4)"),
        "struct_26": Case(f"select id, {struct(26, 'id * :n')} as s from range(4)"),
        "struct_40": Case(f"select id, {struct(40)} as s, :n as n from range(4)"),
        "struct_40_changes": Case(f"select id, {struct(40, 'id * :n')} as s from range(4)"),
        "struct_in_structs": Case(f"select id, named_struct('a', named_struct('b', {struct(30, ':n')}), 'c', null :: int) as s from range(4)"),
        "array_of_structs": Case(f"select id, array({struct(30)}, null, {struct(30, ':n')}) as a from range(4)"),
        "map_of_structs": Case(f"select id, map('k', {struct(30)}, 'other', {struct(30, ':n')}, 'none', null) as m from range(4)"),
        "map_with_null_values": Case("select id, map('a', null :: int, 'b', id * :n) as m, map(1, 0, 2, null :: int) as o from range(4)"),
        "map_in_another_order": Case("select id, if(:n = 1 or id = 1, map('a', 1, 'b', 2), map('b', 2, 'a', id)) as m from range(4)"),
        "arrays_of_arrays": Case("select id, array(array(id, null), array(), null, array(:n)) as a, array() :: array<string> as e from range(4)"),
        "struct_keys": Case("select id, map(named_struct('a', id, 'b', 'x'), array(:n)) as m from range(4)"),
        "only_a_struct": Case("select named_struct('a', id % 2, 'b', array(:n)) as s from range(6)"),
        "null_structs": Case("select id, if(id % 2 = 0, null, named_struct('a', nullif(:n, id), 'b', null :: string)) as s from range(6)"),
    }  # fmt: skip


class TestCopies(Table):
    CASES = {
        "one_row_5000_times": Case("select 7 as a, 'x' as b from range(5000)  union all select :n, 'other'"),
        "one_more": Case("select 7 as a, 'x' as b from range(5000) where id < 4998 + :n"),
        "of_5000_one_stays": Case("select 7 as a, 'x' as b from range(5000) where id = 0 or :n = 1"),
        "of_one_5000": Case("select 7 as a, 'x' as b from range(5000) where id = 0 or :n = 2"),
        "exactly_4096": Case("select 7 as a from range(4096) union all select :n"),
        "null_rows_5000": Case(
            "select null :: int as a, null :: string as b from range(5000) where id < 4000 + 10 * :n"
        ),
        "many_of_many": Case("select id % 10 as a, 'x' as b from range(50000) where id < 49990 + :n"),
        "copies_swap": Case("select if(id < 1000 * :n, 'a', 'b') as a from range(5000)"),
        "structs_5000": Case(
            "select named_struct('a', 1, 'b', map('k', null :: int)) as s from range(5000) where id < 4990 + :n"
        ),
    }


class TestValues(Table):
    CASES = {
        "empty_then_filled": Case("select id, 'a' as v from range(3) where :n = 2"),
        "filled_then_empty": Case("select id, 'a' as v from range(3) where :n = 1"),
        "all_null": Case("select null :: int as a, null :: string as b, null :: timestamp as c, null :: array<int> as d from range(:n + 0L)".replace("range(:n + 0L)", "range(3) where id < :n")),
        "floats": Case("select id, case id when 0 then double('NaN') when 1 then -0.0D when 2 then double('Infinity') when 3 then 1e-320D else :n end as d, float('NaN') as f from range(6)"),
        "minus_zero_is_zero": Case("select id, if(:n = 1, 0.0D, -0.0D) as d, if(id = 1, :n, 0) as n from range(3)"),
        "decimals": Case("select id, cast('0.12345678901234567890123456789012345678' as decimal(38,38)) as a, cast('99999999999999999999999999999999999999' as decimal(38,0)) as b, cast(:n as decimal(5,2)) as c from range(3)"),
        "ends_of_integers": Case("select -128Y as a, 32767S as b, -2147483648 as c, 9223372036854775807L as d, cast('-9223372036854775808' as bigint) as e, :n as n from range(3)"),
        "texts": Case("select id, case id when 0 then '' when 1 then null when 2 then ' ' when 3 then 'a\\nb\\tc' when 4 then '\\0' when 5 then '🙂 ünïcödé 名前' when 6 then '${env:HOME}' when 7 then '\\'\"`' when 8 then 'NULL' when 9 then '%20' else cast(:n as string) end as v from range(12)"),
        "long_texts": Case("select id, repeat('äbc', 200000) as v, if(id = 2, :n, 0) as n from range(4)"),
        "texts_that_differ_at_the_end": Case("select id, concat(repeat('x', 5000), if(id = 3, :n, 0)) as v from range(50)"),
        "binaries": Case("select id, case id when 0 then x'' when 1 then null when 2 then x'00FF' else cast(cast(:n as string) as binary) end as v from range(5)"),
        "booleans": Case("select case id % 3 when 0 then true when 1 then false end as v from range(9) where id < 7 + :n"),
        "chars": Case("select cast(id as char(5)) as a, cast('ab' as varchar(10)) as b, :n as n from range(3)"),
        "comment_at_the_end": Case("select id, :n as n from range(3) -- the end"),
        "two_in_one": Case("with a as (select id from range(3)), b as (select id * :n as x from a) select a.id, b.x from a join b on a.id = b.x or b.x = 4"),
    }  # fmt: skip
