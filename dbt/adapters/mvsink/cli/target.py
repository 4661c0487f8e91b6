"""The project and target of a command, and where its shards are.

Commands have dbt's own options. What `dbt_project.yml` and `profiles.yml` say is read without dbt
where that is the same (`plain_profile`), else by dbt's code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, TypeVar

from dbt.adapters.mvsink.authors import author, shown_command
from dbt.adapters.mvsink.cli import dbt_options, plain_profile
from dbt.adapters.mvsink.cli.dbt_runner import Dbt
from dbt.adapters.mvsink.cli.plain_profile import PlainTarget
from dbt.adapters.mvsink.masking import catalog_secrets, keep_secret, secrets_in, secrets_of
from dbt.adapters.mvsink.profile_keys import shards_of
from dbt.adapters.mvsink.shard import authored_by

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
    plain = plain_profile.read(project_dir, profiles_dir, profile, target)
    if plain is None:
        from dbt.adapters.mvsink.cli import dbt_profile  # imports dbt, which takes seconds

        plain = dbt_profile.read(project_dir, profiles_dir, profile, target, variables or {})
    return _target(os.path.abspath(project_dir), plain)


def _target(directory: str, plain: PlainTarget) -> Target:
    keys = plain.keys
    keep_secret(secrets_of(keys.get("shard_root"), keys.get("storage_options")))
    keep_secret(secrets_in(keys.get("server_side_parameters")))
    keep_secret(catalog_secrets(keys.get("iceberg_catalog")))
    find = partial(author, directory, shown_command("mvsink", sys.argv[1:]))
    authored_by(find if keys.get("record_author", True) else dict)
    return Target(
        project=plain.project,
        name=plain.name,
        shards=shards_of(directory, keys.get("shard_root")).rstrip("/"),
        profile=plain.profile,
        storage_options=keys.get("storage_options"),
        iceberg_catalog=keys.get("iceberg_catalog"),
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
    for option in (
        dbt_options.vars,
        dbt_options.target,
        dbt_options.profile,
        dbt_options.profiles_dir,
        dbt_options.project_dir,
    ):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]
