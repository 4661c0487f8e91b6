"""A *rehearsal*: a run in temporary schemas and a temporary directory, which is then compared with
the shards of another target.

dbt runs the selected models as usual, tables and plain views included, so each model is computed
from what the models before it *would* hold. Some models are not run: those that are not selected,
tasks, and models that are paused in the other target. Models that read them find those of the other
target, or with ``--state`` those of that state. Everything temporary is deleted afterwards, even
after a failure or an interrupt.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import click
from dbt.config.profile import read_profile

from dbt.adapters.mvsink.cli.comparison import compared_sides
from dbt.adapters.mvsink.cli.dbt_runner import (
    TASK,
    Dbt,
    DbtFailed,
    Model,
    RunResult,
    result_of,
    through_dbt,
    uninterrupted,
)
from dbt.adapters.mvsink.cli.discovery import DiscoveredShard, ShardHistory, find_shards
from dbt.adapters.mvsink.cli.errors import SchemasCollide
from dbt.adapters.mvsink.cli.target import Target, load_target
from dbt.adapters.mvsink.engine import shard_columns
from dbt.adapters.mvsink.history.points import LATEST
from dbt.adapters.mvsink.shard_sql.properties import pause_of

SCHEMA = "mvsink_plan_"  # the prefix of temporary schemas; no others are dropped
DELETIONS, PAUSE = 20, 0.25  # attempts to delete the directory, and seconds between two
Shards = Mapping[str, DiscoveredShard]


@dataclass(frozen=True)
class Rehearsed:
    """The result of one model's run.

    ``difference`` compares it with the other target's shard, which is A, as the JSON of `mvsink
    diff`; it is None if that target has no shard of the model. ``forecast`` says what a run with
    this difference would do there: whether the publish gate passes, which columns change, and
    whether a new generation begins (`run_plan.Forecast`). ``paused`` says why the model was not
    run, or is empty.
    """

    ran: RunResult
    difference: Mapping[str, Any] | None = None
    forecast: Mapping[str, Any] = field(default_factory=dict)
    paused: str = ""


@dataclass(frozen=True)
class Rehearsal:
    """Where a rehearsal runs: dbt with a profile for the temporary ``directory``, and the other
    target to compare with.
    """

    dbt: Dbt
    other: Target
    directory: Path

    def run(self, models: Sequence[Model], manifest: Any, sample: int) -> list[Rehearsed]:
        """Run those of ``models`` that are neither tasks nor paused, and compare the maintained
        ones. The others are returned only if they failed. ``manifest`` is that of the rehearsal's
        dbt. ``sample`` is how many rows of each kind of difference to return.
        """
        before = _by_model(self.other)
        paused = {name: words for name, shard in before.items() if (words := _paused(shard))}
        chosen = [model for model in models if model.materialized != TASK and model.unique_id not in paused]
        schemas = sorted({str(manifest.nodes[model.unique_id].schema) for model in chosen})
        _check(schemas)
        left = [_left(model, before[model.unique_id]) for model in models if model.unique_id in paused]
        try:
            ran = self.dbt.run(chosen, manifest) if chosen else []
            shown = [each for each in ran if _maintained(each, chosen) or not each.ok]
            return [*self._compared(shown, before, manifest, sample), *left]
        finally:
            self._drop(schemas, manifest)

    @contextmanager
    def imported(
        self, model: Model, manifest: Any, relation: str
    ) -> Iterator[tuple[RunResult, ShardHistory]]:
        """Import the table ``relation`` as the model here, as `mvsink import` would. The result is
        that of the run, and the shard with its history, until the block ends. Raises `DbtFailed`.
        """
        schemas = [str(manifest.nodes[model.unique_id].schema)]
        _check(schemas)
        try:
            importing = self.dbt.with_vars(mvsink_import={model.unique_id: relation})
            ran = result_of(importing.run([model], manifest), model)
            mine = load_target(*self._place(), self.dbt.target, self.dbt.vars)
            yield ran, _past(mine, _by_model(mine)[model.unique_id])
        finally:
            self._drop(schemas, manifest)

    def _compared(
        self, ran: Sequence[RunResult], before: Shards, manifest: Any, sample: int
    ) -> list[Rehearsed]:
        mine = load_target(*self._place(), self.dbt.target, self.dbt.vars)
        after, query = _by_model(mine), through_dbt(self.dbt, manifest)
        differences, requests = {}, []
        for each in ran:
            old, new = before.get(each.unique_id), after.get(each.unique_id)
            if not each.ok or old is None or new is None:
                continue
            pasts = _past(self.other, old), _past(mine, new)
            points = pasts[0].point(LATEST), pasts[1].point(LATEST)
            difference = compared_sides(pasts, points, (), manifest, query, sample, disjoint=True)
            differences[each.unique_id] = difference
            requests.append(_request(each.unique_id, pasts[0], pasts[1], difference))
        judged = self.dbt.ask("mvsink_judge", requests, manifest, len(requests)) if requests else []
        forecasts = dict(zip(differences, judged, strict=True))
        return [
            Rehearsed(each, differences.get(each.unique_id), forecasts.get(each.unique_id, {}))
            for each in ran
        ]

    def _place(self) -> tuple[str, str, str | None]:
        return self.dbt.project_dir, self.dbt.profiles_dir, self.dbt.profile

    def _drop(self, schemas: Sequence[str], manifest: Any) -> None:
        """Drop the temporary schemas. A failure is only reported, to hide no other error."""
        if not schemas:
            return
        try:
            self.dbt.operation("mvsink_end_rehearsal", {"schemas": list(schemas)}, manifest)
        except DbtFailed as error:
            click.echo(f"temporary schemas are left: {', '.join(schemas)}: {error.message}", err=True)


@contextmanager
def rehearsal(dbt: Dbt, target: Target, against: str, manifest: Any = None) -> Iterator[Rehearsal]:
    """Prepare a rehearsal of ``target``, and delete its directory afterwards. ``against`` is the
    name of the target to compare with, and ``manifest`` dbt's for it, if the project has been
    parsed for it.

    What dbt keeps of a project between runs stays as it is: what it would keep of a rehearsal is in
    the directory.
    """
    other = load_target(dbt.project_dir, dbt.profiles_dir, dbt.profile, against, dbt.vars)
    directory = Path(tempfile.mkdtemp(prefix=SCHEMA))
    try:
        if manifest is None and not dbt.state:
            manifest = replace(dbt, target=against, target_path=str(directory / "against")).parsed()
        state = dbt.state or _state(manifest, directory / "state")
        _write_profile(dbt, target, directory)
        place = replace(
            dbt.with_vars(mvsink_rehearsal=True),
            profiles_dir=str(directory),
            profile=target.profile,
            target=target.name,
            target_path=str(directory / "target"),
            state=str(state),
            defer=True,
        )
        yield Rehearsal(place, other, directory)
    finally:
        with uninterrupted():
            _delete(directory)


def _delete(directory: Path) -> None:
    """Delete the directory, several times: a cancelled query may still write for a moment."""
    for _ in range(DELETIONS):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(PAUSE)
    click.echo(f"a temporary directory is left: {directory}", err=True)


def _state(manifest: Any, directory: Path) -> Path:
    """Write a target's manifest into ``directory``, as dbt's `--state` expects it."""
    directory.mkdir()
    manifest.writable_manifest().write(str(directory / "manifest.json"))
    return directory


def _write_profile(dbt: Dbt, target: Target, directory: Path) -> None:
    """Write the target's profile with another schema and shard root. The profile is copied before
    its Jinja is rendered, so no secret from the environment is written.
    """
    profile = read_profile(dbt.profiles_dir)[target.profile]
    output = {
        **profile["outputs"][target.name],
        "schema": f"{SCHEMA}{uuid4().hex[:8]}",
        "shard_root": str(directory / "shards"),
        "read_only": False,
    }
    written = {target.profile: {"target": target.name, "outputs": {target.name: output}}}
    (directory / "profiles.yml").write_text(json.dumps(written, default=str))  # which is YAML, too


def _check(schemas: Sequence[str]) -> None:
    """Raises `click.UsageError` if a model's schema is not one of the temporary ones."""
    wrong = [schema for schema in schemas if not schema.startswith(SCHEMA)]
    if wrong:
        raise SchemasCollide(
            f"--against runs the models in schemas of its own, but `generate_schema_name` returns {', '.join(wrong)} "
            "regardless of the target's schema. Expected: names that begin with target.schema"
        )


def _request(
    unique_id: str, old: ShardHistory, new: ShardHistory, difference: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The request to the macro `mvsink_judge` for one model's forecast."""
    changed = difference["changed"]
    return {
        "unique_id": unique_id,
        **old.shard.argument,
        "columns": {column.name: column.type.text for column in shard_columns(new.state.schema)},
        "change": {
            "before": difference["a"]["rows"],
            "after": difference["b"]["rows"],
            "inserted": difference["only_in_b"] + changed,
            "deleted": difference["only_in_a"] + changed,
        },
    }


def _paused(shard: DiscoveredShard) -> str:
    pause = None if shard.state is None else pause_of(shard.state)
    return pause.words if pause else ""


def _left(model: Model, shard: DiscoveredShard) -> Rehearsed:
    """The result for a paused model, which no run changes."""
    ran = RunResult(model.unique_id, "success", "", shard.relation, "", {})
    return Rehearsed(ran, paused=_paused(shard))


def _maintained(ran: RunResult, models: Sequence[Model]) -> bool:
    return any(model.unique_id == ran.unique_id and model.maintained for model in models)


def _by_model(target: Target) -> Shards:
    """The shards of the target's models, by unique id."""
    shards = find_shards(target)
    return {shard.owner.unique_id: shard for shard in shards if _owned(shard, target) and shard.owner}


def _owned(shard: DiscoveredShard, target: Target) -> bool:
    owner = shard.owner
    readable = shard.state is not None and shard.state.readable and shard.state.dropped is None
    return readable and owner is not None and (owner.project, owner.target) == (target.project, target.name)


def _past(target: Target, shard: DiscoveredShard) -> ShardHistory:
    reader, state = shard.opened()
    return ShardHistory(target, shard, reader, state, reader.history())
