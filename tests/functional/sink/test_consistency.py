"""Views read as of one time fit together, in SQL: what tests/property/test_consistency.py shows of
many interleavings, of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbt.adapters.mvsink.inputs.reference import Reference, References
from dbt.adapters.mvsink.shard import ShardClient
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.sink import Driver, SinkRequest
from tests.support.session_engine import T0, Model

QUERIES = {
    "base": "select * from dev.source",
    "by_key": "select k, count(*) c from dev.base group by k",
    "total": "select count(*) c from dev.base",
    "both": "select (select sum(c) from dev.by_key) keys, total.c rows from dev.total",
}
READS = {"base": (), "by_key": ("base",), "total": ("base",), "both": ("by_key", "total")}


@dataclass
class World:
    session: Any
    root: Path
    source: str = ""

    def reference(self, name: str) -> Reference:
        model = Model(self.session, self.root, f"dev.{name}")
        with ShardClient().open_reader(model.uri) as reader:
            state = reader.state()
            return Reference(model.name, model.uri, state, Layout.of(reader, state))

    def references(self, name: str) -> References:
        return References({f"dev.{read}": self.reference(read) for read in READS[name]})

    def run(self, name: str, time: int, references: References | None = None) -> None:
        read = references or self.references(name)
        query = QUERIES[name].replace("dev.source", self.source)
        model = Model(self.session, self.root, f"dev.{name}")
        columns = model.columns(read.described(query))
        with model.open(read.described(query)) as handle:
            request = SinkRequest(
                model.name, query, columns, time, time, retain_history=1000, references=read
            )
            Driver(request, handle, model.engine()).run()

    def rows(self, name: str, time: int) -> list[tuple[Any, ...]]:
        return sorted(
            Model(self.session, self.root).engine().query(self.reference(name).collection(time), name)
        )


def values(keys: str) -> str:
    return "(values " + ", ".join(f"('{key}')" for key in keys) + ") as source(k)"


def test_two_runs_that_overlap_never_mix(session, tmp_path):
    """The later run writes every view before the earlier one, which resolved its references first,
    comes to write what reads them.
    """
    world = World(session, tmp_path, values("aab"))
    for name in QUERIES:
        world.run(name, T0)
    world.source = values("aabc")
    world.run("base", T0 + 1)
    before = world.references("by_key")
    world.source = values("ccccd")
    world.run("base", T0 + 2)
    world.run("by_key", T0 + 1, before)
    world.run("by_key", T0 + 2)
    world.run("total", T0 + 1)  # after base has gone on
    world.run("total", T0 + 2)
    world.run("both", T0 + 1)  # after everything has gone on
    contents = {
        T0: (("a", "a", "b"), [("a", 2), ("b", 1)], 3),
        T0 + 1: (("a", "a", "b", "c"), [("a", 2), ("b", 1), ("c", 1)], 4),
        T0 + 2: (("c", "c", "c", "c", "d"), [("c", 4), ("d", 1)], 5),
    }
    for time, (base, keys, count) in contents.items():
        assert world.rows("base", time) == [(key,) for key in base]
        assert world.rows("by_key", time) == keys
        assert world.rows("total", time) == [(count,)]
        assert time == T0 + 2 or world.rows("both", time) == [(count, count)]
