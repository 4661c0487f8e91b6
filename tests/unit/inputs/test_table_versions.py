"""The version of a table at the time of a refresh, from what the engine says of its versions."""

from __future__ import annotations

import re
from datetime import datetime, timezone

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.inputs.delta_format import SKEW
from dbt.adapters.mvsink.inputs.protocol import EMPTY, UNKNOWN, Pinned, TableOptions
from dbt.adapters.mvsink.inputs.reference import OWN, OtherRefresh, References, Refresh, TableVersions
from tests.support.engines import NoEngine

T = 1_795_168_800_000
MINUTE = 60_000
DELTA = {"delta.minReaderVersion": "1"}
ICEBERG = {"format": "iceberg/parquet", "format-version": "2", "current-snapshot-id": "30"}
invocations = iter(range(1000))


class Delta(NoEngine):
    """Versions from 0, or from ``oldest``, written at ``times`` (minutes after T)."""

    def __init__(self, times, *, oldest=0, gone=(), missing=(), arrow=True, settings=()):
        self.rows = [(oldest + i, T + at * MINUTE) for i, at in enumerate(times)][::-1]
        self.gone, self.missing, self.has_arrow, self.named = gone, missing, arrow, dict(settings)
        self.zones, self.asked = [], []

    def _limited(self, query):
        self.asked.append(query)
        limit = re.search(r"limit (\d+)", query)
        return self.rows[: int(limit[1])] if limit else self.rows

    def query(self, query, what):
        if query.startswith("describe history"):
            versions = self._limited(query)
            moments = [datetime.fromtimestamp(at / 1000, timezone.utc) for _, at in versions]
            return [(v, str(at.replace(tzinfo=None))) for (v, _), at in zip(versions, moments)]
        if query.startswith("select count"):
            if int(query.split()[-1]) in self.missing:
                raise EngineError("[FAILED_READ_FILE]", "KD001")
            return [(1,)]
        if query.endswith("as json"):
            raise EngineError("not of this table", "0A000")
        return [("", ""), ("Provider", "delta"), ("Location", "file:/not here")]

    def facts(self, query, what):
        return list(self.named.items())

    def arrow(self, query, what):
        if not self.has_arrow:
            return None
        versions, times = zip(*self._limited(query))
        return pa.table(
            {
                "version": versions,
                "timestamp": pa.array([at * 1000 for at in times], pa.timestamp("us", "UTC")),
            }
        )

    def settings(self, wanted):
        self.zones.append(wanted)
        return super().settings(wanted)

    def columns(self, query):
        if int(query.split()[-1]) in self.gone:
            raise EngineError("[DELTA_VERSION_NOT_FOUND]")
        return []


def pinned(engine, minute, *, properties=DELTA, source=True, **refresh):
    wanted = Refresh(None if minute is None else T + minute * MINUTE, **refresh)
    versions = TableVersions(TableOptions(engine), f"versions {next(invocations)}", wanted)
    return versions.of("s.t", properties, source=source)


TIMES = [0, 10, 20, 30]
DELTAS = {
    "written last before the refresh": (Delta(TIMES), 40, Pinned(3)),
    "written at the refresh": (Delta(TIMES), 20, Pinned(2)),
    "written since": (Delta(TIMES), 19, Pinned(1)),
    "several versions of one moment": (Delta([0, 10, 10, 30]), 12, Pinned(2)),
    "younger than the refresh": (Delta(TIMES), -1, Pinned(3, "its oldest version is of 2026-11-20T10:00:00Z")),
    "its log begins later": (Delta(TIMES, oldest=7), -1, Pinned(10, "its oldest version is of 2026-11-20T10:00:00Z")),
    "its log has no checkpoint of it": (Delta(TIMES, gone=[1]), 19, Pinned(3, "its version 1 cannot be read any more")),
    "vacuumed": (Delta(TIMES, missing=[1]), 19, Pinned(3, "files of its version 1 are gone")),
    "whether it is vacuumed is not known": (
        Delta(TIMES, settings={"spark.sql.files.ignoreMissingFiles": "true"}), 19,
        Pinned(3, "whether files of its version 1 are gone is not known"),
    ),
    "over Thrift, in any zone": (Delta(TIMES, arrow=False), 19, Pinned(1)),
    "no refresh is due": (Delta(TIMES), None, Pinned(3)),
}  # fmt: skip


@pytest.mark.parametrize(("engine", "minute", "expected"), DELTAS.values(), ids=DELTAS)
def test_row_k_of_a_delta_table(engine, minute, expected):
    assert pinned(engine, minute) == expected
    assert all(zone == {"spark.sql.session.timeZone": "UTC"} for zone in engine.zones)
    assert bool(engine.zones) is not (engine.has_arrow or minute is None)


def test_row_k_the_runs_own_time_is_that_of_every_model_of_the_run():
    assert pinned(Delta(TIMES), 5, own=True) == Pinned(3)
    assert pinned(Delta(TIMES), 40, late=False, source=False) == Pinned(3)
    assert pinned(Delta(TIMES), 25, late=False, source=False) == Pinned(3, OWN)
    assert pinned(Delta(TIMES), 25, late=False) == Pinned(2)
    assert TableVersions(TableOptions(Delta(TIMES)), "versions own").of("s.t", DELTA, source=True) == Pinned(
        3
    )


def test_row_k_a_long_log_is_read_as_far_as_it_takes():
    engine = Delta(range(1000))
    assert pinned(engine, 950) == Pinned(950)
    assert [query.split("s.t")[1] for query in engine.asked] == [" limit 1", " limit 1", " limit 100"]
    # one that begins shortly before the refresh may lack one whose time Delta moves behind it
    engine = Delta(range(1000))
    assert pinned(engine, 999 - 99 + SKEW / MINUTE - 1) == Pinned(904)
    assert engine.asked[-1].endswith("limit 10000")


class Iceberg(NoEngine):
    """Snapshots 10, 20 and 30 that became current then (minutes after T); ``log``: so did the
    metadata files, None without a snapshot.
    """

    def __init__(self, snapshots=(0, 10, 20), *, log=(), expired=(), branch=False):
        self.snapshots, self.log, self.expired, self.branch = snapshots, log, expired, branch

    def query(self, query, what):
        if ".history" in query:
            return [(10 * (i + 1), T + at * MINUTE) for i, at in enumerate(self.snapshots)]
        if ".metadata_log_entries" in query:
            return [(each, T + at * MINUTE) for each, at in self.log]
        if query.startswith("show tblproperties"):
            return list(ICEBERG.items())
        return [("Name", "ice.s.other" if self.branch else "ice.s.t")]

    def execute(self, statement, what):
        assert statement == "refresh table s.t"

    def columns(self, query):
        if int(query.split()[-1]) in self.expired:
            raise EngineError("expired")
        return []


OLDEST = "its oldest snapshot is of 2026-11-20T10:00:00Z"
SNAPSHOTS = {
    "the present one": (Iceberg(), 25, Pinned(30)),
    "one that has been replaced since": (Iceberg(), 19, Pinned(20)),
    "one that was rolled back": (Iceberg([0, 10, 20, 30]), 25, Pinned(30)),
    "none yet, in an empty table": (Iceberg(log=[(None, -9), (10, 0)]), -5, Pinned(EMPTY)),
    "younger than the refresh": (Iceberg(log=[(None, -3), (10, 0)]), -5, Pinned(30, OLDEST)),
    "its history begins later": (Iceberg(log=[(10, 0)]), -5, Pinned(30, OLDEST)),
    "expired": (Iceberg(expired=[20]), 19, Pinned(30, "its version 20 cannot be read any more")),
    "a branch": (Iceberg(branch=True), 19, Pinned(None, UNKNOWN)),
}


@pytest.mark.parametrize(("engine", "minute", "expected"), SNAPSHOTS.values(), ids=SNAPSHOTS)
def test_row_k_of_an_iceberg_table(engine, minute, expected):
    assert pinned(engine, minute, properties=ICEBERG) == expected


def test_row_k_versions_of_one_refresh_are_not_read_for_another():
    references = References(pinned={"s.t": 3}, refresh=Refresh(T))
    assert "version as of 3" in references.read_at("select * from s.t", T)
    with pytest.raises(OtherRefresh, match="are now due at 2026-11-20T10:01:00Z; run again"):
        references.read_at("select * from s.t", T + MINUTE)
