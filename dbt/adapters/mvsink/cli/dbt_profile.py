"""Reads a project's target by dbt's code, so that Jinja and environment variables work as in dbt.

`read` creates no `MvsinkCredentials`: that needs PySpark, and a command that only reads logs must
work without it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from dbt.config.profile import Profile, read_profile
from dbt.config.project import load_raw_project
from dbt.config.renderer import ProfileRenderer
from dbt_common.context import set_invocation_context
from dbt_common.dataclass_schema import ValidationError
from dbt_common.exceptions import DbtBaseException

from dbt.adapters.mvsink.cli.dbt_runner import Dbt
from dbt.adapters.mvsink.cli.errors import ProfileRefused, text_of
from dbt.adapters.mvsink.cli.plain_profile import PlainTarget
from dbt.adapters.mvsink.credentials import MvsinkCredentials
from dbt.adapters.mvsink.error_codes import code_of

TYPE = "mvsink"


def read(
    project_dir: str,
    profiles_dir: str,
    profile: str | None,
    target: str | None,
    variables: Mapping[str, Any],
) -> PlainTarget:
    """The target that dbt would use. Raises `click.UsageError` with dbt's own message."""
    if not os.path.exists(os.path.join(project_dir, "dbt_project.yml")):
        raise ProfileRefused(
            f"there is no dbt project in {project_dir}\n"
            "  Expected: a directory with dbt_project.yml: go to it with `cd`, or name it with --project-dir"
        )
    set_invocation_context(os.environ)  # dbt's `env_var` reads this
    try:
        project = load_raw_project(project_dir)
        renderer = ProfileRenderer(dict(variables))
        name = Profile.pick_profile_name(profile, renderer.render_value(project.get("profile")))
        profiles = read_profile(profiles_dir)
        raw = profiles.get(name)
        if not raw:
            known = ", ".join(str(each) for each in profiles if each not in (name, "config"))
            expected = f"\n  Expected: one of {known}" if known else ""
            raise ProfileRefused(
                f"there is no profile {name!r} in {os.path.join(profiles_dir, 'profiles.yml')}{expected}"
            )
        chosen, data = Profile.render_profile(raw, name, target, renderer)
        keys = _checked(name, chosen, data)
        return PlainTarget(str(renderer.render_value(project.get("name"))), name, chosen, keys)
    except ValidationError as error:  # its text quotes every value; its message does not
        raise ProfileRefused(str(error.message)) from error
    except DbtBaseException as error:
        raise ProfileRefused(text_of(error), code_of(error)) from error


def _checked(profile: str, name: str, data: Mapping[str, Any]) -> dict[str, Any]:
    options = {key: value for key, value in data.items() if key != "threads"}
    kind = options.pop("type", None)
    if kind != TYPE:
        raise ProfileRefused(f"target {name!r} of profile {profile!r} is of type {kind!r}, not {TYPE!r}")
    options = MvsinkCredentials.translate_aliases(options)
    MvsinkCredentials.validate(options)
    return options


def credentials_of(dbt: Dbt) -> MvsinkCredentials:
    """The credentials that dbt would have. Raises `click.UsageError`."""
    result = read(dbt.project_dir, dbt.profiles_dir, dbt.profile, dbt.target, dbt.vars)
    try:
        credentials = MvsinkCredentials.from_dict(dict(result.keys))
        credentials.belong_to(dbt.project_dir)
    except DbtBaseException as error:
        raise ProfileRefused(text_of(error), code_of(error)) from error
    return credentials
