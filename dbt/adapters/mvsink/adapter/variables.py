"""The variables (`--vars`) that the adapter reads. A name that resembles one of them is refused:
`read_only: true` would otherwise write.

A user's own variable may resemble one of the adapter's (`sample`, `read_only`); it is refused only
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


def _names(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
    )


def _imports(value: Any) -> bool:
    return _names(value) or (isinstance(value, Mapping) and _names([*value, *value.values()]))


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


TIME = "milliseconds since 1970-01-01 UTC, or an ISO 8601 date or timestamp, not before 1970"
VARIABLES = (
    Variable("mvsink_run_time", TIME, lambda value: value in (None, "") or parse_time(value) is not None),
    Variable("mvsink_read_only", "true or false", lambda value: isinstance(value, bool)),
    Variable("mvsink_reset", "a task's name, or a list of them", _names),
    Variable("mvsink_skip_errors", "a task's name, or a list of them", _names),
    Variable("mvsink_accept", "a model's name, or a list of them", _names),
    Variable("mvsink_verify", "true or false", lambda value: isinstance(value, bool)),
    Variable("mvsink_explain", "true or false", lambda value: isinstance(value, bool)),
    Variable("mvsink_rehearsal", "true or false", lambda value: isinstance(value, bool)),
    Variable("mvsink_future", "true or false", lambda value: isinstance(value, bool)),
    Variable("mvsink_import", "a model's name, or a list of them", _imports),
    Variable("mvsink_sample", "a number of rows, 0 or more", _count),
)
BY_NAME = {variable.name: variable for variable in VARIABLES}


class UnknownVariable(MvsinkError):
    """A variable that is not read anywhere, with a name like one of ours."""

    error_code = "MVS-124"

    def __init__(self, name: str, meant: str):
        question = f" Did you mean `{meant}`?" if meant else ""
        super().__init__(
            f"unknown variable `{name}`: neither dbt-mvsink nor this project reads it.{question}\n"
            f"  Expected: {', '.join(sorted(BY_NAME))}, or a variable of the project's own"
        )


class InvalidVariable(MvsinkError):
    """A variable of ours has a value that is not allowed."""

    error_code = "MVS-125"

    def __init__(self, variable: Variable, value: Any):
        super().__init__(
            f"invalid variable `{variable.name}`\n  Got: {value!r}\n  Expected: {variable.expected}"
        )


def check_variables(config: Any) -> None:
    """Raises `UnknownVariable` or `InvalidVariable`. ``config`` is dbt's; `dbt debug` has only a
    profile and no variables.
    """
    declared = dict(_of_project(config))
    for name, value in {**declared, **_of_invocation(config)}.items():
        if name in BY_NAME:
            if not BY_NAME[name].valid(value):
                raise InvalidVariable(BY_NAME[name], value)
            continue
        meant = nearest(name)
        if _plain(name).startswith(_plain(PREFIX)):
            raise UnknownVariable(name, meant)
        if meant and name not in declared and not _is_read(name, config):
            raise UnknownVariable(name, meant)


def variable(config: Any, name: str) -> Any:
    """The value of ``name`` in the invocation, else of the project, else None."""
    return {**dict(_of_project(config)), **_of_invocation(config)}.get(name)


def nearest(name: str) -> str:
    """Our variable that ``name`` resembles; empty if none.

    >>> tuple(map(nearest, ("read_only", "MVSINK-Read-Only", "mvsink_readonly", "run_date")))
    ('mvsink_read_only', 'mvsink_read_only', 'mvsink_read_only', '')
    """
    plain = _plain(name).removeprefix(_plain(PREFIX)).removeprefix("mv")
    for known in BY_NAME:
        own = _plain(known).removeprefix(_plain(PREFIX))
        if plain == own or (len(own) > 6 and _distance(plain, own) <= 1):
            return known
    return ""


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", str(name).lower())


def _distance(a: str, b: str) -> int:
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
    declared = getattr(getattr(config, "vars", None), "vars", None) or {}
    project = str(getattr(config, "project_name", ""))
    for name, value in declared.items():
        if not isinstance(value, Mapping):
            yield str(name), value
    own = declared.get(project)
    yield from own.items() if isinstance(own, Mapping) else ()


def _is_read(name: str, config: Any) -> bool:
    """Whether a file of the project, one of its packages, or the profile has ``var('name'``."""
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

    get_flags: Any = flags.get_flags  # untyped
    directory = getattr(get_flags(), "PROFILES_DIR", None)
    if directory:
        yield Path(str(directory)) / "profiles.yml"
