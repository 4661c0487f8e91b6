"""A shard's past, against a model in plain Python: random histories with duplicates, errors,
compaction and kept history.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.inputs import PendingTime, ShardInput
from dbt.adapters.mvsink.sink import not_null
from tests.support.session_engine import T0, Model

pytestmark = pytest.mark.usefixtures("small_data")

NULL = "null"
ERROR = 'column "x" must not be null'
WIDE = [f"'w{n}'" for n in range(150)]


def query(rows):
    return "select cast(x as string) x from values " + ", ".join(f"({row})" for row in rows) + " as t(x)"


def history(seed, steps):
    """Contents run by run: some rows come, go, and come again; duplicates; now and then a NULL,
    which is an error.
    """
    chance = random.Random(seed)
    rows = ["'a'", "'a'", "'b'", *WIDE]
    for step in range(steps):
        yield [*rows, *([NULL] * chance.choice([0, 0, 0, 1, 2]))]
        if step == 0:
            rows.remove("'a'")  # of two in the first load: no hash can tell which
        for _ in range(chance.randrange(4)):
            if chance.random() < 0.5:
                rows.remove(chance.choice(rows))
            else:
                rows.append(chance.choice(["'a'", "'b'", "'c'", chance.choice(WIDE)]))


def counted(rows):
    """The rows and the errors of one run's contents, as updates count them."""
    return Counter((row.strip("'"), None) if row != NULL else (None, ERROR) for row in rows)


def signed(new, old):
    return {key: new[key] - old[key] for key in new.keys() | old.keys() if new[key] != old[key]}


HISTORIES = {  # seed, history kept in milliseconds, runs
    "compacted to 3 s": (1, 3_000, 12),
    "all history kept": (2, 86_400_000, 22),
    "on Spark": (1, 3_000, 12),
}


@pytest.fixture(scope="module", params=HISTORIES)
def past(request, tmp_path_factory):
    """A shard, and its contents by time as they must be."""
    seed, retain, steps = HISTORIES[request.param]
    session = request.getfixturevalue("quick" if request.param == "on Spark" else "session")
    model = Model(session, tmp_path_factory.mktemp("past"), options={"retain_history": retain})
    contents = {}
    for rows in history(seed, steps):
        outcome = model.run(query(rows), assertions=(not_null("x"),))
        contents[outcome.time] = counted(rows)
    with model.open(query(["'a'"])) as handle:
        yield ShardInput(handle, model.engine(), "m"), contents, handle


def test_the_history_has_the_parts_that_matter(past):
    shard, contents, handle = past
    parts = shard.layout(handle.state())
    assert parts.base is not None and (parts.recent or parts.unhashed)
    assert any(error for rows in contents.values() for _, error in rows)


def test_as_of_every_readable_time(past):
    shard, contents, handle = past
    since = handle.state().since.as_option()
    readable = [time for time in contents if time >= since]
    assert len(readable) >= 3
    tagged = [
        f"select {time}L t, x, _mv_diff, _mv_error from (\n{shard.snapshot(time)}\n)" for time in readable
    ]
    result = {time: Counter() for time in readable}
    for t, x, diff, error in shard.engine.query("\nunion all\n".join(tagged), "tagged"):
        result[t][x, error] += diff
    assert result == {time: contents[time] for time in readable}


def test_plain_rows_or_the_error_of_that_time(past):
    shard, contents, handle = past
    since = handle.state().since.as_option()
    failing = [time for time in contents if time >= since and (None, ERROR) in contents[time]]
    plain = [time for time in contents if time >= since and time not in failing]
    for time in plain[:2] + plain[-2:]:
        assert (
            Counter((x, None) for (x,) in shard.engine.query(shard.contents(time), "contents"))
            == contents[time]
        )
    for time in failing[:1]:
        with pytest.raises(EngineError) as error:
            shard.engine.query(f"select count(*) from (\n{shard.contents(time)}\n) where x = 'q'", "guard")
        # Spark's first line only says that a job has failed
        assert "must not be null" in str(error.value.__cause__)


def test_changes_and_pending_times_are_the_differences(past):
    shard, contents, handle = past
    state = handle.state()
    since, upper = state.since.as_option(), state.upper.as_option()
    times = [time for time in contents if time > since]
    wanted, before = {}, None
    for time, rows in contents.items():
        if time in times and before is not None and (change := signed(rows, before)):
            wanted[time] = change
        before = rows
    for lower, end in [(since + 1, upper), (times[0] + 1, times[-1])]:
        result: dict[int, dict] = {}
        for x, time, diff, error in shard.engine.query(
            f"select x, _mv_time, _mv_diff, _mv_error from (\n{shard.changes(lower, end)}\n)", "changes"
        ):
            result.setdefault(time, {})[x, error] = diff
        inside = {time: change for time, change in wanted.items() if lower <= time < end}
        assert result == inside
        assert shard.pending(lower, end) == [
            PendingTime(
                time,
                any(d > 0 and error is None for (_, error), d in change.items()),
                any(d < 0 and error is None for (_, error), d in change.items()),
                any(error is not None for _, error in change),
            )
            for time, change in inside.items()
        ]


def test_a_difference_to_other_rows(past):
    shard, contents, _ = past
    time = max(contents)
    before = "select x, n _mv_diff, cast(null as string) _mv_error from values ('a', 1L), ('zz', 1L), ('zz', 1L) as t(x, n)"
    query = f"select x, _mv_time, _mv_diff, _mv_error from (\n{shard.difference(before, time)}\n)"
    rows = shard.engine.query(query, "difference")
    wanted = signed(contents[time], Counter({("a", None): 1, ("zz", None): 2}))
    assert {(x, error): diff for x, _, diff, error in rows} == wanted
    assert {at for _, at, _, _ in rows} == {time} and time >= T0
