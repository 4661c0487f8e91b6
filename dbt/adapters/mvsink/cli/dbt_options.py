"""dbt's options for our commands, without dbt: its import takes longer than a command that reads
logs. tests/unit/cli/test_dbt_options.py compares them with dbt's own.

dbt's options of several words take all words up to the next option, which click's do not.
`repeated` writes them as click reads them:

>>> repeated(["plan", "--select", "a", "b c", "--exclude=d", "-t", "prod"])
['plan', '--select', 'a', '--select', 'b', '--select', 'c', '--exclude', 'd', '-t', 'prod']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import yaml

SELECT = ("-s", "--select", "-m", "--models", "--model")
EXCLUDE = ("--exclude",)
Option = Callable[[Any], Any]
Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # as dbt


def default_project_dir() -> Path:
    """The nearest directory with a project, from the working directory upwards."""
    here = Path.cwd()
    return next((each for each in (here, *here.parents) if (each / "dbt_project.yml").exists()), here)


def default_profiles_dir() -> Path:
    """The working directory, if it has profiles; else the one in the user's home."""
    return Path.cwd() if (Path.cwd() / "profiles.yml").exists() else Path.home() / ".dbt"


class Variables(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.4
    """A mapping, as YAML."""

    name = "YAML"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        try:
            read = yaml.load(value, Loader)
        except yaml.YAMLError:
            read = None
        if not isinstance(read, dict):
            self.fail(f"{value!r} is not a mapping in YAML, like '{{name: value}}'", param, ctx)
        return read


def _option(*names: str, variable: str | None = None, **how: Any) -> Option:
    """An option; ``variable`` is dbt's environment variable of its value, without the prefix."""
    variables = [f"DBT_ENGINE_{variable}", f"DBT_{variable}"] if variable else None
    return click.option(*names, envvar=variables, **how)


project_dir = _option(
    "--project-dir",
    variable="PROJECT_DIR",
    type=click.Path(exists=True),
    default=default_project_dir,
    help="The directory of dbt_project.yml: by default the working directory or the nearest above it.",
)
profiles_dir = _option(
    "--profiles-dir",
    variable="PROFILES_DIR",
    type=click.Path(exists=True),
    default=default_profiles_dir,
    help="The directory of profiles.yml: by default the working directory, then ~/.dbt.",
)
profile = _option("--profile", variable="PROFILE", help="Which profile, instead of the project's.")
target = _option("--target", "-t", variable="TARGET", help="Which target of the profile.")
vars = _option("--vars", type=Variables(), default="{}", help="Variables of the project, as YAML.")
select = _option(*SELECT, multiple=True, help="Models, by dbt's selectors.")
exclude = _option(*EXCLUDE, multiple=True, help="Models to leave out, by dbt's selectors.")
state = _option(
    "--state",
    variable="STATE",
    type=click.Path(file_okay=False, path_type=Path),
    help="The directory with the manifest of another state, with which selectors compare.",
)
defer = _option(
    "--defer/--no-defer",
    variable="DEFER",
    default=None,
    help="Read models that are not selected from where --state has them.",
)
favor_state = _option(
    "--favor-state/--no-favor-state",
    variable="FAVOR_STATE",
    default=None,
    help="With --defer: also those that exist here.",
)


def repeated(arguments: Sequence[str]) -> list[str]:
    """The command's ``arguments`` with dbt's options of several words once for each word."""
    return list(_repeated(list(arguments)))


def _repeated(left: list[str]) -> Iterator[str]:
    while left:
        argument = left.pop(0)
        name, equals, value = argument.partition("=")
        if argument == "--" or name not in (*SELECT, *EXCLUDE):
            yield argument
            if argument == "--":
                yield from left
                return
            continue
        words = [value] if equals else [left.pop(0)] if left else []
        while left and not left[0].startswith("-"):
            words.append(left.pop(0))
        if not words:
            yield name  # click says that its value is missing
        for word in " ".join(words).split(" "):
            yield from (name, word)
