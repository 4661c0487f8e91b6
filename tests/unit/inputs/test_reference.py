"""At which time each relation of a query is read, and what that makes of the query's text."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.inputs.reference import NotReadableThen, Reference, References
from dbt.adapters.mvsink.materialization.response import log_line
from dbt.adapters.mvsink.shard import Antichain, DataFile, ReadPoints, ShardState
from dbt.adapters.mvsink.shard_sql import Counts, Kind, NotRefreshed
from dbt.adapters.mvsink.shard_sql.layout import layout_of
from dbt.adapters.mvsink.sink import Outcome, SinkRequest
from dbt.adapters.mvsink.user_sql.marks import query_at, without_time
from dbt.adapters.mvsink.user_sql.splice import TemporalReference

T = 1_795_168_800_000  # 2026-11-20T10:00:00Z
SCHEMA = pa.schema([("x", pa.string()), ("y", pa.string())])


def reference(name="dev.m", since=T - 1000, upper=T, order=(), times=()):
    """A shard with one batch for each of ``times``."""
    bound = Antichain.empty() if upper is None else Antichain.of(upper)
    files = tuple(DataFile(f"batches/at{t - T}/part-0.parquet", 1, 1, t, t, 1, 1, 0, 1) for t in times)
    state = ShardState(3, UUID(int=1), SCHEMA, 7, Antichain.of(since), bound, files=files)
    parts = layout_of(
        state, f"/{name}", lambda directory: {f"{directory}/part-0.parquet": 1}, lambda file: ["x"]
    )
    return Reference(name, f"/{name}", state, parts, order)


READ_AT = {
    "past the write time": (T + 60_000, T),
    "just past it": (T + 1, T),
    "finished": (None, T),
    "not past it: at its newest": (T, T - 1),
    "far behind: at its newest": (T - 500, T - 501),
}


@pytest.mark.parametrize(("upper", "at"), READ_AT.values(), ids=READ_AT)
def test_a_shard_is_read_as_of_the_write_time_if_it_is_past_it_else_at_its_newest(upper, at):
    references = References({"dev.m": reference(upper=upper, times=[T - 999])})
    assert references.points(T).times == {"dev.m": at}
    early, late = reference(upper=upper, times=[T - 999, at]), reference(upper=upper, times=[T - 999, at + 1])
    read = References({"dev.m": early}).read_at("select * from dev.m", T)
    assert f"at{at - T}" in read
    if upper is None or at + 1 < upper:  # there is a later batch, which is left out
        assert f"at{at + 1 - T}" not in References({"dev.m": late}).read_at("select * from dev.m", T)


def test_the_request_makes_the_text_for_a_write_time():
    references = References(
        {
            "dev.m": reference(upper=T + 9, times=[T - 9]),
            "dev.n": reference("dev.n", upper=T - 5, times=[T - 9]),
        },
        {"raw.d": 4},
    )
    query = "select m.x, timestamp_millis(5L) /* mv_now */ t, 'dev.m' from dev.m join dev.n n on dev.m.x = n.x join raw.d on true"
    text = SinkRequest("dev.q", query, (), T, T, 1000, references=references).query_at(T)
    assert f"timestamp_millis({T}L) /* mv_now */ t, 'dev.m' from (\n" in text
    assert (
        ") as `m` join (\n" in text and ") n on `m`.x = n.x" in text and "version as of 4\n) as `d`" in text
    )
    assert "parquet.`/dev.m/batches/at-9`" in text and "parquet.`/dev.n/batches/at-9`" in text
    assert SinkRequest("dev.q", query, (), T, T, 1000, References()).query_at(T) == query_at(query, T)


def test_the_columns_come_in_the_views_order_while_it_has_the_shards_columns():
    assert reference(order=("y", "x"), times=[T - 9]).collection(T - 1).startswith("select `y`, `x` from (")
    # published before a column came
    assert reference(order=("y",), times=[T - 9]).columns == ("x", "y")


def test_what_has_no_contents_is_refused_when_it_is_read_and_not_when_it_is_analysed():
    empty = replace(reference(since=T, upper=T), first_refresh="2026-11-20T11:00:00Z")
    references = References({"dev.m": empty})
    for ask in (
        lambda: references.read_at("select * from dev.m", T),
        lambda: references.points(T),
        lambda: empty.collection(T),
    ):
        with pytest.raises(
            NotRefreshed, match="dev.m: not refreshed yet; first refresh at 2026-11-20T11:00:00Z"
        ):
            ask()
    assert references.described("select * from dev.m").endswith("where false\n) as `m`")


OUTSIDE = {
    "before since": (lambda m: m.collection(T - 1001), f"as of 2026-11-20T09:59:58.999Z ({T - 1001})"),
    "at upper": (lambda m: m.collection(T), f"as of 2026-11-20T10:00:00Z ({T})"),
    "changes up to since itself": (
        lambda m: m.updates(T - 1000, T),
        f"changes of [2026-11-20T09:59:59Z ({T - 1000})",
    ),
    "changes past upper": (lambda m: m.updates(T - 9, T + 1), f"2026-11-20T10:00:00.001Z ({T + 1})"),
    "history that the run needs": (
        lambda m: References({"dev.m": m}).read_at("select * from dev.m", T - 2000),
        "the time of this run's contents",
    ),
}


@pytest.mark.parametrize(("ask", "message"), OUTSIDE.values(), ids=OUTSIDE)
def test_outside_the_readable_history_the_error_has_both_bounds_both_ways(ask, message):
    with pytest.raises(NotReadableThen) as error:
        ask(reference(times=[T - 9]))
    assert f"the readable times are [2026-11-20T09:59:59Z ({T - 1000}), 2026-11-20T10:00:00Z ({T}))" in str(
        error.value
    )
    assert str(error.value).startswith("dev.m cannot be read ") and message in str(error.value)


def test_a_shard_cannot_have_a_time_travel_clause_of_its_own():
    with pytest.raises(TemporalReference):
        References({"dev.m": reference(times=[T - 9])}).read_at("select * from dev.m version as of 3", T)


def test_the_line_names_what_was_not_read_as_of_the_write_time():
    state = reference(upper=T + 1).state
    outcome = Outcome(Kind.APPEND, Counts(inserted=2), Antichain.of(T), Antichain.of(T + 1), T, state)
    read = ReadPoints({"dev.m": T, "dev.`n`": T - 1000})
    assert (
        log_line(replace(outcome, read=read)) == "+2 -0 at 2026-11-20T10:00:00Z; n as of 2026-11-20T09:59:59Z"
    )
    assert "would write +2 -0; n as of" in log_line(replace(outcome, kind=Kind.READ_ONLY, read=read))
    assert (
        log_line(replace(outcome, read=ReadPoints({"dev.m": T})))
        == log_line(outcome)
        == "+2 -0 at 2026-11-20T10:00:00Z"
    )


def test_the_files_behind_a_time_are_not_part_of_a_definition():
    def query(files):
        return f"select * from (/* mv_as_of dev.m {T} */\nselect * from parquet.`{files}`\n/* mv_end */) as old, dev.n"

    assert (
        without_time(query("/a"))
        == without_time(query("/b"))
        == f"select * from (mv_as_of dev.m {T}) as old, dev.n"
    )
