"""The project and target of a command, and where its shards are.

Commands have dbt's own options. dbt's code reads `dbt_project.yml` and `profiles.yml`, so Jinja and
environment variables work as in dbt. No `MvsinkCredentials` object is created: that needs PySpark,
and a command that only reads logs must work without it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, TypeVar

import click
from dbt.cli import params
from dbt.config.profile import Profile, read_profile
from dbt.config.project import load_raw_project
from dbt.config.renderer import ProfileRenderer
from dbt_common.context import set_invocation_context
from dbt_common.dataclass_schema import ValidationError
from dbt_common.exceptions import DbtBaseException

from dbt.adapters.mvsink.authors import author, shown_command
from dbt.adapters.mvsink.cli.dbt_runner import Dbt
from dbt.adapters.mvsink.credentials import MvsinkCredentials, shards_of
from dbt.adapters.mvsink.masking import catalog_secrets, keep_secret, masked, secrets_in, secrets_of
from dbt.adapters.mvsink.shard import authored_by

TYPE = "mvsink"
Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Target:
    """One target of one project. ``shards`` is the directory or URI below which its shards are,
    each at ``<schema>/<identifier>``.
    """

    project: str
    name: str
    shards: str
    profile: str = ""
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)  # may hold secrets
    iceberg_catalog: Mapping[str, str] | None = field(default=None, repr=False)


def load_target(
    project_dir: str,
    profiles_dir: str,
    profile: str | None,
    target: str | None,
    variables: Mapping[str, Any] | None = None,
) -> Target:
    """The target that dbt would use. Raises `click.UsageError` with dbt's own message."""
    set_invocation_context(os.environ)  # dbt's `env_var` reads this
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
        return _target(
            str(renderer.render_value(project.get("name"))), os.path.abspath(project_dir), name, chosen, data
        )
    except ValidationError as error:  # its text quotes every value; its message does not
        raise click.UsageError(str(error.message)) from error
    except DbtBaseException as error:
        raise click.UsageError(masked(str(getattr(error, "msg", None) or error).strip())) from error


def _target(project: str, directory: str, profile: str, name: str, data: dict[str, Any]) -> Target:
    options = {key: value for key, value in data.items() if key != "threads"}
    kind = options.pop("type", None)
    if kind != TYPE:
        raise click.UsageError(f"target {name!r} of profile {profile!r} is of type {kind!r}, not {TYPE!r}")
    options = MvsinkCredentials.translate_aliases(options)
    MvsinkCredentials.validate(options)
    keep_secret(secrets_of(options.get("shard_root"), options.get("storage_options")))
    keep_secret(secrets_in(options.get("server_side_parameters")))
    keep_secret(catalog_secrets(options.get("iceberg_catalog")))
    find = partial(author, directory, shown_command("mvsink", sys.argv[1:]))
    authored_by(find if options.get("record_author", True) else dict)
    return Target(
        project=project,
        name=name,
        shards=shards_of(directory, options.get("shard_root")).rstrip("/"),
        profile=profile,
        storage_options=options.get("storage_options"),
        iceberg_catalog=options.get("iceberg_catalog"),
    )


def takes_target(command: Command) -> Command:
    """Give a command dbt's options, and pass it their `Target` as its first argument."""

    @wraps(command)
    def without_dbt(target: Target, dbt: Dbt, **others: Any) -> Any:
        return command(target, **others)

    return takes_dbt(without_dbt)  # type: ignore[return-value]


def takes_dbt(command: Command) -> Command:
    """Like `takes_target`, for a command that runs dbt: its second argument is a `Dbt` with these
    options.
    """

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
        options = (str(project_dir), str(profiles_dir), profile, target)
        return command(load_target(*options, vars), Dbt(*options, dict(vars or {})), **others)

    wrapped: Any = with_dbt
    for option in (params.vars, params.target, params.profile, params.profiles_dir, params.project_dir):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]
