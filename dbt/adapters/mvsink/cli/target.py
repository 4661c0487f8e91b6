"""Which project and target a command is about, and where its shards are.

dbt's own options and its own reading of `dbt_project.yml` and `profiles.yml`, Jinja and environment
variables included, without an adapter: making `MvsinkCredentials` asks for PySpark, and a command
that reads logs must work where there is none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar

import click
from dbt.cli import params
from dbt.config.profile import Profile, read_profile
from dbt.config.project import load_raw_project
from dbt.config.renderer import ProfileRenderer
from dbt_common.context import set_invocation_context
from dbt_common.dataclass_schema import ValidationError
from dbt_common.exceptions import DbtBaseException

from dbt.adapters.mvsink.cli.dbt_runner import Dbt
from dbt.adapters.mvsink.credentials import MvsinkCredentials, shards_of
from dbt.adapters.mvsink.masking import keep_secret, masked, secrets_of

TYPE = "mvsink"
Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Place:
    """One target of one project. ``shards`` is the directory or URI that holds
    ``<schema>/<identifier>``.
    """

    project: str
    target: str
    shards: str
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)  # may hold secrets


def load_place(
    project_dir: str,
    profiles_dir: str,
    profile: str | None,
    target: str | None,
    variables: Mapping[str, Any] | None = None,
) -> Place:
    """What dbt would use with these options. Raises `click.UsageError` with dbt's own message."""
    set_invocation_context(os.environ)  # where dbt's `env_var` looks
    try:
        project = load_raw_project(project_dir)
        renderer = ProfileRenderer(dict(variables or {}))
        name = Profile.pick_profile_name(profile, renderer.render_value(project.get("profile")))
        raw = read_profile(profiles_dir).get(name)
        if not raw:
            raise click.UsageError(
                f"there is no profile {name!r} in {os.path.join(profiles_dir, 'profiles.yml')}"
            )
        chosen, data = Profile.render_profile(raw, name, target, renderer)
        return _place(
            str(renderer.render_value(project.get("name"))), os.path.abspath(project_dir), name, chosen, data
        )
    except ValidationError as error:  # its text quotes all that was checked; its message does not
        raise click.UsageError(str(error.message)) from error
    except DbtBaseException as error:
        raise click.UsageError(masked(str(getattr(error, "msg", None) or error).strip())) from error


def _place(project: str, directory: str, profile: str, target: str, data: dict[str, Any]) -> Place:
    given = {key: value for key, value in data.items() if key != "threads"}
    kind = given.pop("type", None)
    if kind != TYPE:
        raise click.UsageError(f"target {target!r} of profile {profile!r} is of type {kind!r}, not {TYPE!r}")
    given = MvsinkCredentials.translate_aliases(given)
    MvsinkCredentials.validate(given)
    keep_secret(secrets_of(given.get("shard_root"), given.get("storage_options")))
    return Place(
        project=project,
        target=target,
        shards=shards_of(directory, given.get("shard_root")).rstrip("/"),
        storage_options=given.get("storage_options"),
    )


def takes_place(command: Command) -> Command:
    """dbt's options on a command, which gets a `Place` for them as its first argument."""

    @wraps(command)
    def with_place(
        *,
        project_dir: str,
        profiles_dir: str,
        profile: str | None,
        target: str | None,
        vars: Any,
        **others: Any,
    ) -> Any:
        return command(load_place(str(project_dir), str(profiles_dir), profile, target, vars), **others)

    return _with_options(with_place)  # type: ignore[no-any-return]


def takes_dbt(command: Command) -> Command:
    """The same for a command that runs dbt: it gets the `Place`, and a `Dbt` with these options."""

    @wraps(command)
    def with_dbt(
        *,
        project_dir: str,
        profiles_dir: str,
        profile: str | None,
        target: str | None,
        vars: Any,
        **others: Any,
    ) -> Any:
        place = load_place(str(project_dir), str(profiles_dir), profile, target, vars)
        return command(
            place, Dbt(str(project_dir), str(profiles_dir), profile, target, dict(vars or {})), **others
        )

    return _with_options(with_dbt)  # type: ignore[no-any-return]


def _with_options(command: Any) -> Any:
    options = (params.project_dir, params.profiles_dir, params.profile, params.target, params.vars)
    for option in reversed(options):
        command = option(command)
    return command
