"""A run in a place of its own, compared with the shards of another target, and then deleted.

dbt runs the selected models as it would, but in schemas and below a directory that exist only
meanwhile: so each model is computed from what the one before *would* hold, tables and plain views
included. What is not selected is read where the other target has it, or with ``--state`` where that
state has it. Everything is deleted afterwards, also after a failure.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import click
from dbt.config.profile import read_profile

from dbt.adapters.mvsink.cli.commands.diff import compared_sides
from dbt.adapters.mvsink.cli.dbt_runner import TASK, Dbt, DbtFailed, Model, RunResult
from dbt.adapters.mvsink.cli.discovery import DiscoveredShard, find_shards
from dbt.adapters.mvsink.cli.past import Past, through_dbt
from dbt.adapters.mvsink.cli.target import Target, load_target
from dbt.adapters.mvsink.history.points import LATEST

SCHEMA = "mvsink_plan_"  # what temporary schemas begin with: no others are dropped
Shards = Mapping[str, DiscoveredShard]


@dataclass(frozen=True)
class Rehearsed:
    """The result of one model's run. ``difference``: from the other target's shard (A), as the JSON
    of `mvsink diff`; None if that target has no shard of the model.
    """

    ran: RunResult
    difference: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Rehearsal:
    """The place: dbt with a profile of it, and the other target."""

    dbt: Dbt
    other: Target
    directory: Path

    def run(self, models: Sequence[Model], manifest: Any, sample: int) -> list[Rehearsed]:
        """Run ``models``, all but tasks, and compare what is maintained. ``manifest``: its."""
        chosen = [model for model in models if model.materialized != TASK]
        schemas = sorted({str(manifest.nodes[model.unique_id].schema) for model in chosen})
        _check(schemas)
        try:
            ran = self.dbt.run(chosen, manifest) if chosen else []
            return self._compared([each for each in ran if _maintained(each, chosen)], manifest, sample)
        finally:
            self._drop(schemas, manifest)

    def _compared(self, ran: Sequence[RunResult], manifest: Any, sample: int) -> list[Rehearsed]:
        mine = load_target(*self._place(), self.dbt.target, self.dbt.vars)
        before, after = _by_model(self.other), _by_model(mine)
        query = through_dbt(self.dbt, manifest)
        rehearsed = []
        for each in ran:
            old, new = before.get(each.unique_id), after.get(each.unique_id)
            if not each.ok or old is None or new is None:
                rehearsed.append(Rehearsed(each))
                continue
            pasts = _past(self.other, old), _past(mine, new)
            points = pasts[0].point(LATEST), pasts[1].point(LATEST)
            difference = compared_sides(pasts, points, (), manifest, query, sample)
            rehearsed.append(Rehearsed(each, difference.values()))
        return rehearsed

    def _place(self) -> tuple[str, str, str | None]:
        return self.dbt.project_dir, self.dbt.profiles_dir, self.dbt.profile

    def _drop(self, schemas: Sequence[str], manifest: Any) -> None:
        """A failure leaves empty names behind, and is said; it hides no other error."""
        try:
            self.dbt.operation("mvsink_end_rehearsal", {"schemas": list(schemas)}, manifest)
        except DbtFailed as error:
            click.echo(f"temporary schemas are left: {', '.join(schemas)}: {error.message}", err=True)


@contextmanager
def rehearsal(dbt: Dbt, target: Target, against: str) -> Iterator[Rehearsal]:
    """The place for one run of ``dbt`` as in ``target``; ``against`` is the other's name."""
    other = load_target(dbt.project_dir, dbt.profiles_dir, dbt.profile, against, dbt.vars)
    directory = Path(tempfile.mkdtemp(prefix=SCHEMA))
    try:
        state = dbt.state or _state(replace(dbt, target=against), directory / "state")
        _write_profile(dbt, target, directory)
        variables = {**dbt.vars, "mvsink_rehearsal": True}
        place = replace(
            dbt,
            profiles_dir=str(directory),
            profile=target.profile,
            target=target.name,
            vars=variables,
            state=str(state),
            defer=True,
        )
        yield Rehearsal(place, other, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _state(dbt: Dbt, directory: Path) -> Path:
    """The manifest of a target, as dbt's `--state` wants it."""
    directory.mkdir()
    dbt.parsed().writable_manifest().write(str(directory / "manifest.json"))
    return directory


def _write_profile(dbt: Dbt, target: Target, directory: Path) -> None:
    """The target's profile with another schema and shard root. What it takes from the environment
    stays there.
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
    """Raises `click.UsageError` for a schema that does not follow the profile's."""
    wrong = [schema for schema in schemas if not schema.startswith(SCHEMA)]
    if wrong:
        raise click.UsageError(
            f"--against runs the models in schemas of its own, but `generate_schema_name` gives {', '.join(wrong)} "
            "whatever the target's schema is. Expected: names that begin with target.schema"
        )


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


def _past(target: Target, shard: DiscoveredShard) -> Past:
    if shard.reader is None or shard.state is None:
        raise click.ClickException(f"{shard.relation}: {shard.error}")
    return Past(target, shard, shard.reader, shard.state, shard.reader.history())
