"""Two runs at once, and one makes a new generation: the other goes on in it, and both succeed."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.shard import Antichain, ShardClient, ShardReplaced, retry_on_replacement
from dbt.adapters.mvsink.sink import Driver
from tests.functional.continual_task.driver import ROWS, Shard
from tests.support.session_engine import Model

WIDE = "select id, id % 7 seven from range({n})"
NARROW = "select id from range({n})"
ROWS_BEFORE, ROWS_AFTER = 20, 30
# what this run does, and what another does meanwhile: query, options
RUNS = {
    "both without the column": ((NARROW, {}), (NARROW, {})),
    "both full refreshes": ((WIDE, {"full_refresh": True}), (WIDE, {"full_refresh": True})),
    "a correction, and a full refresh": ((WIDE, {}), (WIDE, {"full_refresh": True})),
    "a full refresh, and one without the column": ((WIDE, {"full_refresh": True}), (NARROW, {})),
    "only to look, and a full refresh": ((WIDE, {"read_only": True}), (WIDE, {"full_refresh": True})),
}
EARLIER, LATER = "this one is the later run", "the other one is the later run"
STEPS = {"before it stages": "before", "after it has staged": "after", "when it is done": "done"}


class Meanwhile:
    """Has ``act`` called once, before or after the first statement that stages."""

    def __init__(self, engine, moment, act):
        self.engine, self.moment, self.left = engine, moment, [act]

    def act(self, moment):
        if moment == self.moment and self.left:
            self.left.pop()()

    def execute(self, statement, what):
        self.act("before")
        self.engine.execute(statement, what)
        self.act("after")

    def query(self, query, what):
        if what in ("preview", "count"):  # of a run that stages nothing
            self.act("before")
        rows = self.engine.query(query, what)
        if what in ("preview", "count"):
            self.act("after")
        return rows

    def arrow(self, query, what):
        self.act("before")
        table = self.engine.arrow(query, what)
        self.act("after")
        return table

    def __getattr__(self, name):
        return getattr(self.engine, name)


@pytest.mark.parametrize("later", [EARLIER, LATER])
@pytest.mark.parametrize("moment", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize(("this", "other"), RUNS.values(), ids=RUNS)
def test_both_succeed_and_the_contents_are_those_of_one(session, tmp_path, this, other, moment, later):
    model = Model(session, tmp_path)
    model.run(WIDE.format(n=ROWS_BEFORE), time=100)
    mine, others = (300, 200) if later is EARLIER else (200, 300)
    (query, how), (other_query, other_how) = (
        (q.format(n=ROWS_AFTER), changes) for q, changes in (this, other)
    )
    ran = []
    engine = Meanwhile(
        model.engine(), moment, lambda: ran.append(model.run(other_query, time=others, **other_how))
    )
    with model.open(query) as handle:
        Driver(model.request(query, time=mine, **how), handle, engine).run()
        engine.act("done")
        assert len(ran) == 1
        # what the run does next
        assert retry_on_replacement([handle], handle.state).generation == handle.generation
    assert model.rows() in [sorted(model.engine().query(q, "query"), key=repr) for q in (query, other_query)]
    with model.open(query) as handle:
        staged = {file.path for file in handle.storage.list_files("table") if file.path.endswith(".parquet")}
        assert staged - set(handle.storage.removals().times) == {file.path for file in handle.state().files}


def test_what_was_staged_for_an_old_generation_is_never_appended(tmp_path):
    shard = Shard(str(tmp_path / "s"))
    shard.write(10, [(1, 1, 1)])
    with shard.open() as handle:
        batch = handle.batch(shard.table(20, [(2, 2, 1)]), Antichain.of(11), Antichain.of(21))
        shard.remake(10, [(3, 3, 1)])
        with pytest.raises(ShardReplaced):
            handle.compare_and_append_batch([batch], Antichain.of(11), Antichain.of(21))
        assert handle.follow().generation == 1
        with pytest.raises(Exception, match="delete"):
            handle.compare_and_append_batch([batch], Antichain.of(11), Antichain.of(21))
        handle.compare_and_append(shard.table(20, [(4, 4, 1)]), Antichain.of(11), Antichain.of(21))
    assert shard.contents() == [(3, 3), (4, 4)]


def test_a_shard_that_is_replaced_again_and_again_is_given_up(tmp_path):
    shard = Shard(str(tmp_path / "s"), ROWS, ShardClient())
    shard.write(10, [(1, 1, 1)])
    tried = []
    with shard.open() as handle:

        def act():
            tried.append(handle.generation)
            shard.remake(10, [(1, 1, 1)])
            return handle.state()

        with pytest.raises(ShardReplaced):
            retry_on_replacement([handle], act)
    assert tried == list(range(10))
