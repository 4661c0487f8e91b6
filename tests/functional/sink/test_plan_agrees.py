"""Plan and run agree: a plan's numbers are those of the run that follows, for many random
changes of the source.

On DuckDB; for the first of them on Spark too.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from deltalake import DeltaTable

from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.shard_sql import Kind
from tests.support.session_engine import Model, open_shard

CHANGES = 34
ON_SPARK = 6
SEED = 7
COLUMNS = (Column("x", parse_type("int", "x")), Column("y", parse_type("string", "y")))


class Source:
    """A multiset of rows that changes at random."""

    def __init__(self, chance):
        self.chance = chance
        self.rows = Counter({(x, "a"): 1 for x in range(20)})

    def change(self):
        for _ in range(self.chance.choice((0, 1, 1, 3, 15))):
            row = (self.chance.randrange(30), self.chance.choice(("a", "b", None)))
            self.rows[row] = max(0, self.rows[row] + self.chance.choice((-2, -1, 1, 1, 2)))
        if self.chance.random() < 0.04:
            self.rows.clear()

    def query(self):
        rows = [
            f"({x}, {'null' if y is None else repr(y)})" for (x, y), n in self.rows.items() for _ in range(n)
        ]
        values = ", ".join(rows) or "(0, '')"
        return f"select cast(x as int) x, cast(y as string) y from values {values} t(x, y)" + (
            "" if rows else " where false"
        )


class Quick(Model):
    """The columns are known: asking Spark two hundred times would be most of the test."""

    def columns(self, query):
        return COLUMNS


def disk(model):
    """Every file of the shard, and its newest version."""
    with open_shard(model.uri, None) as handle:
        return handle.state().version, sorted(str(path) for path in Path(model.uri).rglob("*"))


@dataclass
class Observed:
    """What happened in the runs, to show that the source varies enough."""

    # anything inserted, deleted, why a new generation
    changes: set[tuple[bool, bool, str]] = field(default_factory=set)
    compactions: int = 0


def agree(session, root, changes, disturbed_every) -> Observed:
    """On DuckDB, without a session. Another writer's changes of the shard are in the preview."""
    chance, observed = random.Random(SEED), Observed()
    model, source = Quick(session, root), Source(chance)
    model.run(source.query())
    for number in range(1, changes + 1):
        source.change()
        disturbed = number % disturbed_every == 0
        if disturbed:
            DeltaTable(model.uri).delete(f"x = {chance.randrange(30)}")
        how = {"full_refresh": number % 33 == 0}
        before = disk(model)
        request = model.request(source.query(), **how)
        preview = model.run(source.query(), read_only=True, time=request.time, **how)
        assert disk(model) == before, number
        done = model.run(source.query(), time=request.time, **how)
        assert preview.kind is Kind.READ_ONLY
        assert (preview.counts, preview.generation, preview.upper) == (
            done.counts,
            done.generation,
            done.upper,
        ), number
        observed.changes.add((bool(done.counts.inserted), bool(done.counts.deleted), done.generation))
        with open_shard(model.uri, None) as handle:
            compacted = any(
                commit.kind == "compact" and commit.version > before[0] for commit in handle.history()
            )
        if not disturbed:  # in the log a fold looks like a compaction
            assert bool(preview.preview.compacted) == compacted, number
            observed.compactions += compacted
    return observed


def test_for_random_changes_the_plan_is_what_the_run_does(tmp_path):
    observed = agree(None, tmp_path, CHANGES, disturbed_every=25)
    # nothing, insertions, deletions, both, a new generation
    assert len(observed.changes) >= 5 and observed.compactions, observed


def test_on_spark_too(quick, tmp_path):
    observed = agree(quick, tmp_path, ON_SPARK, disturbed_every=5)
    assert len(observed.changes) >= 3, observed


def test_of_a_new_shard_and_of_other_columns(quick, tmp_path):
    model = Model(quick, tmp_path)
    for query in (
        "select 1 x union all select 1",
        "select 2 x, 'a' y",
        "select 2 x where false",
        "select cast(2 as bigint) x",
    ):
        planned = model.run(query, read_only=True)
        done = model.run(query)
        assert (planned.counts, planned.generation) == (done.counts, done.generation), query
