"""Steps as seconds, and as spans of OpenTelemetry if it is there."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dbt.adapters.mvsink.engine import timing
from dbt.adapters.mvsink.engine.timing import Stopwatch, span


@pytest.fixture
def exported(monkeypatch):
    """What is exported. The process's provider can be set only once, so it is not."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter


def test_steps_are_children_of_the_run_each_time_they_run(exported):
    watch = Stopwatch()
    with span("run", {"mvsink.model": "s.m"}) as record:
        with watch("write"):
            pass
        with watch("write"):
            pass
        record({"mvsink.rows_inserted": 3})
    *steps, run = exported.get_finished_spans()
    assert [step.name for step in steps] == ["mvsink.write", "mvsink.write"]
    assert {step.parent.span_id for step in steps} == {run.context.span_id}
    assert dict(run.attributes) == {"mvsink.model": "s.m", "mvsink.rows_inserted": 3}
    assert run.status.is_ok and list(watch.seconds) == ["write"]


def test_an_error_is_the_status_without_secrets_and_without_a_stack(exported):
    with pytest.raises(ValueError), span("run"):
        raise ValueError("cannot read s3://key:secret@bucket/x")
    [run] = exported.get_finished_spans()
    assert run.status.status_code is trace.StatusCode.ERROR
    assert run.status.description == "cannot read s3://***@bucket/x"
    assert run.attributes["error.type"] == "ValueError"
    assert run.events == ()


def test_without_a_provider_or_the_package_nothing_happens(monkeypatch):
    for package in (timing.trace, None):
        monkeypatch.setattr(timing, "trace", package)
        watch = Stopwatch()
        with span("run") as record:
            record({"mvsink.kind": "none"})
            with watch("write"):
                pass
        assert list(watch.seconds) == ["write"]
