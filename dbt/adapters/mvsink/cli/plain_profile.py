"""Reads a project's target without dbt, where nothing in its files needs dbt.

`read` knows the target or has no answer, and gives no errors: then `dbt_profile` reads the same
files by dbt's code, which takes seconds to import. Texts may have `env_var()` with a name and a
default; any other Jinja is dbt's. What keys may be is checked as the adapter does
(`profile_keys`), keys of dbt-spark by their types.

>>> variables = {"HOME_OF": "/data"}
>>> rendered("{{ env_var('HOME_OF') }}/shards", variables)
'/data/shards'
>>> rendered("{{ env_var('PORT', '443') | as_number }}", variables) is None
True
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from dbt.adapters.mvsink.cli.dbt_options import Loader
from dbt.adapters.mvsink.profile_keys import InvalidProfile, as_text, check

TEXTS = (
    *("type", "method", "schema", "host", "driver", "cluster", "endpoint", "token", "user", "password"),
    *("auth", "kerberos_service_name", "organization", "connection_string_suffix", "shard_root", "remote"),
    *("session", "unsupported_grants"),
)
NUMBERS = (
    *("threads", "port", "connect_retries", "connect_timeout", "query_timeout", "poll_interval"),
    "query_retries",
)
SWITCHES = ("use_ssl", "retry_all", "read_only", "progress", "class_archive", "record_author")
OF_TEXTS = ("server_side_parameters", "storage_options", "iceberg_catalog", "headers")  # mappings
OTHERS = ("metastore_timeout", "formats")  # which only `check` reads
SECRET = "DBT_ENV_SECRET"  # dbt has rules of its own for such variables
_ENV_VAR = re.compile(
    r"(?<!\{)\{\{ *env_var\( *(?P<quote>['\"])(?P<name>\w+)(?P=quote) *"
    r"(?:, *(?P<other>['\"])(?P<default>[^'\"\\{}%#]*)(?P=other) *)?\) *\}\}"
)
_JINJA = re.compile(r"\{[{%#]|[#}%]\}")


@dataclass(frozen=True)
class PlainTarget:
    """The names of a project, its profile and its target, and the target's keys."""

    project: str
    profile: str
    name: str
    keys: Mapping[str, Any]


class _LeftToDbt(Exception):
    """Something in the files needs dbt, or is wrong."""


def read(
    project_dir: str,
    profiles_dir: str,
    profile: str | None,
    target: str | None,
    variables: Mapping[str, str] = os.environ,
) -> PlainTarget | None:
    """The target that dbt would use, with environment ``variables``; None if only dbt can say."""
    try:
        project = _mapping(_loaded(os.path.join(project_dir, "dbt_project.yml")))
        chosen = profile or _text(project.get("profile"), variables)
        profiles = _mapping(_loaded(os.path.join(profiles_dir, "profiles.yml")))
        targets = _mapping(profiles.get(chosen))
        name = target or _text(targets.get("target"), variables)
        keys = dict(_keys(_mapping(_mapping(targets.get("outputs")).get(name)), variables))
        if keys.get("type") != "mvsink" or "schema" not in keys:
            return None
        check(keys)
        return PlainTarget(_text(project.get("name"), variables), chosen, name, keys)
    except (_LeftToDbt, InvalidProfile, OSError, UnicodeError, yaml.YAMLError):
        return None


def rendered(text: str, variables: Mapping[str, str]) -> str | None:
    """The ``text`` as dbt renders it; None if only dbt can."""
    without = _ENV_VAR.sub("", text)
    if _JINJA.search(without) or text.endswith("\n"):  # Jinja drops the last line's end
        return None
    values: list[str | None] = [
        None if match["name"].startswith(SECRET) else variables.get(match["name"], match["default"])
        for match in _ENV_VAR.finditer(text)
    ]
    known = [value for value in values if value is not None and SECRET not in value]
    if len(known) < len(values):
        return None
    left = iter(known)
    return _ENV_VAR.sub(lambda _: next(left), text)


def _keys(output: Mapping[str, Any], variables: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    for key, value in output.items():
        if key in TEXTS:
            yield key, _text(value, variables)
        elif key in OF_TEXTS:
            yield key, {name: _text(as_text(each), variables) for name, each in _mapping(value).items()}
        elif (key in OTHERS and not isinstance(value, str)) or (
            type(value) is (int if key in NUMBERS else bool) and key in (*NUMBERS, *SWITCHES)
        ):
            yield key, value
        else:
            raise _LeftToDbt


def _text(value: Any, variables: Mapping[str, str]) -> str:
    text = rendered(value, variables) if isinstance(value, str) else None
    if text is None:
        raise _LeftToDbt
    return text


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise _LeftToDbt
    return value


def _loaded(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        return yaml.load(file, Loader)
