"""What a run leaves for those who watch it: its limits in the shard, and its spans."""

from __future__ import annotations

import pytest
from dbt.tests.util import run_dbt
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dbt.adapters.mvsink.shard_sql.properties import Freshness, stored_freshness
from tests.functional.materialization.base import MV, Base, configured


class TestObservability(Base):
    @pytest.fixture
    def exported(self, monkeypatch):
        exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
        return exporter

    def test_each_run_is_a_span_and_the_shard_keeps_its_limits(self, project, exported):
        self.set_model(project, configured(freshness={"warn_after": "1 hour"}))
        run_dbt(["run"])
        state = self.state(project)
        assert stored_freshness(state) == Freshness(warn_after=3_600_000)
        *steps, run = exported.get_finished_spans()
        response = self.last(project)
        assert {step.name for step in steps} == {f"mvsink.{step}" for step in response["seconds"]} != set()
        assert all(step.parent.span_id == run.context.span_id for step in steps)
        expected = {
            "model": f"{project.test_schema}.mv",
            "unique_id": "model.test.mv",
            "materialization": "self_correcting_mv",
            "target": "default",
            "kind": "append",
            "mode": "verified",
            "rows_inserted": 3,
            "rows_deleted": 0,
            "upper": response["upper"],
        }
        assert {key: run.attributes.get(f"mvsink.{key}") for key in expected} == expected

        exported.clear()
        self.set_model(project, MV)
        run_dbt(["run"])
        assert stored_freshness(self.state(project)) == Freshness()
        run = exported.get_finished_spans()[-1]
        assert run.attributes["mvsink.mode"] == self.last(project)["mode"]
        assert run.attributes["mvsink.rows_inserted"] == 0

        exported.clear()
        self.set_model(project, configured(freshness={"warn_after": "soon"}))
        run_dbt(["run"], expect_pass=False)
        assert exported.get_finished_spans() == ()
        self.set_source(project, "select 1 id, raise_error('no') name")
        self.set_model(project, MV)
        run_dbt(["run"], expect_pass=False)
        [run] = [each for each in exported.get_finished_spans() if each.name == "mvsink.run"]
        assert run.status.status_code is trace.StatusCode.ERROR
