"""The ways to keep the models of the project, each a target of it, run by dbt in this process."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent / "project"
REBUILDS = ("table", "parquet")
# dbt's incremental models append what is newer: after updates and deletes they have to be rebuilt.
APPENDING = "incremental"
VARIANTS = (*REBUILDS, APPENDING, "ours", "always", "never")


@dataclass(frozen=True)
class ModelRun:
    """One model in one run. ``steps``: seconds of the steps of a maintained model."""

    model: str
    relation: str
    seconds: float
    way: str
    reason: str
    inserted: int
    deleted: int
    steps: Mapping[str, float]
    warnings: Sequence[str]


@dataclass(frozen=True)
class VariantRun:
    """All models of ``variant`` after ``step``, and the wall time of dbt."""

    step: str
    variant: str
    models: Mapping[str, ModelRun]
    wall: float

    @property
    def seconds(self) -> float:
        """The sum of the models' seconds."""
        return sum(each.seconds for each in self.models.values())

    def ways(self) -> str:
        """How many models were kept in which way."""
        ways = [each.way for each in self.models.values()]
        return ", ".join(f"{ways.count(way)} {way}" for way in sorted(set(ways)))

    def lines(self) -> list[str]:
        """The models as lines of JSON."""
        shared = {"step": self.step, "variant": self.variant}
        return [json.dumps(shared | vars(each)) for each in self.models.values()]


@dataclass
class Runner:
    """A copy of the project below ``place``, over the ``sources``; of it the ``selected`` models,
    all if there are none.
    """

    invoke: Callable[[Sequence[str]], Any]
    place: Path
    sources: Path
    selected: Sequence[str] = ()
    relations: dict[tuple[str, str], str] = field(default_factory=dict)  # by variant and model

    def __post_init__(self) -> None:
        shutil.copytree(PROJECT, self.project, ignore=shutil.ignore_patterns("target", "logs", ".*"))
        self.invoke(self._arguments("run-operation", REBUILDS[0], "register_sources"))

    @property
    def project(self) -> Path:
        return self.place / "project"

    def run(self, step: str, variant: str) -> VariantRun:
        """Run all models of ``variant``."""
        arguments = self._arguments("run", variant)
        arguments += ["--select", *self.selected] if self.selected else []
        arguments += ["--full-refresh"] if variant == APPENDING and step == "dml" else []
        started = time.monotonic()
        results = self.invoke(arguments)
        wall = time.monotonic() - started
        models = {run.model: run for run in map(model_run, results) if run}
        self.relations |= {(variant, model): run.relation for model, run in models.items()}
        return VariantRun(step, variant, models, wall)

    def _arguments(self, command: str, variant: str, *more: str) -> list[str]:
        """The command line of a command of dbt; what it has parsed is kept for each target."""
        place, target, logs = map(str, (self.project, self.place / "target" / variant, self.place / "logs"))
        arguments = ["--quiet", command, *more, "--project-dir", place, "--profiles-dir", place]
        arguments += ["--target", variant, "--target-path", target, "--log-path", logs]
        return [*arguments, "--vars", json.dumps({"tpcdi_sources": str(self.sources)})]


def model_run(result: Any) -> ModelRun | None:
    """What dbt says of a model; None for the hook."""
    if result.node.resource_type != "model":
        return None
    response, kind = result.adapter_response or {}, result.node.config.materialized
    maintained = kind == "self_correcting_mv"
    return ModelRun(
        result.node.name,
        result.node.relation_name,
        result.execution_time,
        response.get("mode", "") if maintained else "appended" if kind == "incremental" else "rebuilt",
        response.get("not_incremental", ""),
        response.get("rows_inserted", 0),
        response.get("rows_deleted", 0),
        response.get("seconds", {}),
        response.get("warnings", []),
    )
