"""The published view's text: short, whatever the number of files, and naming directories only."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from uuid import UUID

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.credentials import DERBY_TEXT
from dbt.adapters.mvsink.engine import Column, DataflowError, EngineError, parse_type
from dbt.adapters.mvsink.engine.sql import IN_ONE_TASK
from dbt.adapters.mvsink.exceptions import GrantsNotOffered
from dbt.adapters.mvsink.materialization import grants
from dbt.adapters.mvsink.materialization.publish import Docs, WantedView, check_fits
from dbt.adapters.mvsink.shard import Antichain, DataFile, ShardState

COLUMNS = 40
SCHEMA = pa.schema([(f"a_column_with_quite_a_long_name_{i}", pa.string()) for i in range(COLUMNS)])
LIMIT = 16_000  # characters; the embedded metastore refuses 32,700


def shard(batches, files, *, hashed=True, diff=-1, errors=0):
    def part(batch, n):
        base = batch == 0
        path = f"batches/{batch:032x}/part-{n:05}.parquet"
        least = 1 if base else diff
        return DataFile(
            path,
            1,
            1000 if base else 10,
            5,
            5,
            least,
            1,
            errors,
            (1000 if base else 10) if hashed or base else 3,
        )

    listed = [part(b, n) for b in range(batches) for n in range(files // batches + 1)]
    return ShardState(
        7, UUID(int=1), SCHEMA, 2**61, since=Antichain.of(5), upper=Antichain.of(10**13), files=tuple(listed)
    )


CASES = {
    "compacted": {"batches": 1, "files": 5000},
    "16 batches": {"batches": 16, "files": 5000},
    "16 batches, rows without hashes": {"batches": 16, "files": 5000, "hashed": False},
    "16 batches, errors": {"batches": 16, "files": 5000, "errors": 1},
}


def view_text(state: ShardState) -> str:
    return wanted(state).replacing()


def wanted(state: ShardState) -> WantedView:
    counted = {
        directory: {f.path: f.size for f in state.files if f.directory == directory}
        for directory in {f.directory for f in state.files}
    }
    handle = SimpleNamespace(
        uri="/a/rather/long/place/for/shards/analytics/orders", files_in=counted.get, column_names=None
    )
    return WantedView("`analytics`.`orders`", handle, state, None, Docs(), ())


@pytest.mark.parametrize("sizes", CASES.values(), ids=CASES)
def test_five_thousand_part_files(sizes):
    state = shard(**sizes)
    text = view_text(state)
    assert len(text) < LIMIT
    assert "part-" not in text and all(file.batch_id in text for file in state.files)


@pytest.mark.parametrize("files, few", [(4, True), (5000, False)])
def test_only_a_small_shard_is_read_in_one_task(files, few):
    assert (IN_ONE_TASK in view_text(shard(2, files))) == few


@pytest.mark.parametrize("files, few", [(4, True), (5000, False)])
def test_batches_that_only_insert_are_one_plain_scan(files, few):
    """Of the same form as the first load alone: nothing new has to be read before it is shown."""
    several, alone = (wanted(shard(batches, files, diff=1)) for batches in (4, 1))
    assert several.form == alone.form
    text = several.replacing()
    assert (IN_ONE_TASK in text) == few
    assert all(word not in text for word in ("group by", "lateral view", " join ", "union all"))


@pytest.mark.parametrize(
    "other",
    [
        {"min_diff": -1},
        {"min_diff": None},
        {"max_diff": None},
        {"max_diff": 2},
        {"min_diff": 2, "max_diff": 2},
    ],
    ids=str,
)
def test_one_file_with_other_updates_and_they_are_added_up(other):
    state = shard(4, 4, diff=1)
    *files, last = state.files
    text = wanted(replace(state, files=(*files, replace(last, **other)))).replacing()
    assert "group by" in text


class Engine:
    """Answers `show grants` with ``rows``, or refuses it."""

    def __init__(self, rows=None, sqlstate="42601"):
        self.rows, self.sqlstate, self.ran = rows, sqlstate, []

    def query(self, query, what):
        self.ran.append(query)
        if self.rows is None:
            raise EngineError("no", self.sqlstate)
        return self.rows

    def execute(self, statement, what):
        self.ran.append(statement)


def test_grants_on_the_view_are_given_again():
    engine = Engine(
        [
            ("ann", "SELECT", "TABLE", "s.v"),
            ("ann", "OWN", "TABLE", "s.v"),
            ("bob", "USAGE", "DATABASE", "s"),
            ("`b", "SELECT", "VIEW", ""),
        ]
    )
    before = grants.on_view(engine, "`s`.`v`")
    grants.restore(engine, "`s`.`v`", before)
    assert engine.ran[1:] == ["grant SELECT on `s`.`v` to `ann`", "grant SELECT on `s`.`v` to ```b`"]


def test_an_engine_without_grants_is_asked_once():
    engine = Engine()
    assert grants.on_view(engine, "v") == () == grants.on_view(engine, "v")
    assert len(engine.ran) == 1
    assert grants.on_view(
        Engine([("ann", "SELECT", "VIEW", "")]), "v"
    )  # of another target, in the same process


WANTED = {"select": ["ann"]}
APPLICABLE = {  # the engine, the config, the profile's key, what is left
    "grants": (lambda: Engine([]), WANTED, "refuse", WANTED),
    "a relation that is not there yet": (lambda: Engine(sqlstate="42P01"), WANTED, "refuse", WANTED),
    "none here, and skipped": (Engine, WANTED, "skip", {}),
    "no config": (Engine, {}, "refuse", {}),
    "no config at all": (Engine, None, "refuse", {}),
}


@pytest.mark.parametrize(("make", "wanted", "unsupported", "left"), APPLICABLE.values(), ids=APPLICABLE)
def test_which_grants_of_a_config_can_be_applied(make, wanted, unsupported, left):
    assert grants.applicable(make(), "s.v", "s.v", wanted, unsupported) == left


def test_grants_that_are_refused_name_model_config_and_remedy():
    with pytest.raises(GrantsNotOffered) as raised:
        grants.applicable(Engine(), "s.v", "s.v", WANTED, "refuse")
    words = raised.value.msg
    assert (
        words.startswith("s.v: config `grants` (got {'select': ['ann']})")
        and "unsupported_grants: skip" in words
    )


def test_a_refusal_of_another_kind_is_no_absence():
    with pytest.raises(EngineError):
        grants.on_view(Engine(sqlstate="42501"), "v")


@pytest.mark.parametrize("sizes", CASES.values(), ids=CASES)
def test_many_columns_with_long_names_are_spelled_once_a_scan(sizes):
    names = [f"long_name_as_generators_make_{i}" for i in range(200)]
    state = replace(shard(**sizes), schema=pa.schema([(name, pa.int64()) for name in names]))
    counted = {
        directory: {f.path: f.size for f in state.files if f.directory == directory}
        for directory in {f.directory for f in state.files}
    }
    handle = SimpleNamespace(uri="/shards/analytics/orders", files_in=counted.get, column_names=None)
    text = WantedView("s.v", handle, state, None, Docs(), ()).replacing().split("\nas\n", 1)[1]
    assert len(text) < DERBY_TEXT and text.count(f"`{names[7]}`") <= 2


def test_a_text_that_the_metastore_cannot_keep_is_foreseen():
    def columns(number):
        return tuple(Column(f"{'c' * 60}{i}", parse_type("bigint", "c")) for i in range(number))

    check_fits(DERBY_TEXT, "/shards/analytics/orders", columns(100))
    with pytest.raises(DataflowError, match="400 columns .* stores at most 32700. Nothing was written"):
        check_fits(DERBY_TEXT, "/shards/analytics/orders", columns(400))
