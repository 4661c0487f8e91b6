"""Which late references a task waits for by default, and what its line says about them."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.continual_task.parse import parse
from dbt.adapters.mvsink.continual_task.task_request import Late, TaskOutcome
from dbt.adapters.mvsink.inputs import ShardInput
from dbt.adapters.mvsink.materialization.late_references import awaited_references, explained, waiting_warning
from dbt.adapters.mvsink.materialization.response import task_response
from dbt.adapters.mvsink.shard import Antichain, Incident, Incidents, ShardClient, Trouble
from dbt.adapters.mvsink.shard_sql import Counts, Kind
from dbt.adapters.mvsink.shard_sql.properties import Pause, pause

NOW = 1_795_186_800_000  # 2026-11-20T15:00:00Z
RATES, SCHEMA = "model.shop.rates", pa.schema([("key", pa.int64())])
READS = "insert into s.t select i.key from s.i i join s.rates r on r.key = i.key"


def node(materialized="self_correcting_mv", **config):
    values = {"materialized": materialized, **config}
    return SimpleNamespace(config=SimpleNamespace(materialized=materialized, get=values.get))


class Place:
    """The reference `s.rates` of a task, and the run of that task."""

    def __init__(self, root, option=None, nodes=None, project="shop", target="dev", rehearsal=False):
        self.handle = ShardClient().open_writer(str(root / "s" / "rates"), SCHEMA, "test")
        owner = {"project": project, "unique_id": RATES, "target": target}
        self.handle.set_properties({"owner": json.dumps(owner)})
        self.reference = ShardInput(self.handle, None)
        self.context = SimpleNamespace(
            options=SimpleNamespace(on_late_reference=option),
            invocation=SimpleNamespace(project="shop", target="dev", rehearsal=rehearsal),
            manifest=SimpleNamespace(nodes={RATES: node()} if nodes is None else nodes),
            shard_root=str(root),
            storage_options=None,
        )

    def awaits(self, statement=READS, views=()):
        program = parse(f"on input s.i as ({statement})", "s.t", "s.t")
        return bool(awaited_references(self.context, program, {"s.rates": self.reference}, views))

    def write(self, time):
        lower, upper = self.handle.fetch_recent_upper(), Antichain.of(time).step_forward()
        self.handle.compare_and_append_batch([], lower, upper)

    def incident(self, **more):
        Incidents(self.context.shard_root).write(
            Incident(
                "s.rates", "shop", RATES, "dev", **{"trouble": Trouble.FAILED, **more}, time=NOW, since=NOW, runs=1,
                messages=("no",), shard_id=str(self.handle.shard_id), version=self.handle.state().version,
            )
        )  # fmt: skip

    def late(self):
        [late] = explained(
            self.context, [Late("s.rates", NOW, NOW - 1000, waits=True)], {"s.rates": self.reference}
        )
        return late


WAITED = {
    "a model of the project": ({}, True),
    "a task of the project": ({"nodes": {RATES: node("continual_task")}}, True),
    "one of another project": ({"project": "mall"}, False),
    "one of another target": ({"target": "prod"}, False),
    "one that is gone": ({"nodes": {}}, False),
    "one that is a table now": ({"nodes": {RATES: node("table")}}, False),
    "one that no run writes": ({"nodes": {RATES: node(read_only=True)}}, False),
    "in a rehearsal, which refreshes only what it runs": ({"rehearsal": True}, False),
    "newest": ({"option": "newest"}, False),
    "wait, also for what no run of the project refreshes": (
        {"option": "wait", "project": "mall", "nodes": {}},
        True,
    ),
}


@pytest.mark.parametrize(("place", "waits"), WAITED.values(), ids=WAITED)
def test_for_which_reference_a_task_waits(tmp_path, place, waits):
    assert Place(tmp_path, **place).awaits() is waits


def test_it_waits_for_what_its_statements_read_alone(tmp_path):
    place = Place(tmp_path)
    unread = "insert into s.t select key from s.i /* s.rates */"
    assert not place.awaits(unread)
    assert place.awaits(unread, ["select * from s.rates"])  # of a view that it reads
    assert place.awaits("delete from s.t where key in (select key from s.rates)")


def test_the_line_and_the_warning_say_for_what_it_waits_and_how_to_go_on(tmp_path):
    place = Place(tmp_path)
    place.incident()
    late = place.late()
    state, upper = place.handle.state(), Antichain.of(NOW)
    outcome = TaskOutcome(Kind.NONE, Counts(), upper, upper, NOW, state, waiting=2, late=(late,))
    answer = task_response(outcome, "")
    assert answer._message == (
        "+0 -0, done up to 2026-11-20T15:00:00Z; 2 pending times wait for s.rates (at 2026-11-20T14:59:59Z; its last run failed at "
        "2026-11-20T15:00:00Z) to pass 2026-11-20T15:00:00Z (`on_late_reference: newest` goes on)"
    )
    assert answer.waits_for == [RATES]
    assert waiting_warning(2, [late]) == (
        "2 times stay pending, because a reference has not passed them: rates (its last run failed at 2026-11-20T15:00:00Z). They follow once "
        "a run has refreshed it; with `on_late_reference: newest` the task goes on with what it holds"
    )


def test_what_keeps_a_reference(tmp_path):
    """The last that happened: nothing, a schedule, a failure, a pause, a run after the failure."""
    place = Place(tmp_path)
    assert place.late().why == ""
    every = json.dumps({"refresh": {"every": [[3_600_000, None]], "at": [], "at_creation": False}})
    place.handle.set_properties({"definition": every})
    place.write(NOW - 1000)
    assert place.late().why == "its schedule has a refresh at 2026-11-20T14:59:59.001Z, which no run has made"
    place.incident(trouble=Trouble.WARNED)
    assert place.late().why.startswith("its schedule")
    place.incident(trouble=Trouble.SKIPPED)
    assert place.late().why == "it was skipped at 2026-11-20T15:00:00Z, because a model upstream of it failed"
    place.incident()
    assert place.late().why == "its last run failed at 2026-11-20T15:00:00Z"
    pause(place.handle, Pause("ada", NOW, "wrong rates"))
    assert place.late().why == "paused by ada at 2026-11-20T15:00:00Z: wrong rates"
    place.handle.set_properties({"paused": "null"})
    place.write(NOW)
    assert place.late().why.startswith("its schedule has a refresh at 2026-11-20T15:00:00.001Z")


def test_what_was_read_at_its_newest_time_needs_no_reason(tmp_path):
    late = Late("s.rates", NOW, NOW - 1000, waits=False)
    assert explained(Place(tmp_path).context, [late], {}) == (replace(late),)
