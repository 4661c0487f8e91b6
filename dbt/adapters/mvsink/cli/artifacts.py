"""Which files that dbt made of a project contain given values: what it compiled and the results of
runs (`target-path`), and its log (`log-path`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

import yaml

_LITERAL = re.compile(r"'((?:[^'\\]|\\.|'')*)'|\"((?:[^\"\\]|\\.|\"\")*)\"|\b(\d{4,})\b")
MADE = ("compiled", "run")  # directories in the target; manifests and results are beside them
SHORTEST = 3  # characters of a text; shorter ones are in every file
AT_ONCE = 1 << 20  # bytes


def literals_of(condition: str) -> set[str]:
    """The values that a condition names: texts, and numbers of four digits or more.

    >>> sorted(literals_of("id = 4711 or email = 'ada@example.com' or state = 'A'"))
    ['4711', 'ada@example.com']
    """
    texts = (
        (match[1] or "").replace("''", "'") or (match[2] or "").replace('""', '"') or match[3] or ""
        for match in _LITERAL.finditer(condition)
    )
    return {text for text in texts if len(text) >= SHORTEST}


def artifacts_with(project_dir: str, values: Collection[str]) -> tuple[list[str], list[str]]:
    """Delete what dbt made in its target directory with one of the ``values``, and return these
    files; dbt makes them again. The second list are files that stay: of its log, and what others
    keep in the target directory, such as tables.
    """
    target, logs = _directories(project_dir)
    made: list[str] = []
    others: list[str] = []
    for path in _containing(target, values):
        (made if _of_dbt(Path(path), target, Path(project_dir)) else others).append(path)
    for path in made:
        with suppress(FileNotFoundError):
            os.unlink(path)
    return made, [*others, *_containing(logs, values)]


def _of_dbt(path: Path, target: Path, project: Path) -> bool:
    """Whether dbt writes a file at this place; not known if the target has the project in it."""
    if project.resolve().is_relative_to(target.resolve()):
        return False
    first, *rest = path.relative_to(target).parts
    return not rest or first in MADE


def _directories(project_dir: str) -> tuple[Path, Path]:
    """As dbt chooses them: by environment, by `dbt_project.yml`, or by default."""
    with suppress(OSError, yaml.YAMLError):
        project = yaml.safe_load((Path(project_dir) / "dbt_project.yml").read_text()) or {}
        return _directory(project_dir, project, "target"), _directory(project_dir, project, "logs")
    return _directory(project_dir, {}, "target"), _directory(project_dir, {}, "logs")


def _directory(project_dir: str, project: dict[str, object], name: str) -> Path:
    key = name.removesuffix("s") + "-path"
    chosen = os.environ.get(f"DBT_{key.upper().replace('-', '_')}") or project.get(key) or name
    return Path(project_dir) / str(chosen)


def _containing(directory: Path, values: Collection[str]) -> Iterator[str]:
    wanted = [value.encode() for value in values]
    if not wanted:
        return
    for folder, _, names in os.walk(directory):
        for name in sorted(names):
            path = os.path.join(folder, name)
            with suppress(OSError):
                if _contains(path, wanted):
                    yield path


def _contains(path: str, wanted: Collection[bytes]) -> bool:
    longest = max(map(len, wanted))
    before = b""
    with open(path, "rb") as file:
        while chunk := file.read(AT_ONCE):
            text = before + chunk
            if any(value in text for value in wanted):
                return True
            before = text[-longest:]
    return False
