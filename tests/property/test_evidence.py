"""A run that says that its inputs are unchanged is never wrong.

Random histories of a view over two shards and a table of files: inputs change, also during a run;
other tools add files to the view's shard, remove some, or append to it; its query, a setting and
its options change; it is compacted. `MVSINK_EVIDENCE_STEPS` makes it longer: 10,000 take a minute.
"""

from __future__ import annotations

import json
import os
import random
import uuid
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.engine import shard_columns
from dbt.adapters.mvsink.engine.session import SESSION
from dbt.adapters.mvsink.inputs.reference import Reference, References
from dbt.adapters.mvsink.materialization.evidence import evaluating, recollection
from dbt.adapters.mvsink.materialization.options.table import ModelOptions
from dbt.adapters.mvsink.shard import (
    Antichain,
    MemoryStorage,
    ShardClient,
    compact_with_pyarrow,
    compaction_due,
)
from dbt.adapters.mvsink.shard.state import Change, DataFile
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.stager import EXACT
from tests.support.engines import NoEngine
from tests.support.seldom import often
from tests.support.shards import SCHEMA, updates

STEPS = int(os.environ.get("MVSINK_EVIDENCE_STEPS", "1500"))
PLAN = """== Analyzed Logical Plan ==
x: string
Union false, false
:- Project [cast(null as string) AS x#1]
:  +- OneRowRelation
+- SubqueryAlias spark_catalog.raw.t
   +- Relation spark_catalog.raw.t[x#2] csv
== Optimized Logical Plan ==
"""


class Catalog(NoEngine):
    """What Spark says of the session and of the one table."""

    def __init__(self, location: Path):
        self.location, self.ansi, self.zone = location, "true", "UTC"
        self.listed: list[tuple[str, str]] = []

    def execute(self, statement, what):
        assert what == "refresh", statement

    def query(self, query, what):
        if query == "set":
            return [("spark.master", "local[1]"), ("spark.sql.ansi.enabled", self.ansi), *self.listed]
        if query == SESSION:
            return [("4.1", self.zone, "spark_catalog", "default", "bigint", 1)]
        if query.startswith("explain extended"):
            return [(PLAN,)]
        assert query == "describe table extended `spark_catalog`.`raw`.`t` as json"
        return [(json.dumps({"provider": "csv", "location": f"file:{self.location}"}),)]


class World:
    def __init__(self, seed: int, directory: Path):
        self.random, self.directory, self.time, self.clock = random.Random(seed), directory, 0, 10**9
        self.name = uuid.uuid4().hex  # of its invocations: what is kept for one is no other world's
        storages: dict[str, MemoryStorage] = {}
        self.client = ShardClient(locate=lambda uri: storages.setdefault(uri, MemoryStorage(uri)))
        self.inputs = [self.client.open_writer(name, SCHEMA) for name in ("in0", "in1")]
        self.own = self.client.open_writer("own", SCHEMA)
        self.catalog, self.variant, self.invocation, self.proved = Catalog(directory), "a", 0, 0
        self.on_error = "fail"
        (directory / "first.csv").write_text("first\n")
        self.touch(directory / "first.csv")
        for handle in self.inputs:
            handle.compare_and_append(updates(("begin", 0, 1)), Antichain.of(0), Antichain.of(1))

    def touch(self, file: Path) -> None:
        self.clock += self.random.randrange(1, 3000)
        os.utime(file, ns=(self.clock * 10**6,) * 2)

    # what happens

    def shard_changes(self) -> None:
        handle = self.random.choice(self.inputs)
        lower, self.time = handle.upper, self.time + self.random.randrange(1, 5)
        new = Antichain.of(max(self.time, lower.stored() + 1))
        self.time = max(self.time, new.stored() - 1)
        present = contents(handle, lower.stored() - 1)
        removed = self.random.random() < 0.4 and +present
        row = self.random.choice(sorted(+present)) if removed else f"r{self.random.randrange(5)}"
        changed = [] if self.random.random() < 0.3 else [(row, lower.stored(), -1 if removed else 1)]
        handle.compare_and_append(updates(*changed), lower, new, since=Antichain.of(lower.stored()))
        due = compaction_due(handle.state())
        if due is not None or self.random.random() < 0.1:
            compact_with_pyarrow(handle, due) if due else None

    def files_change(self) -> None:
        kind, files = self.random.randrange(3), sorted(self.directory.glob("*.csv"))
        target = self.random.choice(files)
        if kind == 0 and len(files) > 1:
            target.unlink()
        elif kind == 1:
            target.write_text(f"w{self.random.randrange(9)}\n")
            self.touch(target)
        else:
            added = self.directory / f"f{self.random.randrange(6)}.csv"
            added.write_text(f"a{self.random.randrange(9)}\n")
            self.touch(added)

    def other_tool_writes(self) -> None:
        state, storage = self.own.state(), self.own.storage
        assert isinstance(storage, MemoryStorage)
        kind = self.random.randrange(3)
        if kind == 0 and state.files:
            storage.commit(
                state.version + 1, Change(kind="foreign", removes=(self.random.choice(state.files),))
            )
        elif kind == 1:
            storage.blobs["loose.parquet"] = updates(("foreign", max(state.upper.stored() - 1, 0), 1))
            add = DataFile("loose.parquet", 1, 1, errors=0)
            if add.path not in {file.path for file in state.files}:
                storage.commit(state.version + 1, Change(kind="foreign", adds=(add,)))
        else:  # a program that uses the shard layer and knows no progress
            upper = state.upper
            self.own.compare_and_append(
                updates(("foreign", upper.stored(), 1)), upper, Antichain.of(upper.stored() + 1)
            )

    def definition_changes(self) -> None:
        choice = self.random.randrange(3)
        if choice == 0:
            self.variant = self.random.choice("ab")
        elif choice == 1:
            self.catalog.ansi = self.random.choice(["true", "false"])
        else:
            self.on_error = self.random.choice(["fail", "record"])

    def compacted(self) -> None:
        due = compaction_due(self.own.state())
        if due is not None:
            compact_with_pyarrow(self.own, due)

    # a run

    def truth(self, time: int) -> Counter:
        rows = Counter({self.variant: 1, self.catalog.ansi: 1, self.on_error: 1})
        for handle in self.inputs:
            rows += contents(handle, min(time, handle.state().upper.stored() - 1))
        for file in self.directory.glob("*.csv"):
            rows[file.read_text().strip()] += 1
        return rows

    def run(self) -> None:
        self.time, self.invocation = self.time + 1, self.invocation + 1
        state = self.own.state()
        time = max(self.time, state.upper.stored())
        shards = {
            handle.uri: Reference(handle.uri, handle.uri, handle.state(), Layout.of(handle, handle.state()))
            for handle in self.inputs
        }
        context = SimpleNamespace(
            engine=self.catalog,
            query=f"select '{self.variant}' x",
            compiled=f"select '{self.variant}' x",
            options=ModelOptions.parse("m", {"verify": "never", "on_error": self.on_error}),
            node={"config": {}},
            invocation=SimpleNamespace(
                id=f"{self.name}/{self.invocation}", full_refresh=False, time=time, verify=False
            ),
            read_only=False,
            embedded=True,
            storage_options=None,
        )
        earlier, at = recollection(context, References(shards), state) or (None, 0)
        certain = earlier if earlier is not None and earlier.proves(state, self.own.progress, at) else None
        if certain is not None:
            assert contents(self.own, state.upper.stored() - 1) == self.truth(time), "said to be unchanged"
            evidence, wanted, self.proved = certain, self.truth(time), self.proved + 1
        else:
            evidence = evaluating(context, References(shards), "the query", earlier=earlier)
            wanted = self.truth(time)
            if self.random.random() < 0.2:  # an input changes while it is read
                self.files_change()
                wanted = self.random.choice([wanted, self.files_now(wanted, time)])
        self.commit(state, time, wanted, evidence)

    def files_now(self, before: Counter, time: int) -> Counter:
        return self.truth(time)

    def commit(self, state, time: int, wanted: Counter, evidence) -> None:
        current = contents(self.own, state.upper.stored() - 1) if state.readable else Counter()
        diffs = {row: wanted[row] - current[row] for row in {*wanted, *current}}
        batch = self.own.batch(
            updates(*((row, time, diff) for row, diff in diffs.items() if diff)),
            state.upper,
            Antichain.of(time + 1),
        )
        if self.random.random() < 0.1:  # between the evaluation and the commit
            self.random.choice([self.other_tool_writes, self.compacted])()
        if self.own.state().upper != state.upper:
            batch.delete()
            return
        self.own.compare_and_append_batch(
            [batch], state.upper, Antichain.of(time + 1), progress=evidence.progress(state, time)
        )
        if self.random.random() < 0.9:  # else the process dies here
            self.own.set_properties(evidence.properties(self.own.state(), shard_columns(SCHEMA)))


def contents(handle, time: int) -> Counter:
    state = handle.state()
    rows: Counter = Counter()
    for file in state.files:
        table = handle.storage.blobs[file.path]
        for row in pa.table(table).to_pylist():
            if row["_mv_time"] <= time:
                rows[row["x"]] += row["_mv_diff"]
    return Counter({row: count for row, count in rows.items() if count})


@pytest.mark.parametrize("seed", often(range(5), 0, 1))
def test_what_is_said_to_be_unchanged_is(seed, tmp_path):
    world = World(seed, tmp_path)
    happenings = [
        (world.run, 10),
        (world.shard_changes, 2),
        (world.files_change, 1),
        (world.other_tool_writes, 0.5),
        (world.definition_changes, 0.7),
        (world.compacted, 1),
    ]
    steps = STEPS // 5
    for happening in world.random.choices(*zip(*happenings), k=steps):
        happening()
    assert world.proved > steps / 20  # it is said at all


@pytest.mark.parametrize(
    ("listed", "zone", "unchanged"),
    [
        ([], "UTC", True),
        ([("spark.sql.debug.maxToStringFields", "25")], "UTC", True),
        ([("spark.sql.session.timeZone", "UTC"), *((name, "as before") for name in EXACT)], "UTC", True),
        ([("spark.sql.session.timeZone", "Asia/Tokyo")], "Asia/Tokyo", False),
        ([("spark.sql.legacy.timeParserPolicy", "LEGACY")], "UTC", False),
    ],
)
def test_settings_that_a_run_set_and_set_back_are_no_other_settings(tmp_path, listed, zone, unchanged):
    """On a server they are listed from then on, with the values that they had before."""
    world = World(0, tmp_path)
    world.run()
    world.catalog.listed, world.catalog.zone = listed, zone
    world.run()
    assert world.proved == unchanged
