"""The variables (`--vars`) that the adapter reads. What is nearly one of them is refused:
`read_only: true` would otherwise write.

A variable of the user's own may look like one of ours (`sample`, `read_only`): it is refused only
if the project never reads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbt.adapters.mvsink.durations import parse_time
from dbt.adapters.mvsink.exceptions import MvsinkError

PREFIX = "mvsink_"
READ = (".sql", ".yml", ".yaml", ".py", ".md")  # files in which a project can read a variable


@dataclass(frozen=True)
class Variable:
    """``expected`` says in words what ``valid`` accepts."""

    name: str
    expected: str
    valid: Callable[[Any], bool]


def _names(given: Any) -> bool:
    return isinstance(given, str) or (
        isinstance(given, list | tuple) and all(isinstance(name, str) for name in given)
    )


def _count(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given >= 0


TIME = "milliseconds since 1970-01-01 UTC, or an ISO 8601 date or timestamp, not before 1970"
VARIABLES = (
    Variable("mvsink_run_time", TIME, lambda given: given in (None, "") or parse_time(given) is not None),
    Variable("mvsink_read_only", "true or false", lambda given: isinstance(given, bool)),
    Variable("mvsink_reset", "a task's name, or a list of them", _names),
    Variable("mvsink_skip_errors", "a task's name, or a list of them", _names),
    Variable("mvsink_accept", "a model's name, or a list of them", _names),
    Variable("mvsink_sample", "a number of rows, 0 or more", _count),
)
BY_NAME = {variable.name: variable for variable in VARIABLES}


class UnknownVariable(MvsinkError):
    """A variable that nobody reads, with a name like one of ours."""

    def __init__(self, given: str, near: str):
        meant = f" Did you mean `{near}`?" if near else ""
        super().__init__(
            f"unknown variable `{given}`: neither dbt-mvsink nor this project reads it.{meant}\n"
            f"  Expected: {', '.join(sorted(BY_NAME))}, or a variable of the project's own"
        )


class InvalidVariable(MvsinkError):
    """A variable of ours has a value that it cannot have."""

    def __init__(self, variable: Variable, given: Any):
        super().__init__(
            f"invalid variable `{variable.name}`\n  Got: {given!r}\n  Expected: {variable.expected}"
        )


def check_variables(config: Any) -> None:
    """Raises `UnknownVariable` or `InvalidVariable`. ``config`` is dbt's; `dbt debug` has a profile
    alone, and no variables.
    """
    given, declared = _of_invocation(config), dict(_of_project(config))
    for name, value in {**declared, **given}.items():
        if name in BY_NAME:
            if not BY_NAME[name].valid(value):
                raise InvalidVariable(BY_NAME[name], value)
            continue
        near = nearest(name)
        if _plain(name).startswith(_plain(PREFIX)):
            raise UnknownVariable(name, near)
        if near and name not in declared and not _is_read(name, config):
            raise UnknownVariable(name, near)


def variable(config: Any, name: str) -> Any:
    """What the invocation or the project gives for ``name``, None for nothing: as `var()` does in a
    macro.
    """
    given = _of_invocation(config)
    return given[name] if name in given else dict(_of_project(config)).get(name)


def nearest(name: str) -> str:
    """Our variable that ``name`` is nearly; empty if none.

    >>> nearest("read_only"), nearest("MVSINK-Read-Only"), nearest("mvsink_readonly"), nearest("run_date")
    ('mvsink_read_only', 'mvsink_read_only', 'mvsink_read_only', '')
    """
    given = _plain(name).removeprefix(_plain(PREFIX)).removeprefix("mv")
    for known in BY_NAME:
        own = _plain(known).removeprefix(_plain(PREFIX))
        if given == own or (len(own) > 6 and _apart(given, own) <= 1):
            return known
    return ""


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", str(name).lower())


def _apart(a: str, b: str) -> int:
    """0, 1 for one letter changed, added or dropped, 2 for more."""
    if a == b:
        return 0
    short, long = sorted((a, b), key=len)
    if len(long) - len(short) > 1:
        return 2
    start = next((i for i, (x, y) in enumerate(zip(short, long, strict=False)) if x != y), len(short))
    return 1 if short[start + (len(short) == len(long)) :] == long[start + 1 :] else 2


def _of_invocation(config: Any) -> Mapping[str, Any]:
    return dict(getattr(config, "cli_vars", None) or {})


def _of_project(config: Any) -> Iterator[tuple[str, Any]]:
    """`vars` of `dbt_project.yml`: those of all packages, then the project's own."""
    given = getattr(getattr(config, "vars", None), "vars", None) or {}
    project = str(getattr(config, "project_name", ""))
    for name, value in given.items():
        if not isinstance(value, Mapping):
            yield str(name), value
    own = given.get(project)
    yield from own.items() if isinstance(own, Mapping) else ()


def _is_read(name: str, config: Any) -> bool:
    """Does a file of the project, a package of it, or the profile say ``var('name'``?"""
    pattern = re.compile(rf"\bvar\s*\(\s*['\"]{re.escape(name)}['\"]")
    return any(pattern.search(path.read_text(encoding="utf-8", errors="replace")) for path in _files(config))


def _files(config: Any) -> Iterator[Path]:
    root = Path(str(getattr(config, "project_root", "")) or ".")
    folders = [getattr(config, "packages_install_path", None) or "dbt_packages"]
    for kind in ("model", "macro", "test", "snapshot", "analysis", "seed", "docs"):
        folders += getattr(config, f"{kind}_paths", None) or []
    yield from (path for path in root.glob("*.yml"))
    yield from (path for path in _profiles() if path.is_file())
    for folder in dict.fromkeys(folders):
        yield from (path for path in (root / folder).rglob("*") if path.suffix in READ and path.is_file())


def _profiles() -> Iterator[Path]:
    from dbt import flags

    given: Any = flags.get_flags  # untyped
    directory = getattr(given(), "PROFILES_DIR", None)
    if directory:
        yield Path(str(directory)) / "profiles.yml"
