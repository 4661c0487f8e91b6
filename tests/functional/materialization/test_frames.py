"""How many frames of the package there are between `mv_run` and the engine's call with the
statement that computes a run's rows: docs/design/walk.md, *The names on the way*.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from dbt.tests.util import run_dbt

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.adapter import dbt_engine
from tests.support.package_edges import ROOT

pytestmark = pytest.mark.usefixtures("small_data")
PACKAGE = ROOT / "dbt" / "adapters" / "mvsink"
MOST = 14
COMPUTES = ("write", "collect", "keys", "evaluate", "statement")  # steps, as Spark's jobs are called
VIEW = "{{{{ config(materialized='self_correcting_mv', incremental='{how}') }}}} {query}"
SOURCE = "{{ source('raw', 'rows') }}"
MODELS = {
    "small": VIEW.format(how="never", query=f"select id, v from {SOURCE} where id < 100"),
    "large": VIEW.format(how="never", query=f"select id, v from {SOURCE}"),
    "projected": VIEW.format(how="always", query=f"select id, v + 1 w from {SOURCE}"),
    "grouped": VIEW.format(how="always", query=f"select id % 500 k, max(v + id) v from {SOURCE} group by 1"),
    "added": VIEW.format(how="always", query=f"select id % 50 k, sum(v) n from {SOURCE} group by 1"),
    "task": "{{ config(materialized='continual_task') }} on input {{ ref('projected') }} as "
    "(insert into {{ this }} select id, w from {{ ref('projected') }})",
}


def frames_to(what: str) -> list[str]:
    """The package's frames from `mv_run` to the engine's call, which is the caller's."""
    frame, names = sys._getframe(2), []
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if PACKAGE in path.parents:
            names.append(f"{path.parent.name}/{path.stem}::{frame.f_code.co_name}")
        if frame.f_code.co_name == "mv_run":
            return [*reversed(names), what]
        frame = frame.f_back
    return []


class TestFrames:
    @pytest.fixture(scope="class")
    def models(self):
        sources = 'sources: [{name: raw, schema: "{{ target.schema }}", tables: [{name: rows}]}]'
        return {"raw.yml": sources} | {f"{name}.sql": text for name, text in MODELS.items()}

    @pytest.fixture
    def reached(self, monkeypatch):
        """The longest way of each model and step."""
        longest: dict[tuple[str, str], list[str]] = {}

        def recorded(name):
            call = getattr(dbt_engine.AdapterEngine, name)

            def calling(engine, statement, what):
                names = frames_to(name)
                key = engine.model.split(".")[-1], what
                if what.startswith(COMPUTES) and len(names) > len(longest.get(key, ())):
                    longest[key] = names
                return call(engine, statement, what)

            monkeypatch.setattr(dbt_engine.AdapterEngine, name, calling)

        for name in ("execute", "query", "arrow"):
            recorded(name)
        return longest

    def test_there_are_at_most_so_many(self, project, reached, monkeypatch):
        monkeypatch.setattr(limits, "COMPARED_WHOLE", 200)  # rows: more are compared by buckets
        rows = f"{project.test_schema}.rows"
        project.run_sql(f"create table {rows} using delta as select id, id * 2 v from range(1000)")
        run_dbt(["run"])
        project.run_sql(f"update {rows} set v = 7 where id in (5, 700)")
        reached.clear()
        run_dbt(["run"])
        assert {model for model, _ in reached} == set(MODELS)
        assert {key: names for key, names in reached.items() if len(names) > MOST} == {}
        for model in MODELS:
            [read] = project.run_sql(f"select count(*) from {project.test_schema}.{model}", fetch="one")
            assert read > 0
