"""A model under a refresh schedule, run at times of one day."""

from __future__ import annotations

from dataclasses import dataclass

from dbt.adapters.mvsink.durations import parse_time
from dbt.adapters.mvsink.refresh_schedule import RefreshSpec
from dbt.adapters.mvsink.shard import Antichain, ShardClient
from tests.support.session_engine import Model

HOUR, MINUTE = 3_600_000, 60_000
DAY = "2026-11-20"
HOURLY, UNALIGNED = RefreshSpec(((HOUR, 0),)), RefreshSpec(((HOUR, None),))


def at(clock):
    """A time of that day, in ms."""
    return parse_time(f"{DAY} {clock}")


ONCE = RefreshSpec(ats=(at("11:00"),))


def rows(*values):
    return (
        "select cast(x as string) x from values " + ", ".join(f"('{value}')" for value in values) + " as t(x)"
    )


@dataclass
class Scheduled:
    """A model under a schedule: runs at times of the day."""

    model: Model
    refresh: RefreshSpec

    def run(self, now, *values, query=None, **more):
        """Run at ``now`` with the query giving ``values``."""
        return self.model.run(query or rows(*values), time=at(now), refresh=self.refresh, **more)

    def state(self):
        with ShardClient().open_reader(self.model.uri) as reader:
            return reader.state()

    def shown(self):
        return sorted(x for (x,) in self.model.rows())

    def history(self):
        with ShardClient().open_reader(self.model.uri) as reader:
            return reader.history()

    def computed_through(self):
        upper = self.state().upper
        return next(c.note.computed_through for c in reversed(self.history()) if c.upper == upper)

    def assert_state(self, upper, *, readable=True):
        """The upper; and the shard can be read at its newest time exactly if it has contents."""
        state = self.state()
        assert state.upper == (Antichain.empty() if upper == "final" else Antichain.of(at(upper)))
        assert state.readable is readable
        if readable:
            newest = state.upper.stored() - 1
            with ShardClient().open_reader(self.model.uri) as reader:
                table = reader.snapshot(newest)
            counted = [
                x
                for x, n in zip(table["x"].to_pylist(), table["_mv_diff"].to_pylist(), strict=True)
                for _ in range(n)
            ]
            assert sorted(counted) == self.shown()

    def updates(self):
        """Everything the shard holds, as (row, time of the day, diff)."""
        with ShardClient().open_reader(self.model.uri) as reader:
            state = reader.state()
            table = reader.updates(state.since.stored(), state.upper.stored()).to_pylist()
        return sorted((row["x"], row["_mv_time"], row["_mv_diff"]) for row in table)


def scheduled_on(session, root):
    return lambda refresh, **options: Scheduled(
        Model(session, root, options={"retain_history": 24 * HOUR, **options}), refresh
    )
