"""Runs dbt in this process, quietly, and returns its results as values.

Importing dbt's runner takes long, so it happens at the first run.
"""

from __future__ import annotations

import io
import json
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

import click

from dbt.adapters.mvsink.cli.errors import CodedError, NoSuchModel, SeveralModels
from dbt.adapters.mvsink.history.shard_diff import Query
from dbt.adapters.mvsink.masking import masked

VIEW, TASK = "self_correcting_mv", "continual_task"
MAINTAINED = (VIEW, TASK)
OPERATION_FAILED = ("RunningOperationCaughtError", "RunningOperationUncaughtError")  # events of dbt
QUIET = ("--log-level", "none", "--no-use-colors", "--no-write-json")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
SHOWN = (  # messages: of what may take minutes, and why
    "waiting for the embedded metastore",
    "starting Spark",
    "has ended without a word",
)


@dataclass(frozen=True)
class Model:
    """A model of the project, as `dbt ls` lists it."""

    unique_id: str
    materialized: str
    selector: str  # its name for `--select`

    @property
    def maintained(self) -> bool:
        return self.materialized in MAINTAINED

    @property
    def name(self) -> str:
        """Its name as in ``ref()``; `orders.v2` for a version."""
        return self.unique_id.split(".", 2)[-1]


@dataclass(frozen=True)
class RunResult:
    """The result of one model's run. ``response`` is its `adapter_response`, empty if it failed."""

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
class MacroOutput:
    """The lines that a macro logged, the adapter's warnings, and why the macro failed."""

    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    error: str = ""

    def collect(self, event: Any) -> None:
        """Keep the text of an event of dbt, if it is a macro's line or a warning."""
        if event.info.name == "JinjaLogInfo":
            self.lines.append(str(event.data.msg))
        elif event.info.name == "AdapterEventWarning":
            self.warnings.append(str(event.data.base_msg))
        elif event.info.name in OPERATION_FAILED:
            self.error = str(event.data.exc).strip()


class DbtFailed(CodedError):
    """dbt, or a model that it ran, failed. The text is dbt's, with a code if the error is ours."""

    error_code = "MVS-836"


@dataclass(frozen=True)
class Dbt:
    """dbt with the options of a command. If ``vars`` differ from those of the last run, `parsed`
    reads the whole project again, and so does the user's next run. Therefore what only runs need is
    given to them (`with_vars`), not to `parsed`.

    ``target_path`` is where dbt keeps what it made of the project, by default where the project has
    it.
    ``state`` is a directory with the manifest of another state of the project. Selectors like
    `state:modified` compare with it. With ``defer``, models that are not selected are read from
    where they are in that state. Without ``log_file``, nothing is written to dbt's log: its
    statements may have what must be forgotten.
    """

    project_dir: str
    profiles_dir: str
    profile: str | None = None
    target: str | None = None
    vars: Mapping[str, Any] = field(default_factory=dict)
    state: str | None = None
    defer: bool = False
    favor_state: bool = False
    target_path: str | None = None
    log_file: bool = True

    def with_vars(self, **more: Any) -> Dbt:
        """The same with ``more`` variables."""
        return replace(self, vars={**self.vars, **more})

    def parsed(self) -> Any:
        """dbt's manifest of the project."""
        return self._invoke(["parse"], None)

    def models(self, select: Sequence[str], exclude: Sequence[str], manifest: Any = None) -> list[Model]:
        """The selected models, of every materialization."""
        keys = ["--resource-type", "model", "--output", "json", "--output-keys", "unique_id", "fqn", "config"]
        lines = self._invoke(["ls", *keys, *_selection(select, exclude), *self._state()], manifest) or []
        nodes = [json.loads(line) for line in lines]
        return [
            Model(node["unique_id"], node["config"]["materialized"], ".".join(node["fqn"])) for node in nodes
        ]

    def run(self, models: Iterable[Model], manifest: Any = None) -> list[RunResult]:
        """`dbt run` of exactly these models. Returns their results, and those of the run's hooks
        (`on-run-start`, `on-run-end`) that failed.
        """
        selected = ["--select", *(model.selector for model in models)]
        deferred = [*(["--defer"] if self.defer else []), *(["--favor-state"] if self.favor_state else [])]
        result = self._invoke(["run", *selected, *self._state(), *deferred], manifest)
        every = [_ran(each) for each in result.results]
        return [
            ran for ran in every if not (ran.unique_id.startswith("operation.") and ran.status == "success")
        ]

    def operation(self, macro: str, arguments: Mapping[str, Any], manifest: Any = None) -> MacroOutput:
        """`dbt run-operation`: the macro's output. Raises `DbtFailed` if it failed."""
        output = MacroOutput()
        result = self._invoke(
            ["run-operation", macro, "--args", json.dumps(arguments)], manifest, output.collect
        )
        failed = [
            str(each.message or output.error or each.status)
            for each in result.results
            if str(each.status) != "success"
        ]
        if failed:
            raise DbtFailed("\n".join([*output.lines, *failed]))
        return output

    def ask(self, macro: str, request: Any, manifest: Any, answers: int = 1) -> list[Any]:
        """Call a macro with a request as JSON. It answers by logging ``answers`` lines of JSON at
        its end, which are returned as values.
        """
        output = self.operation(macro, {"request": json.dumps(request)}, manifest)
        return [json.loads(line) for line in output.lines[-answers:]]

    def _invoke(
        self, command: Sequence[str], manifest: Any, listener: Callable[[Any], None] | None = None
    ) -> Any:
        """dbt's result of a command. ``listener`` gets dbt's events. If dbt ends with an exception,
        raises `DbtFailed`, or `KeyboardInterrupt` if it was interrupted.
        """
        from dbt.cli.main import dbtRunner

        with redirect_stdout(io.StringIO()):
            listeners = [_show_messages, *([listener] if listener else [])]
            done = dbtRunner(manifest, listeners).invoke([*command, *self._options()])
        if isinstance(done.exception, KeyboardInterrupt):
            raise done.exception
        if done.exception is not None:
            raise DbtFailed(str(done.exception).strip())
        return done.result

    def _state(self) -> list[str]:
        return ["--state", self.state] if self.state else []

    def _options(self) -> list[str]:
        level = "debug" if self.log_file else "none"
        options = [
            *QUIET,
            "--log-level-file",
            level,
            "--project-dir",
            self.project_dir,
            "--profiles-dir",
            self.profiles_dir,
        ]
        options += ["--profile", self.profile] if self.profile else []
        options += ["--target", self.target] if self.target else []
        options += ["--target-path", self.target_path] if self.target_path else []
        return [*options, "--vars", json.dumps(self.vars, default=str)]


def named_model(dbt: Dbt, name: str, manifest: Any) -> Model:
    """The project's model of that name or unique id. Raises `click.UsageError` if there is none, or
    if there are several.
    """
    models = [
        each
        for each in dbt.models((), (), manifest)
        if name in (each.unique_id, each.name, str(manifest.nodes[each.unique_id].name))
    ]
    if not models:
        raise NoSuchModel(f"there is no model {name!r}")
    if len(models) > 1:
        raise SeveralModels(f"{name!r} is several models: {', '.join(each.unique_id for each in models)}")
    return models[0]


def result_of(results: Iterable[RunResult], model: Model) -> RunResult:
    """The result of the only model that was run. Raises `DbtFailed` if it or a hook failed, or if
    it was left as it is because it is paused.
    """
    listed = list(results)
    failed = [each for each in listed if not each.ok]
    if failed:
        raise DbtFailed(masked("\n".join(each.message.strip() or each.status for each in failed)))
    [ran] = [each for each in listed if each.unique_id == model.unique_id]
    if ran.response.get("paused"):
        raise DbtFailed(f"{model.name}: {ran.response['paused']}")
    return ran


def through_dbt(dbt: Dbt, manifest: Any) -> Query:
    """A function that runs queries through dbt's connection. It raises `DbtFailed`."""

    def query(text: str, what: str) -> Sequence[Sequence[object]]:
        [rows] = dbt.ask("mvsink_read", {"query": text, "what": what}, manifest)
        return list(rows)

    return query


def ancestors(manifest: Any, unique_id: str) -> set[str]:
    """The unique ids of what a node depends on, directly or not. ``manifest`` is dbt's."""
    known: set[str] = set()
    waiting = [unique_id]
    while waiting:
        node = manifest.nodes.get(waiting.pop())
        new = set(getattr(getattr(node, "depends_on", None), "nodes", ())) - known
        known |= new
        waiting += new
    return known


def in_project_order(manifest: Any, unique_ids: Iterable[str]) -> list[str]:
    """Each after those that it depends on, otherwise by name."""
    ids = list(unique_ids)
    return sorted(ids, key=lambda name: (len(ancestors(manifest, name) & set(ids)), name))


def flat(values: Any) -> list[str]:
    """The words of dbt's `--select`, which may be repeated and may take several words at a time."""
    if isinstance(values, str):
        return [values]
    return [word for part in values or () for word in flat(part)]


def _selection(select: Sequence[str], exclude: Sequence[str]) -> list[str]:
    return [*(("--select", *select) if select else ()), *(("--exclude", *exclude) if exclude else ())]


def _ran(result: Any) -> RunResult:
    node = result.node
    return RunResult(
        unique_id=str(node.unique_id),
        status=str(getattr(result.status, "value", result.status)),
        message=str(result.message or ""),
        relation=f"{node.schema}.{node.alias}",
        compiled=str(getattr(node, "compiled_code", None) or ""),
        response=dict(result.adapter_response or {}),
    )


def _show_messages(event: Any) -> None:
    text = str(event.info.msg)
    if any(shown in text for shown in SHOWN):
        click.echo(text, err=True)


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """A context in which SIGTERM does what Ctrl-C does: it calls the handler of SIGINT that is
    installed at that time, such as the one of a wait for the metastore.
    """

    def terminate(number: int, frame: FrameType | None) -> None:
        if not callable(signal.getsignal(signal.SIGINT)):  # ignored, as in a shell's background jobs
            raise KeyboardInterrupt
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """A context in which SIGINT and SIGTERM are ignored, for short work that must be completed."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
