"""Corrections from the changes of the inputs hold what the query gives: random histories on DuckDB.

Two shards change, are appended to by the Python handle, which knows no hashes, and are compacted;
other tools write to them, and to the model's own shard. After every run the model holds what its
query gives, whether it was computed from the changes or in full.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.engine import arrow_schema
from dbt.adapters.mvsink.inputs.reference import References
from dbt.adapters.mvsink.shard import (
    Antichain,
    Progress,
    ShardClient,
    compact_with_pyarrow,
    compaction_due,
    files_number,
)
from dbt.adapters.mvsink.sink import Driver, Incremental, Outcome
from tests.support import incremental_modes
from tests.support.known_inputs import KnownInputs
from tests.support.seldom import often
from tests.support.session_engine import T0, Model, open_shard

HISTORIES = int(os.environ.get("MVSINK_INCREMENT_HISTORIES", "5"))
RUNS = 6
STEP = 1000  # ms from one run to the next
QUERIES = (
    "select a.k, a.v, b.v w from db.a a join db.b b on a.k = b.k",
    "select a.k, a.v, b.v w from db.a a left join db.b b on a.k = b.k and b.v <> 'y'",
    "select k, v from db.a union all select k, v from db.b where v is not null",
    "select v from db.a",
    "select a.v from db.a a left anti join db.b b on a.k = b.k",
    "select v, count(*) n, sum(k) s from db.a group by v",
    "select v, count(*) n, count(k) c, sum(k) s from db.a group by v",
    "select a.v, count(*) n, count(b.k) c, sum(b.k) s from db.a a left join db.b b on a.k = b.k group by a.v",
    "select count(*) n, count(k) c, sum(k) s from db.a where v <> 'x'",
    "select v, v w, count(*) n from db.a group by v",
    "select v, k, count(*) n, count(*) m, count(k) c, sum(k) s, sum(k) t from db.a group by k, v",
    "select k h, v b, count(*) n from db.a group by k, v",
    "select a.v, max(b.k) m from db.a a left join db.b b on a.k = b.k group by a.v having count(*) > 1",
    "select distinct v from db.a where k > 2",
    "select k, v, row_number() over (partition by v order by k) p from (select distinct k, v from db.a) d",
    "select count(*) n, min(k) m from db.a",
    "select k from db.a where exists (select 1 from db.b b where b.k = a.k)".replace(
        "db.a where", "db.a a where"
    ),
    "select a.k, b.v, c.k w from db.a a join db.b b on a.k = b.k left join db.b c on c.v = b.v",
    "with s as (select k, v from db.a where v <> 'z') select s.v, sum(b.k) n from s join db.b b on s.k = b.k and b.v > 'x' "
    "where s.k between 2 and 4 group by s.v",
    "select x.v, y.v w, s, t, n from (select v, sum(cast(k as double)) s from db.a group by v) x "
    "left join (select v, sum(cast(k as double)) t, count(*) n from db.b group by v) y on x.v = y.v",
    "select a.k, b.v, c.k w from db.a a join db.b b on a.k = b.k and b.v in ('x', 'y') left join db.b c on c.v = b.v and c.k > 2 "
    "where a.v = 'x'",
)


class World:
    """``session``: None for DuckDB."""

    def __init__(self, seed: int, root: Path, query: str = "", session: Any = None):
        self.random, self.root, self.time = random.Random(seed), root, T0
        self.rows = {name: Counter(self.some(12)) for name in ("a", "b")}
        # of every other world the inputs' history begins just after the model's last run
        kept = {"retain_history": STEP if seed % 2 else 86_400_000}
        self.inputs = {name: Model(session, root, f"in.{name}", options=kept) for name in self.rows}
        self.query = query or self.random.choice(QUERIES)
        self.model = Model(session, root, "dev.m")
        self.engine = self.model.engine()
        if session is None:
            self.engine.cores = min(seed % 3, 1)  # without, rows of inputs are found by statements
            self.engine.arrow_for = ("look up",) if seed % 2 else ()
        uris = {f"db.{name}": model.uri for name, model in self.inputs.items()}
        self.known = KnownInputs(self.query, uris, self.engine)
        for name in self.rows:
            self.write(name)

    def some(self, most: int):
        """Rows with few values, NULLs, and copies."""
        for _ in range(self.random.randint(0, most)):
            yield self.random.choice([None, 1, 2, 3, 4, 5]), self.random.choice([None, "x", "y", "z"])

    def write(self, name: str) -> None:
        """Another refresh of an input."""
        listed = [
            f"({'null' if k is None else k}, {'null' if v is None else repr(v)})"
            for k, v in self.rows[name].elements()
        ]
        values = ", ".join(listed) or "(null, null)"
        query = f"select cast(k as int) k, cast(v as string) v from (values {values}) t(k, v)"
        self.inputs[name].run(query if listed else f"{query} where false", time=self.time)

    def change(self) -> None:
        self.time += STEP
        for name, rows in self.rows.items():
            kind = self.random.random()
            if kind < 0.3:
                continue
            if kind < 0.4:
                rows.clear()
            rows.subtract([row for row in list(rows) if self.random.random() < 0.3])
            rows.update(self.some(4))
            self.rows[name] = +rows
            if self.random.random() < 0.3:
                self.append(name)
            else:
                self.write(name)
            if self.random.random() < 0.3:
                self.compact(name)

    def append(self, name: str) -> None:
        """The same by a Python program: no hashes."""
        with open_shard(self.inputs[name].uri, None) as handle:
            state = handle.state()
            reader = ShardClient().open_reader(handle.uri)
            rows = reader.snapshot(state.upper.stored() - 1).to_pylist()
            before = Counter({(row["k"], row["v"]): row["_mv_diff"] for row in rows})
            changes = [(row, self.rows[name][row] - before[row]) for row in before | self.rows[name]]
            changes = [(row, diff) for row, diff in changes if diff]
            table = pa.table(
                {
                    "k": pa.array([k for (k, _), _ in changes], pa.int32()),
                    "v": pa.array([v for (_, v), _ in changes], pa.string()),
                    "_mv_time": pa.array([self.time] * len(changes), pa.int64()),
                    "_mv_diff": pa.array([diff for _, diff in changes], pa.int64()),
                }
            )
            handle.compare_and_append(table, state.upper, Antichain.of(self.time + 1))

    def compact(self, name: str) -> None:
        with open_shard(self.inputs[name].uri, None) as handle:
            if (plan := compaction_due(handle.state())) is not None:
                compact_with_pyarrow(handle, plan)

    def lose_a_row(self, progress: bool = False) -> None:
        """The model's own shard is not what its progress says. ``progress``: and nothing shows it:
        as if a run had written it.
        """
        with open_shard(self.model.uri, None) as handle:
            state = handle.state()
            rows = ShardClient().open_reader(handle.uri).snapshot(state.upper.stored() - 1)
            if rows.num_rows:
                values = rows["v"].to_pylist() if "v" in rows.column_names else []
                lost = values.index("x") if "x" in values else 0
                row = rows.slice(lost, 1).drop_columns(["_mv_error"])
                time = state.upper.stored()
                gone = row.set_column(row.schema.get_field_index("_mv_diff"), "_mv_diff", pa.array([-1]))
                gone = gone.append_column("_mv_time", pa.array([time]))
                known = Progress(plan=1, files=files_number(state.files)) if progress else None
                handle.compare_and_append(gone, state.upper, Antichain.of(time + 1), progress=known)

    def run(self) -> bool:
        """One run of the model; whether it was incremental."""
        return self.ran().written.incremental

    def whole(self) -> str:
        """The query over the inputs as they are now."""
        return References(self.known.look()).read_at(self.query, self.time)

    def ran(self, **changes: Any) -> Outcome:
        """One run of the model, after which it holds what its query gives."""
        whole = self.whole()
        outcome = self._driven(whole, **changes)
        self.model.assert_holds(whole)
        return outcome

    def previewed(self, **changes: Any) -> Outcome:
        """A read-only run of the model, which records nothing."""
        read, contents = self.known.read, self.known.contents
        outcome = self._driven(self.whole(), read_only=True, **changes)
        self.known.read, self.known.contents = read, contents
        return outcome

    def _driven(self, whole: str, **changes: Any) -> Outcome:
        references = References(self.known.references)
        columns = self.model.columns(whole)
        request = self.model.request(
            self.query, columns=columns, time=self.time, references=references, evidence=self.known, **changes
        )
        with open_shard(self.model.uri, arrow_schema(columns)) as handle:
            return Driver(request, handle, self.engine).run()


@pytest.fixture
def unlimited(monkeypatch):
    """However much changed: the tables are tiny."""
    incremental_modes.unlimited(monkeypatch)


def test_every_run_holds_what_the_query_gives(tmp_path, unlimited):
    ran: Counter[bool] = Counter()
    for seed in range(HISTORIES):
        world = World(seed, tmp_path / str(seed))
        world.run()
        for _ in range(RUNS):
            world.change()
            ran[world.run()] += 1
    assert ran[True] > 2 * HISTORIES


@pytest.mark.parametrize("option", often([Incremental.ALWAYS, Incremental.AUTO], Incremental.AUTO))
@pytest.mark.parametrize(
    "query",
    [
        "select k, v from db.a where k > 9",
        "select k, count(*) n, sum(k) s from db.a where k > 9 group by k",
        "select k, max(v) v from db.a group by k having max(k) > 9",
        "select distinct a.k from db.a a join db.b b on a.k = b.k and a.v = 'many'",
    ],
)
def test_no_rows_are_contents_too(query, option, tmp_path, unlimited, monkeypatch):
    """Views that look for what should not be there have none most of the time."""
    monkeypatch.setattr(limits, "WORTHWHILE", 1e9)  # however slow this machine
    world = World(1, tmp_path, query)
    world.time += 1000
    world.rows["b"] = Counter([(10, "x")])
    world.write("b")
    assert not world.run()
    assert not world.model.rows()
    for rows in ([(1, "x")], [(10, "many"), (10, "many")], [(2, "x")], [(10, "many")]):
        world.time += 1000
        world.rows["a"] = Counter(rows)
        world.write("a")
        assert world.ran(incremental=option).written.incremental
        assert bool(world.model.rows()) == (rows[0][0] > 9)


@pytest.mark.parametrize("how", ["verify", "summed"])
@pytest.mark.parametrize("here", [True, False], ids=["here", "by a statement"])
def test_no_rows_are_verified_and_shown_of_sums(how, here, tmp_path, unlimited, monkeypatch):
    if not here:
        monkeypatch.setattr("dbt.adapters.mvsink.sink.write.fits_locally", lambda *_: False)
    world = World(1, tmp_path, "select k, count(*) n, sum(k) s from db.a where k > 9 group by k")
    world.run()
    for rows in ([(1, "x")], [(10, "x"), (10, "y")], [(2, "x")], [(3, "x")], [(11, "x")]):
        world.time += 1000
        world.rows["a"] = Counter(rows)
        world.write("a")
        before = Counter(world.model.rows())
        outcome = world.ran(incremental=Incremental.ALWAYS, **{how: True})
        counts = outcome.counts
        assert (counts.inserted, counts.deleted) == (len(set(world.model.rows())), len(before))
        assert outcome.drift == 0


REACHED = "select a.k, b.v, c.k w from db.a a join db.b b on a.k = b.k {} join db.b c on c.v = b.v"


@pytest.mark.parametrize("join", ["inner", "left", "left semi"])
def test_rows_that_the_change_reaches_through_another_input_are_found_here(join, tmp_path, unlimited):
    """No statement reads the files of `db.b`, which did not change."""
    query = REACHED.format(join).replace("c.k", "b.k" if join == "left semi" else "c.k")
    world = World(1, tmp_path, query)
    for number in range(6):
        world.time += 1000
        world.rows["a"] = Counter({(number, "x"): 1, (None, "y"): 2, (3, "z"): 1 + number % 2})
        world.rows["b"] = Counter({(k, "xyz"[k % 3]): k % 2 + 1 for k in range(6)})
        for name in ("a", "b") if number == 0 else ("a",):
            world.write(name)
        before = Counter(world.model.rows()) if number else Counter()
        world.engine.ran.clear()
        assert world.ran(incremental=Incremental.ALWAYS).written.incremental is (number > 0)
        read = [text for what, text in world.engine.ran if what in ("keys", "write")]
        if number:
            assert (Counter(world.model.rows()) != before) is bool(read)
            assert not any("/in/b/" in text for text in read)


@pytest.mark.parametrize("cores", [0, 1], ids=["statements", "here"])
def test_changes_of_rows_that_a_condition_does_not_keep_are_not_staged(cores, tmp_path, unlimited):
    """The new rows of an input that it does not keep change nothing, and no statement runs."""
    query = "select a.v, count(*) n from db.a a join db.b b on a.k = b.k where a.v in ('x', 'y') and b.k > 2 group by a.v"
    world = World(1, tmp_path, query)
    world.engine.cores = cores
    for number in range(4):
        world.time += 1000
        kept = {(3, "x"): number // 2 + 1}
        world.rows["a"] = Counter({**kept, (3, "z"): number + 1, (number, None): 1})
        world.rows["b"] = Counter({(3, "y"): 1, (2, "x"): number + 1, (None, "x"): number + 1})
        for name in world.rows:
            world.write(name)
        world.engine.ran.clear()
        outcome = world.ran(incremental=Incremental.ALWAYS)
        assert outcome.written.incremental is (number > 0)
        assert (outcome.counts.inserted == 0) is (number in (1, 3))
        if number in (1, 3):
            assert not [text for what, text in world.engine.ran if what in ("keys", "write")]


@pytest.mark.parametrize("arrow", [("look up",), ()], ids=["here", "by a statement"])
def test_a_hash_of_equal_rows_is_looked_up(arrow, tmp_path, unlimited):
    """Rows of which the shard has copies are staged without a hash, and then looked up again."""
    world = World(0, tmp_path, "select v from db.a")
    world.engine.cores, world.engine.arrow_for = 1, arrow
    rewritten = []
    for copies in (3, 4, 2, 2, 5, 0, 1):
        world.time += STEP
        world.rows["a"] = Counter({(1, "x"): copies, (2, "y"): 1 + len(rewritten)})
        world.write("a")
        world.engine.ran.clear()
        assert world.ran(incremental=Incremental.ALWAYS).written.incremental is bool(rewritten)
        ran = Counter(what for what, _ in world.engine.ran)
        rewritten.append(ran["write"])
        assert (
            "count_if" not in "".join(text for what, text in world.engine.ran if what == "look up")
            or not arrow
        )
    assert max(rewritten[1:]) == (1 if arrow else 2), rewritten


def test_a_commit_notes_the_largest_share_of_an_input_that_changed(tmp_path, unlimited):
    world = World(1, tmp_path, QUERIES[0])
    noted = []
    for replaced, more in ((0, 0), (1, 0), (1, 5), (0, 5)):
        world.time += STEP
        world.rows["a"] = Counter({(k, "x" if k < replaced else "y"): 1 for k in range(8)})
        world.rows["b"] = Counter({(k, "z"): 1 for k in range(5 + more)})
        for name in world.rows:
            world.write(name)
        world.ran(incremental=Incremental.ALWAYS)
        with open_shard(world.model.uri, None) as handle:
            [*_, commit] = handle.history(1)
        noted.append(commit.note.share)
    # one row of eight is replaced, by two updates; then five rows of ten are new
    assert noted == [None, 0.25, 0.5, 0.25]


def test_a_row_that_another_program_took_away_heals(tmp_path, unlimited):
    """Where the change deletes that row, its look-up shows that it is not there. Where groups are
    compared, they are as the query has them.
    """
    ran: Counter[bool] = Counter()
    for seed in range(HISTORIES):
        world = World(seed, tmp_path / str(seed))
        world.run()
        before = Counter(world.model.rows())
        world.time += 1000
        world.lose_a_row()
        for name in world.rows:
            world.rows[name].clear()
            world.write(name)
        world.time += 1000
        if before == Counter(world.engine.query(world.whole(), "query")):  # then nothing changes
            continue
        ran[world.run()] += 1
    assert ran[False] and ran[True]
