"""Measures corrections of a wide join from the changes of its inputs: `make bench` runs it.

The model joins six tables of TPC-H (20 columns; 6 million rows at scale 1). The large ones are
shards, which change before each run: of the lines and orders a share is replaced, and of these one
in ten is deleted. *recent*: the keys that change are among the highest 5 %, which are in the last
row groups; *scattered*: they are spread by a hash. Every run alternates with a rebuild as a Parquet
table from plain tables; a figure is the median of `--rounds`, a ratio that to the rebuild.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.bench import make_tpch, start
from dbt.adapters.mvsink.engine import arrow_schema
from dbt.adapters.mvsink.incremental import analyse
from dbt.adapters.mvsink.references.changes import sides_of_shard, unchanged_shard
from dbt.adapters.mvsink.references.reference import Reference, References
from dbt.adapters.mvsink.shard import Antichain, Progress, ShardClient
from dbt.adapters.mvsink.shard_sql import BatchDescription, Layout
from dbt.adapters.mvsink.shard_sql.stager import Stager
from dbt.adapters.mvsink.sink import Correction, Desired, Driver, Full, Increment, Incremental
from tests.support.session_engine import T0, Model, SessionEngine, open_shard

TABLES = ("lineitem", "orders", "customer", "part", "supplier", "nation")
SHARDS = {"lineitem": "l_orderkey", "orders": "o_orderkey", "customer": "c_custkey", "part": "p_partkey"}
HOUR = 3_600_000
QUERY = (
    "select l_orderkey, l_linenumber, o_custkey, c_name, c_mktsegment, n_name, o_orderdate, o_orderpriority, "
    "l_partkey, p_name, p_brand, l_suppkey, s_name, l_quantity, l_extendedprice, l_discount, "
    "cast(l_extendedprice * (1 - l_discount) as decimal(18, 4)) net, l_shipdate, l_shipmode, l_comment "
    "from {lineitem} join {orders} on l_orderkey = o_orderkey join {customer} on o_custkey = c_custkey "
    "join nation on c_nationkey = n_nationkey join {part} on l_partkey = p_partkey join supplier on l_suppkey = s_suppkey"
)
NAMED = QUERY.format(**{name: f"shards.{name} {name}" for name in SHARDS})
PLAIN = QUERY.format(**{name: name for name in SHARDS})
CHANGED = {  # what replaces a column's value
    "lineitem": "cast(l_extendedprice + 1 as decimal(15, 2)) l_extendedprice",
    "orders": "concat('x', o_orderpriority) o_orderpriority",
}


@dataclass
class Inputs:
    """The shards, and the times and versions at which the model has read them."""

    session: Any
    root: Path
    changing: tuple[str, ...]
    recent: bool
    share: float
    round: int = 0
    read: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.models = {
            name: Model(self.session, self.root, f"in.{name}", clock=iter([T0])) for name in SHARDS
        }
        for name, model in self.models.items():
            model.run(f"select * from {name}")

    def change(self) -> None:
        """Replace the next share of the keys, and delete one in ten of these."""
        for name in self.changing:
            model, key = self.models[name], SHARDS[name]
            parts = int(1 / self.share) // (20 if self.recent else 1)
            chosen = f"pmod(xxhash64({key}), {parts}) = {self.round}"
            if self.recent:
                [[top]] = self.session.sql(f"select max({key}) from {name}").collect()
                chosen += f" and {key} > {int(top * 0.95)}"
            new = f"select * except ({CHANGED[name].split()[-1]}), {CHANGED[name]} from {name}"
            with open_shard(model.uri, None) as handle:
                state = handle.state()
                columns = Layout.of(handle, state).columns
                items = ", ".join(column.name for column in columns)
                signed = (
                    f"select {items}, -1L _mv_diff from {name} where {chosen} union all "
                    f"select {items}, 1L from ({new}) where {chosen} and pmod(xxhash64({key}, 1), 10) > 0"
                )
                time = T0 + (self.round + 1) * HOUR
                rows = Desired(signed, columns, state.salt, signed=True).hashed()
                updates = Correction(columns, 0).advance_since(time).insert(rows).updates_before(time + 1)
                stager = Stager(SessionEngine(self.session), handle, name)
                description = BatchDescription(state.upper, Antichain(time + 1))
                batch = stager.adopt(stager.stage(updates, "change"), description)
                handle.compare_and_append_batch([batch], description.lower, description.upper)
        self.round += 1

    def references(self) -> dict[str, Reference]:
        references = {}
        for name, model in self.models.items():
            reader = ShardClient().open_reader(model.uri)
            state = reader.state()
            layout = Layout.of(reader, state)
            references[f"shards.{name}"] = Reference(
                f"shards.{name}", model.uri, state, layout, read=reader.columns_of, history=reader.history
            )
        return references


@dataclass
class Known:
    """Evidence of the shards' positions alone."""

    inputs: Inputs
    references: dict[str, Reference]

    def unchanged(self, state: Any, recorded: Any, time: int) -> bool:
        return False

    def progress(self, state: Any, time: int) -> Progress:
        self.inputs.read = {
            name: (reference.time_for(time), reference.state.version)
            for name, reference in self.references.items()
        }
        return Progress()

    def increment(self, state: Any, recorded: Any, time: int) -> Increment | Full:
        engine = SessionEngine(self.inputs.session)

        def columns_of(name: str) -> list[tuple[str, str]]:
            if name in self.references:
                return [(c.name, c.type.text) for c in self.references[name].layout.columns]
            return engine.columns(f"select * from {name}")

        analysed = analyse(NAMED, columns_of)
        sides = []
        for name, reference in self.references.items():
            (before, version), now = self.inputs.read[name], reference.time_for(time)
            side = (
                unchanged_shard(name, reference, now)
                if before == now
                else sides_of_shard(name, reference, before, now, version)
            )
            if isinstance(side, Full):
                return side
            sides.append(side)
        return Increment(analysed, tuple(sides))


def correction(session: Any, inputs: Inputs, root: Path) -> Callable[[], None]:
    """Runs of the model, an hour apart, each after a change."""
    model = Model(session, root)
    columns = model.columns(PLAIN)

    def run() -> None:
        references = inputs.references()
        request = model.request(
            NAMED,
            columns=columns,
            time=T0 + inputs.round * HOUR,
            references=References(references),
            evidence=Known(inputs, references),
            incremental=Incremental.ALWAYS,
        )
        with open_shard(model.uri, arrow_schema(columns)) as handle:
            outcome = Driver(request, handle, model.engine()).run()
        taken = {step: round(took, 2) for step, took in outcome.seconds.items()}
        print(f"[+{outcome.counts.inserted} -{outcome.counts.deleted} {taken}]", flush=True)

    return run


def main() -> None:
    """Measure the chosen steps and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm", type=int, default=2, help="rounds that do not count")
    parser.add_argument("--scale", type=float, default=1.0, help="of TPC-H: 1 is 6 million rows")
    parser.add_argument("--share", type=float, default=0.001)
    parser.add_argument(
        "--where", nargs="*", default=["recent", "scattered"], choices=["recent", "scattered"]
    )
    parser.add_argument("--changing", nargs="*", default=["lineitem", "orders"], choices=list(CHANGED))
    arguments = parser.parse_args()
    session = start()
    make_tpch(session, TABLES, arguments.scale)
    for where in arguments.where:
        place = Path(tempfile.mkdtemp(prefix="mvsink-bench-"))
        try:
            inputs = Inputs(session, place, tuple(arguments.changing), where == "recent", arguments.share)
            run = correction(session, inputs, place / "model")
            run()
            times = in_turn_with(arguments, inputs, run, session)
            print(f"\n{where:<24}{times[0]:>9.2f}{times[1]:>9.2f}{times[0] / times[1]:>8.2f}", flush=True)
        finally:
            shutil.rmtree(place, ignore_errors=True)


def in_turn_with(
    arguments: argparse.Namespace, inputs: Inputs, run: Callable[[], None], session: Any
) -> tuple[float, float]:
    """As `in_turn`; the change before each run is not measured."""
    import statistics
    import time

    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(arguments.rounds + arguments.warm):
        inputs.change()
        for step, times in ((run, seconds[0]), (lambda: rebuild(session), seconds[1])):
            started = time.monotonic()
            step()
            if number >= arguments.warm:
                times.append(time.monotonic() - started)
    return statistics.median(seconds[0]), statistics.median(seconds[1])


def rebuild(session: Any) -> None:
    """What dbt's `table` materialization does on Spark."""
    session.sql("drop table if exists rebuilt")
    session.sql(f"create table rebuilt using parquet as {PLAIN}")


if __name__ == "__main__":
    main()
