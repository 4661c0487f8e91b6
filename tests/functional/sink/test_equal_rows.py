"""Rows of which the shard has copies: their hashes are looked up, and left out, in this process."""

from __future__ import annotations

from collections import Counter

from dbt.adapters.mvsink.sink import Incremental
from tests.property.test_increments import World, unlimited

_ = unlimited  # the fixture


def test_a_change_of_copies_takes_one_write_and_no_join(quick, tmp_path, unlimited):
    world = World(0, tmp_path, "select v from db.a", quick)
    for number, copies in enumerate((3, 4, 2, 2, 5, 0, 1)):
        world.time += 1000
        world.rows["a"] = Counter({(1, "x"): copies, (2, "y"): 1 + number, (3, None): 2})
        world.write("a")
        world.engine.ran.clear()
        assert world.ran(incremental=Incremental.ALWAYS).written.incremental is bool(number)
        ran = Counter(what for what, _ in world.engine.ran)
        looked_up = [text for what, text in world.engine.ran if what == "look up"]
        assert not number or (ran["write"] <= 1 and not any("join" in text for text in looked_up))
    assert looked_up  # by then some rows of the shard have no hash
