"""docs/design/tasks.md: what names mean, and what each statement does. On Spark, whose SQL it
is; one run each, of many cases.
"""

from __future__ import annotations

import re

import pytest

from dbt.adapters.mvsink.adapter.dbt_engine import engine_error
from dbt.adapters.mvsink.continual_task.errors import StatementFailed
from dbt.adapters.mvsink.shard_sql import OnError
from tests.functional.continual_task.driver import CONTENTS, DELETES, NOW, Task
from tests.support.seldom import often_of

T = "db.t"
# At 10 the input holds (1, 10), (2, 20) twice, (3, null); at 20 it loses one (2, 20) and (1, 10),
# gains (1, 11), (4, 40) twice.
BEFORE = [(1, 10, 1), (2, 20, 2), (3, None, 1)]
CHANGE = [(2, 20, -1), (1, 10, -1), (1, 11, 1), (4, 40, 2)]
# of the reference db.r
R9, R20, R30 = [(1, 100, 1), (4, 400, 1)], [(4, 400, -1), (4, 401, 1)], [(1, 100, -1)]
# What a task does at 20 to an output that held (1, 1), (2, 2), (2, 2), (null, 5) before.
STORED = [(1, 1), (2, 2), (2, 2), (None, 5)]
CASES = {
    # what names mean
    "the input: rows that came": ("insert into db.t select * from db.i", [*STORED, (1, 11), (4, 40), (4, 40)]),
    "the input under an alias, twice": (
        "insert into db.t select a.key, b.val from db.i a join db.i as b on a.key = b.key and a.key = 4", [*STORED, *4 * [(4, 40)]],
    ),
    "mv_deletes: rows that went": (f"insert into db.t select * from {DELETES}", [*STORED, (2, 20), (1, 10)]),
    "mv_contents: all rows, with the change": (
        f"insert into db.t select w.key, w.val from db.i i right join {CONTENTS} w using (key) where i.key is null or i.key = 1",
        [*STORED, (1, 11), (2, 20), (3, None)],
    ),
    "both": (
        f"insert into db.t select i.key, i.val - d.val from db.i i join {DELETES} d on i.key = d.key", [*STORED, (1, 1)],
    ),
    "this: the output just before, with earlier statements": (
        "delete from db.t where key = 1; insert into db.t select count(*), 0 from db.t; insert into db.t select count(*), 1 from db.t",
        [(2, 2), (2, 2), (None, 5), (3, 0), (4, 1)],
    ),
    "this in the condition of what changes it: as it was before": (
        "delete from db.t where val < (select max(val) from db.t)", [(None, 5)],
    ),
    "a reference: in full, as of the time": ("insert into db.t select key, val from db.r", [*STORED, (1, 100), (4, 401)]),
    "a reference, joined": (
        "insert into db.t select i.key, r.val from db.i i left join db.r r using (key)", [*STORED, (1, 100), (4, 401), (4, 401)],
    ),
    "mv_now(): the time": (f"insert into db.t select 0, unix_millis({NOW})", [*STORED, (0, 20)]),
    "names in quotes and comments are no relations": (
        "insert into db.t select length('db.i; db.t'), /* from db.r; */ 0 -- ; db.i\n", [*STORED, (10, 0)],
    ),
    # INSERT
    "INSERT ... VALUES": ("insert into db.t values (7, 8), (7, 8)", [*STORED, (7, 8), (7, 8)]),
    "INSERT matches by position": ("insert into db.t select val as key, key as val from db.i where key = 1", [*STORED, (11, 1)]),
    "INSERT with a list of columns": ("insert into db.t (val, key) select 8, 7", [*STORED, (7, 8)]),
    "INSERT of fewer columns: the rest is NULL": ("insert into db.t (val) select 8", [*STORED, (None, 8)]),
    "INSERT of another type: as Spark stores it": ("insert into db.t select cast(7 as smallint), 8.4", [*STORED, (7, 8)]),
    "INSERT ... WITH": ("insert into db.t with x as (select * from db.i) select key, val from x where key = 1", [*STORED, (1, 11)]),
    "WITH ... INSERT": ("with x as (select * from db.i) insert into db.t select key, val from x where key = 1", [*STORED, (1, 11)]),
    # DELETE
    "DELETE takes every copy of a row": ("delete from db.t where key = 2", [(1, 1), (None, 5)]),
    "DELETE: a condition that is NULL is not true": ("delete from db.t where key <> 2", [(2, 2), (2, 2), (None, 5)]),
    "DELETE without a condition": ("delete from db.t", []),
    "DELETE with an alias and a subquery": (
        "delete from db.t as o where exists (select 1 from db.i n where n.key = o.key)", [(2, 2), (2, 2), (None, 5)],
    ),
    # UPDATE
    "UPDATE sees the old row everywhere": ("update db.t set key = val, val = key where key = 2 or key is null", [(1, 1), (2, 2), (2, 2), (5, None)]),
    "UPDATE with a subquery": (
        "update db.t set val = (select max(val) from db.i) where key in (select key from db.i)", [(1, 40), (2, 2), (2, 2), (None, 5)],
    ),
    "UPDATE to DEFAULT": ("update db.t as x set x.val = default where x.key = 2", [(1, 1), (2, None), (2, None), (None, 5)]),
    "UPDATE to the same is no change": ("update db.t set val = val", STORED),
    # MERGE
    "MERGE, upsert": (
        "merge into db.t t using (select distinct * from db.i) i on t.key = i.key when matched then update set val = i.val "
        "when not matched then insert *", [(1, 11), (2, 2), (2, 2), (None, 5), (4, 40)],
    ),
    "MERGE: the first clause that applies": (
        "merge into db.t using (select distinct * from db.i) as i on db.t.key = i.key when matched and i.val > 100 then delete "
        "when matched then update set val = -1 when not matched and i.key = 9 then insert *", [(1, -1), (2, 2), (2, 2), (None, 5)],
    ),
    "MERGE ... NOT MATCHED BY SOURCE": (
        "merge into db.t t using db.i i on t.key = i.key when not matched by source and t.key is not null then delete", [(1, 1), (None, 5)],
    ),
    "MERGE into rows that occur twice": (
        "merge into db.t t using (select 2 as key) i on t.key = i.key when matched then update set val = 7", [(1, 1), (2, 7), (2, 7), (None, 5)],
    ),
    # several
    "insert and delete again is nothing": (
        "insert into db.t select * from db.i; delete from db.t where key = 4 or val = 11", STORED,
    ),
}  # fmt: skip


def prepared(task, before=BEFORE):
    """The output has ``STORED`` since 10; the input changed at 20, the reference at 9, 20, 30."""
    task.input.write(10, before)
    r = task.reference("db.r")
    for time, updates in ((9, R9), (20, R20), (30, R30)):
        r.write(time, updates)
    text, task.text = (
        task.text,
        "on input db.i as (insert into db.t values (1, 1), (2, 2), (2, 2), (null, 5))",
    )
    task.run(10)
    task.text = text
    task.input.write(20, CHANGE)


OFTEN = (
    "the input: rows that came", "mv_contents: all rows, with the change", "the input under an alias, twice", "both", "a reference, joined", "mv_now(): the time",
    "this: the output just before, with earlier statements", "names in quotes and comments are no relations",
    "INSERT with a list of columns", "INSERT of fewer columns: the rest is NULL", "INSERT ... WITH",
    "DELETE takes every copy of a row", "DELETE with an alias and a subquery", "UPDATE with a subquery",
    "MERGE, upsert", "MERGE: the first clause that applies", "MERGE ... NOT MATCHED BY SOURCE",
    "insert and delete again is nothing",
)  # fmt: skip


@pytest.mark.parametrize("case", **often_of(CASES, *OFTEN))
def test_statement(quick, tmp_path, case):
    statements, wanted = case
    task = Task(
        quick, tmp_path, f"on input db.i as ({statements})", ("db.r",) if "db.r" in statements else ()
    )
    prepared(task)
    outcome = task.run(20)
    assert outcome.times == (20,) and task.output.upper == 21
    assert task.output.contents() == sorted(wanted, key=repr)
    before = task.output.updates()
    assert task.run(20).counts.nothing and task.output.updates() == before


def test_transform_is_an_insert(quick, tmp_path):
    task = Task(
        quick,
        tmp_path,
        f"from transform db.i using (select key, val + unix_millis({NOW}) from db.i where key > 1)",
    )
    task.input.write(10, BEFORE)
    task.run(10)
    for time in (20, 30):
        task.input.write(time, [(time, 0, 2)])
    task.run(30)
    assert task.output.updates() == [(10, 2, 30, 2), (10, 3, None, 1), (20, 20, 20, 2), (30, 30, 30, 2)]


def test_retain_deletes_at_times_of_the_input_only(quick, tmp_path):
    task = Task(quick, tmp_path, f"from retain db.i while (val > unix_millis({NOW}))")
    task.input.write(10, [(1, 15, 1), (2, 25, 2), (3, 5, 1)])
    task.input.advance(40)
    task.run(17)
    # the snapshot's time counts, not when the rows came
    assert task.output.updates() == [(17, 2, 25, 2)]
    task.input.write(40, [(4, 99, 1)])
    task.run(50)
    assert task.output.updates() == [(17, 2, 25, 2), (40, 2, 25, -2), (40, 4, 99, 1)]


SEVERAL = (
    "[MERGE_CARDINALITY_VIOLATION] MERGE: 2 source rows match one row of the target: key = 1. SQLSTATE: 23K01"
)

GROUPED = "(select key, max(val) as val from db.i group by key)"


def test_row_r_two_source_rows_for_one_row_of_a_merge(quick, tmp_path):
    """An error that the data cause; it names the key, the time and ways on, and these lead on."""
    merge = "merge into db.t t using {} i on t.key = i.key - 3 when matched then update set val = i.val"
    task = Task(quick, tmp_path, f"on input db.i as ({merge.format('db.i')})")
    prepared(task)
    ways = (
        r"( SQLSTATE: P0001)?\nIt failed for the change of db\.i at .* \(20\). Every later run reads the same change.*"
        r"for a MERGE one row for each key.*"
        r"`on_error: record`.*--vars '\{mvsink_reset: \[t\]\}'$"
    )
    with pytest.raises(
        StatementFailed, match=rf"^db\.t: statement 0: .*{re.escape(SEVERAL)}{ways}"
    ) as failed:
        task.run(20)
    assert task.output.upper == 11
    through_dbt = engine_error(failed.value.error.__cause__)  # Spark's own chain of causes
    assert through_dbt.message.endswith(SEVERAL) and (through_dbt.sqlstate, through_dbt.caused_by_data) == (
        "23K01",
        True,
    )
    failing, task.text = task.text, f"on input db.i as ({merge.format(GROUPED)})"
    task.run(20)
    assert task.output.contents() == [(1, 40), (2, 2), (2, 2), (None, 5)]
    task.text = failing
    task.input.write(30, CHANGE[-1:])
    task.run(30, on_error=OnError.RECORD)
    [(time, message, count)] = [update for update in task.output.updates() if len(update) == 3]
    assert (time, count) == (30, 1) and SEVERAL in message
    assert task.output.upper == 31


def test_what_is_no_error_of_the_data_is_not_recorded(quick, tmp_path):
    """A user's own text may say what it likes, unless it gives an SQLSTATE of that kind."""
    task = Task(
        quick,
        tmp_path,
        "on input db.i as (insert into db.t select raise_error('several source rows match one row'), 1)",
    )
    prepared(task)
    with pytest.raises(StatementFailed, match="several source rows match one row"):
        task.run(20, on_error=OnError.RECORD)
    assert task.output.upper == 11
