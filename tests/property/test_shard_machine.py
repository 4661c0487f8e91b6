"""Random histories of a shard against the model: handles, batches, appends, truncation, compaction,
columns, since, generations, faults.

The bulk runs on the in-memory storage with faults, a share on Delta. The last test holds us to the
number of steps.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from dbt.adapters.mvsink.shard import (
    CompactionPlan,
    InvalidUsage,
    MemoryStorage,
    SchemaMismatch,
    ShardClient,
    ShardReplaced,
    UpperMismatch,
    compact_with_pyarrow,
)
from dbt.adapters.mvsink.shard import commit_loop as machine
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from tests.support.clocks import collect_at
from tests.support.model import ModelShard
from tests.support.shards import SCHEMA, at, evolve, live, rows, staged, updates, widened
from tests.support.storage_faults import FaultyStorage, random_faults

STEPS = itertools.count()
EXAMPLES = int(os.environ.get("MVSINK_MACHINES", "25"))  # of 50 steps each
HANDLES = 3
rows_of = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.sampled_from([-2, -1, 0, 1, 1, 3])), max_size=4
)
handles = st.integers(0, HANDLES - 1)
widths = st.integers(1, 4)


class ShardMachine(RuleBasedStateMachine):
    """Each rule does one thing to the shard and to the model, and expects the same outcome."""

    def new_storage(self):
        return MemoryStorage("memory")

    @initialize(seed=st.integers(0, 2**16))
    def open(self, seed):
        self.inner = self.new_storage()
        self.storage = FaultyStorage(self.inner, random_faults(seed, 0.1))
        self.client = ShardClient(locate=lambda uri: self.storage)
        self.handles = [self.client.open_writer("s", SCHEMA) for _ in range(HANDLES)]
        self.known = [0] * HANDLES  # the generation that each handle was opened in
        self.columns = list(SCHEMA)  # the shard's
        self.meant = [1] * HANDLES  # how many columns each handle knows of
        self.model = ModelShard()

    def shifted(self, changes):
        return [(row, self.model.upper + offset, diff) for row, offset, diff in changes]

    def updates(self, *changes):
        """NULL in the columns that were added."""
        return widened(
            updates(*changes), **{column.name: [None] * len(changes) for column in self.columns[1:]}
        )

    def handle(self, index):
        """The handle, opened again if a generation has gone by or columns were added, after it was
        seen to say so.
        """
        if self.known[index] != self.model.generation:
            with pytest.raises(ShardReplaced):
                self.handles[index].state()
            self.handles[index] = self.client.open_writer("s", pa.schema(self.columns))
            self.known[index], self.meant[index] = self.model.generation, len(self.columns)
        if self.meant[index] != len(self.columns):
            upper = self.model.upper
            # unless it knows, what it means for the old columns is refused; then too
            with pytest.raises(SchemaMismatch):
                old = widened(
                    updates(("a", upper, 1)), **{c.name: [None] for c in self.columns[1 : self.meant[index]]}
                )
                self.handles[index].compare_and_append(old, at(upper), at(upper + 1))
            self.meant[index] = len(self.columns)
        return self.handles[index]

    @rule(index=handles, changes=rows_of, width=widths)
    def compare_and_append(self, index, changes, width):
        lower, upper = self.model.upper, self.model.upper + width
        kept = [row for row in self.shifted(changes) if row[1] < upper]
        self.handle(index).compare_and_append(self.updates(*kept), at(lower), at(upper))
        self.model.append(kept, lower, upper)

    @rule(index=handles, off=st.sampled_from([-1, 1, 2]), width=widths)
    def compare_and_append_elsewhere(self, index, off, width):
        expected = self.model.upper + off
        if expected >= 0:
            with pytest.raises(UpperMismatch) as error:
                self.handle(index).compare_and_append(self.updates(), at(expected), at(expected + width))
            assert error.value.current == at(self.model.upper)

    @rule(index=handles, changes=rows_of, before=st.integers(0, 3), width=st.integers(1, 5))
    def append_what_may_be_written_already(self, index, changes, before, width):
        lower = max(0, self.model.upper - before)
        upper = lower + width
        kept = [(row, lower + offset, diff) for row, offset, diff in changes if lower + offset < upper]
        self.handle(index).append(self.updates(*kept), at(lower), at(upper))
        if upper > self.model.upper:
            self.model.append(kept, self.model.upper, upper)

    @rule(index=handles, first=rows_of, second=rows_of, width=widths)
    def two_wide_batches_cut(self, index, first, second, width):
        handle, lower = self.handle(index), self.model.upper
        batches = [
            handle.batch(self.updates(*self.shifted(changes)), at(lower), at(lower + 9))
            for changes in (first, second)
        ]
        handle.compare_and_append_batch(batches, at(lower), at(lower + width))
        self.model.append(self.shifted(first) + self.shifted(second), lower, lower + width)

    @rule(index=handles, other=handles, changes=rows_of)
    def hand_a_batch_over(self, index, other, changes):
        lower = self.model.upper
        described = (
            self.handle(index)
            .batch(self.updates(*self.shifted(changes)), at(lower), at(lower + 4))
            .to_transmittable()
        )
        receiver = self.handle(other)
        receiver.compare_and_append_batch(
            [receiver.batch_from_transmittable_batch(described)], at(lower), at(lower + 4)
        )
        self.model.append(self.shifted(changes), lower, lower + 4)

    @rule(index=handles, changes=rows_of)
    def stage_and_delete(self, index, changes):
        self.handle(index).batch(
            self.updates(*self.shifted(changes)), at(self.model.upper), at(self.model.upper + 4)
        ).delete()

    @rule(index=handles, back=st.integers(0, 4))
    def downgrade_since(self, index, back):
        wanted = max(0, self.model.upper - back)
        self.model.since = max(self.model.since, wanted)
        assert self.handle(index).downgrade_since(at(wanted)) == at(self.model.since)

    @rule(index=handles)
    def compact(self, index):
        state = self.handle(index).state()
        assert compact_with_pyarrow(self.handle(index), CompactionPlan(state.files, state.since))

    @rule(index=handles, changes=rows_of, time=st.integers(0, 9), drawn=st.integers(0, 9))
    def replace(self, index, changes, time, drawn):
        if drawn:  # a generation now and then is enough
            return
        handle = self.handle(index)
        kept = [(row, time, diff) for row, _, diff in changes]
        batch = handle.batch(self.updates(*kept), at(time), at(time + 1))
        handle.replace([batch], pa.schema(self.columns), at(time + 1), at(time))
        self.model.replace(kept, time)
        self.known[index] = self.model.generation

    @rule(index=handles, drawn=st.integers(0, 4))
    def add_a_column(self, index, drawn):
        if drawn or len(self.columns) > 3:
            return
        name = f"y{len(self.columns)}"
        assert evolve(self.handle(index), name)
        self.columns.append(pa.field(name, pa.string()))
        self.meant[index] = len(self.columns)

    @rule(index=handles)
    def collect(self, index):
        handle = self.handle(index)
        collect_at(handle, 4 * 10**12, staged_grace_ms=0, removed_grace_ms=0)
        assert staged(handle) == live(handle)

    @invariant()
    def same_as_the_model(self):
        next(STEPS)
        if not hasattr(self, "model"):
            return
        with self.client.open_reader("s") as reader:
            state = reader.state()
            assert (state.upper, state.since) == (at(self.model.upper), at(self.model.since))
            for time in {self.model.since, (self.model.since + self.model.upper) // 2, self.model.upper - 1}:
                if self.model.since <= time < self.model.upper:
                    assert rows(reader.snapshot(time)) == self.model.at(time)
            with pytest.raises(InvalidUsage):
                reader.snapshot(self.model.upper)


class DeltaShardMachine(ShardMachine):
    """The same on a real table."""

    def new_storage(self):
        self.place = tempfile.TemporaryDirectory()
        return DeltaStorage(str(Path(self.place.name) / "s"))

    def teardown(self):
        if hasattr(self, "place"):
            self.place.cleanup()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    """Half the time would be spent waiting between one try and the next."""
    monkeypatch.setattr(machine, "FIRST_PAUSE", 0.0001)
    monkeypatch.setattr(machine, "CROWDED_PAUSE", 0.0001)


def run(kind, examples, steps):
    run_state_machine_as_test(
        kind,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )


def test_in_memory_with_faults():
    run(ShardMachine, EXAMPLES, 50)


def test_on_delta_with_faults():
    run(DeltaShardMachine, 8, 40)


def test_most_of_the_steps_were_taken():
    assert next(STEPS) >= 30 * EXAMPLES


def test_the_model_itself_can_tell_a_difference():
    model = ModelShard()
    model.append([("a", 1, 1), ("a", 3, -1)], 0, 3)
    assert (model.at(1), model.upper) == ([("a", 1)], 3)
    assert pa.schema(SCHEMA).names == ["x"]
