"""The example project twice, over the same arrivals: its models from the changes of their inputs,
and always evaluated. After every round the tables are equal, as Spark and as Polars read them.

``MVSINK_TEXT_ROUNDS=20`` adds as many rounds of random arrivals.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from dbt.cli.main import dbtRunner

from tests.support import incremental_modes
from tests.support.package_edges import ROOT

EXAMPLE = ROOT / "example_project"
MARTS = ("dim_planes", "fct_flights", "delays_by_carrier_and_hour")
MODES = ("wherever", "never")
MORE_ROUNDS = int(os.environ.get("MVSINK_TEXT_ROUNDS", "0"))


@pytest.fixture
def arrivals(tmp_path: Path) -> Any:
    """What arrives, month by month."""
    spec = importlib.util.spec_from_file_location("arrivals", EXAMPLE / "arrivals.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "arrivals", module)
        spec.loader.exec_module(module)
        yield module


class Project:
    """A copy of the example, whose tables are in a schema of its own."""

    def __init__(self, place: Path, mode: str, target: dict[str, Any], seed: pa.Table):
        self.place, self.mode, self.schema = place / mode, mode, f"flights_{mode}"
        self.target = target
        shutil.copytree(EXAMPLE, self.place, ignore=shutil.ignore_patterns("data", ".mvsink", "target"))
        profile = {"nyc_flights": {"target": "dev", "outputs": {"dev": {**target, "schema": self.schema}}}}
        (self.place / "profiles.yml").write_text(json.dumps(profile))
        pa.csv.write_csv(seed, self.place / "seeds" / "airlines.csv")

    def dbt(self, *command: str, arrivals: Path) -> dict[str, Any]:
        """Each model's response."""
        places = ("--profiles-dir", str(self.place), "--project-dir", str(self.place))
        variables = ("--vars", json.dumps({"arrivals": str(arrivals)}))
        with pytest.MonkeyPatch.context() as patch:
            incremental_modes.install(self.mode, patch)
            result = dbtRunner().invoke([*command, "--quiet", *places, *variables])
        assert result.success, (self.mode, result.exception, [r.message for r in result.result or []])
        results = json.loads((self.place / "target" / "run_results.json").read_text())["results"]
        return {each["unique_id"].split(".")[-1]: each["adapter_response"] for each in results}

    def published(self, model: str) -> pl.DataFrame:
        """The rows of a model's Delta table, as Polars reads and sorts them."""
        place = f"{self.target['shard_root']}/{self.schema}/{model}/table"
        return pl.scan_delta(place).sort(pl.all()).collect()


def corrected(months: Any, number: int) -> pa.Table:
    """Some flights of that month, with other delays and a version of their own."""
    flights = months.month(number).slice(0, 2_000)
    delays = pa.compute.add(flights.column("dep_delay"), number)
    place = flights.schema.get_field_index("dep_delay")
    return months._versioned(flights.set_column(place, "dep_delay", delays), 2 + number)


def at_random(arrive: Any, months: Any, number: int) -> None:
    """Round ``number``: flights, weather or planes are corrected, again or for the first time, or
    corrections of flights are taken back.
    """
    chosen = random.Random(number)
    what = chosen.choice(("flights", "flights", "weather", "planes", "taken back"))
    corrections = sorted((arrive.root / "flights").glob("random-*.parquet"))
    if what == "taken back" and corrections:
        chosen.choice(corrections).unlink()
    elif what in ("flights", "taken back"):
        flights = months.month(chosen.randint(1, 3))
        some = flights.take(sorted(chosen.sample(range(len(flights)), chosen.choice((1, 40, 1500)))))
        delays = pa.compute.add(some.column("dep_delay"), chosen.randint(-20, 60))
        place = some.schema.get_field_index("dep_delay")
        some = some.set_column(place, "dep_delay", delays)
        arrive._put("flights", f"random-{number}", months._versioned(some, 10 + number))
    elif what == "weather":
        weather = months.read("weather.csv")
        kept = sorted(chosen.sample(range(len(weather)), len(weather) - chosen.randint(0, 500)))
        arrive._put("weather", "2013", weather.take(kept))
    else:
        planes = months.read("planes.csv")
        some = planes.take(sorted(chosen.sample(range(len(planes)), chosen.choice((1, 60)))))
        place = some.schema.get_field_index("seats")
        some = some.set_column(place, "seats", pa.compute.add(some.column("seats"), chosen.randint(0, 9)))
        arrive._put("planes", f"random-{number}", months._versioned(some, 10 + number))


@pytest.mark.embedded("two projects in one session")
@pytest.mark.timeout(1800 + 300 * MORE_ROUNDS)
def test_all_rounds_give_equal_tables(spark, arrivals, dbt_profile_target, tmp_path):
    before = os.getcwd()
    place = tmp_path / "arrivals"
    arrive, seed = arrivals.Arrivals.fresh(place), arrivals.read("airlines.csv")
    projects = [Project(tmp_path, mode, dbt_profile_target, seed) for mode in MODES]
    rounds = [
        arrive.january,
        arrive.february,
        lambda: arrive._put("flights", "late-1", corrected(arrivals, 1)),
        lambda: (place / "flights" / "2013-02.parquet").unlink(),
        lambda: arrive._put(
            "planes", "2014", arrivals._versioned(arrivals.read("planes.csv").slice(9, 50), 2)
        ),
    ]
    rounds += [partial(at_random, arrive, arrivals, number) for number in range(MORE_ROUNDS)]
    modes: set[str] = set()
    try:
        for number, change in enumerate(rounds):
            change()
            for project in projects:
                if number == 0:
                    project.dbt("seed", arrivals=place)
                answers = project.dbt("run", "--exclude", "tasks", arrivals=place)
                if project.mode == "wherever" and number:
                    modes |= {answers[mart]["mode"] for mart in MARTS}
            for mart in MARTS:
                one, other = (f"select * from {project.schema}.{mart}" for project in projects)
                for missing in (f"{one} except all {other}", f"{other} except all {one}"):
                    assert spark.sql(missing).count() == 0, (number, mart)
            one, other = (project.published("fct_flights") for project in projects)
            assert one.equals(other), number
            assert len(one) == spark.table(f"{projects[0].schema}.fct_flights").count()
    finally:
        os.chdir(before)
    assert modes == {"incremental", "unchanged"}
