"""dbt in this process: quiet, with its results as values. Nothing of dbt's is imported before the
first run.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import Any

import click

TASK = "continual_task"
MAINTAINED = ("self_correcting_mv", TASK)
QUIET = ("--log-level", "none", "--log-level-file", "debug", "--no-use-colors", "--no-write-json")
WAITS = ("waiting for the embedded metastore", "starting Spark")  # said on stderr: minutes may pass


@dataclass(frozen=True)
class Model:
    """A model of the project, as `dbt ls` tells it."""

    unique_id: str
    materialized: str
    selector: str  # what `--select` calls it

    @property
    def maintained(self) -> bool:
        return self.materialized in MAINTAINED

    @property
    def name(self) -> str:
        """As in ``ref()``; `orders.v2` for a version."""
        return self.unique_id.split(".", 2)[-1]


@dataclass(frozen=True)
class Ran:
    """What a run did to one model. ``response`` is its `adapter_response`, empty if it failed."""

    unique_id: str
    status: str
    message: str
    relation: str
    compiled: str
    response: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.unique_id.split(".", 2)[-1]

    @property
    def ok(self) -> bool:
        return self.status == "success"

    @property
    def skipped(self) -> bool:
        return self.status == "skipped"


@dataclass
class Said:
    """What a macro said: its own lines, and the adapter's warnings."""

    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def hear(self, event: Any) -> None:
        """Keep what one of dbt's events says."""
        if event.info.name == "JinjaLogInfo":
            self.lines.append(str(event.data.msg))
        elif event.info.name == "AdapterEventWarning":
            self.warnings.append(str(event.data.base_msg))


class DbtFailed(click.ClickException):
    """dbt did not come as far as results."""


@dataclass(frozen=True)
class Dbt:
    """dbt with these options. Its ``vars`` are part of what it parses: others cost a parse of the
    whole project.
    """

    project_dir: str
    profiles_dir: str
    profile: str | None = None
    target: str | None = None
    vars: Mapping[str, Any] = field(default_factory=dict)

    def parsed(self) -> Any:
        """dbt's manifest of the project."""
        return self._invoke(["parse"], None)

    def models(self, select: Sequence[str], exclude: Sequence[str], manifest: Any = None) -> list[Model]:
        """The models of the selection, whatever they are."""
        keys = ["--resource-type", "model", "--output", "json", "--output-keys", "unique_id", "fqn", "config"]
        told = self._invoke(["ls", *keys, *_selection(select, exclude)], manifest) or []
        found = [json.loads(line) for line in told]
        return [
            Model(node["unique_id"], node["config"]["materialized"], ".".join(node["fqn"])) for node in found
        ]

    def run(self, models: Iterable[Model], manifest: Any = None) -> list[Ran]:
        """`dbt run` of exactly these."""
        result = self._invoke(["run", "--select", *(model.selector for model in models)], manifest)
        return [_ran(each) for each in result.results]

    def operation(self, macro: str, arguments: Mapping[str, Any], manifest: Any = None) -> Said:
        """`dbt run-operation`: what the macro said. Raises `DbtFailed` if it failed."""
        said = Said()
        result = self._invoke(["run-operation", macro, "--args", json.dumps(arguments)], manifest, said.hear)
        failed = [
            str(each.message or each.status) for each in result.results if str(each.status) != "success"
        ]
        if failed:
            raise DbtFailed("\n".join([*said.lines, *failed]))
        return said

    def _invoke(
        self, command: Sequence[str], manifest: Any, hear: Callable[[Any], None] | None = None
    ) -> Any:
        """What dbt gives back; `DbtFailed` if that is an exception, `KeyboardInterrupt` as it is.
        ``hear`` gets dbt's events.
        """
        from dbt.cli.main import dbtRunner

        with redirect_stdout(io.StringIO()):
            listeners = [_say_what_is_waited_for, *([hear] if hear else [])]
            done = dbtRunner(manifest, listeners).invoke([*command, *self._options()])
        if isinstance(done.exception, KeyboardInterrupt):
            raise done.exception
        if done.exception is not None:
            raise DbtFailed(str(done.exception).strip())
        return done.result

    def _options(self) -> list[str]:
        options = [*QUIET, "--project-dir", self.project_dir, "--profiles-dir", self.profiles_dir]
        options += ["--profile", self.profile] if self.profile else []
        options += ["--target", self.target] if self.target else []
        return [*options, "--vars", json.dumps(self.vars, default=str)]


def flat(given: Any) -> list[str]:
    """The words of dbt's `--select`, however often and however many at a time it was given."""
    if isinstance(given, str):
        return [given]
    return [word for part in given or () for word in flat(part)]


def _selection(select: Sequence[str], exclude: Sequence[str]) -> list[str]:
    return [*(("--select", *select) if select else ()), *(("--exclude", *exclude) if exclude else ())]


def _ran(result: Any) -> Ran:
    node = result.node
    return Ran(
        unique_id=str(node.unique_id),
        status=str(getattr(result.status, "value", result.status)),
        message=str(result.message or ""),
        relation=f"{node.schema}.{node.alias}",
        compiled=str(getattr(node, "compiled_code", None) or ""),
        response=dict(result.adapter_response or {}),
    )


def _say_what_is_waited_for(event: Any) -> None:
    text = str(event.info.msg)
    if any(wait in text for wait in WAITS):
        click.echo(text, err=True)
