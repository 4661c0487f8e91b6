"""What a profile's keys may be, checked without dbt and Spark, which some commands do without.

Relative paths start at the project's directory.

>>> check({"method": "session", "metastore_timeout": -1})
Traceback (most recent call last):
    ...
dbt.adapters.mvsink.profile_keys.InvalidProfile: profile: metastore_timeout
  Got: -1
  Expected: seconds, 0 or more (an env_var needs `| as_number`)
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from dbt.adapters.mvsink.masking import SHORTEST_SECRET, masked

HOME = ".mvsink"
SESSION = "session"  # the embedded Spark; its server is this process
CONNECT = "connect"  # a Spark Connect server
HTTP, THRIFT = "http", "thrift"  # dbt-spark's
METHODS = (THRIFT, HTTP, "odbc", SESSION, CONNECT)
WARM, OWN = "warm", "own"  # values of `session`
REFUSE, SKIP = "refuse", "skip"  # values of `unsupported_grants`
FORMATS = ("delta", "iceberg")  # what `formats` may list; `connection.settings` has what each needs
MAPPINGS = {  # whose values are texts, and what their keys are
    "storage_options": "the `deltalake` package's option names",
    "iceberg_catalog": "pyiceberg's names of a catalog's properties",
}
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_FILE_URI = re.compile(r"file:(?://(?:localhost)?)?(?=/(?!/))", re.IGNORECASE)
_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/+[^/]*")
# what Spark and the `deltalake` package read differently, or not at all
_UNSAFE = re.compile(r"%[0-9A-Fa-f]{2}|[\\:\x00-\x1f]")
_REMOTE = re.compile(r"sc://(?:\[[^\]\s]+\]|[^/;:\s]+)(?::(?P<port>\d+))?(?:/(?:;[^;=\s]+=[^;=\s]*)*)?")
_RESERVED = ("token", "use_ssl", "user_id", "user_agent", "session_id")  # not headers to PySpark


class InvalidProfile(Exception):
    """A key of the profile has a value that is not allowed; the text shows no secret."""


def home_of(project: str) -> str:
    """See `MvsinkCredentials.home`."""
    return os.path.join(project, HOME)


def shards_of(project: str, shard_root: str | None) -> str:
    """`MvsinkCredentials.shards`, for commands without PySpark, which the credentials require."""
    if shard_root is None:
        return os.path.join(home_of(project), "shards")
    file_uri = _FILE_URI.match(shard_root)
    if file_uri:  # as a path, which Spark and Python read alike
        return os.path.normpath(unquote(shard_root[file_uri.end() :]))
    if _URI.match(shard_root):
        return shard_root
    return os.path.normpath(os.path.join(project, os.path.expanduser(shard_root)))


def check(values: Mapping[str, Any]) -> None:
    """Check this adapter's own keys. `InvalidProfile` with the value and what was expected."""
    timeout = values.get("metastore_timeout", 0)
    root = values.get("shard_root")
    formats = values.get("formats")
    problem = _place_problem(root) if isinstance(root, str) else ""
    number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    boolean = "true or false (an env_var needs `| as_bool`)"
    for key, valid, expected in (
        ("method", values.get("method", SESSION) in METHODS, f"one of {', '.join(METHODS)}"),
        ("read_only", isinstance(values.get("read_only", False), bool), boolean),
        ("progress", isinstance(values.get("progress", True), bool), boolean),
        ("class_archive", isinstance(values.get("class_archive", True), bool), boolean),
        ("record_author", isinstance(values.get("record_author", True), bool), boolean),
        (
            "session",
            values.get("session") in (None, WARM, OWN),
            f"{WARM} (started when needed) or {OWN} (never a warm one)",
        ),
        (
            "unsupported_grants",
            values.get("unsupported_grants", REFUSE) in (REFUSE, SKIP),
            f"{REFUSE} (a model with `grants` fails) or {SKIP} (with a warning)",
        ),
        ("metastore_timeout", number and timeout >= 0, "seconds, 0 or more (an env_var needs `| as_number`)"),
        ("formats", formats is None or _are_formats(formats), f"a list of any of {', '.join(FORMATS)}"),
        ("shard_root", isinstance(root, (str, type(None))), "a path or a URI"),
        ("shard_root", not problem, problem),
        *_connect_checks(values),
        *_thrift_checks(values),
    ):
        if not valid:
            raise InvalidProfile(
                f"profile: {key}\n  Got: {masked(repr(values.get(key)))}\n  Expected: {expected}"
            )
    for key, names in MAPPINGS.items():
        _check_texts(key, values.get(key), names)


def _place_problem(shard_root: str) -> str:
    """What a usable ``shard_root`` must be; empty if this one is usable."""
    if shard_root.startswith("~") and os.path.expanduser(shard_root) == shard_root:
        return f"a path; there is no user {shard_root.split('/', 1)[0][1:]!r} on this machine"
    if shard_root.lower().startswith("file:") and not _FILE_URI.match(shard_root):
        return "a path, or file:///path, with no host"
    place = shards_of(os.sep, shard_root)
    if _UNSAFE.search(_AUTHORITY.sub("", place, count=1)):
        return "a path or a URI without %XX, `:`, backslashes and control characters in its path"
    if _URI.match(place) and re.search(r"[?#]", place):
        return "a URI without `?` and `#`"
    return ""


def _connect_checks(values: Mapping[str, Any]) -> Iterator[tuple[str, bool, str]]:
    """The checks of the keys of the method connect: the key, whether its value is valid, and what
    would be.
    """
    remote, headers = values.get("remote"), values.get("headers")
    if values.get("method", SESSION) != SESSION and values.get("session") is not None:
        raise InvalidProfile(f"profile: session is for method {SESSION}")
    if values.get("method", SESSION) != CONNECT:
        for key, value in (("remote", remote), ("headers", headers)):
            if value is not None:  # which may be secret
                raise InvalidProfile(f"profile: {key} is for method {CONNECT}")
        return
    url = "sc://host:port of a Spark Connect server, like sc://spark.example.com:15002"
    server = _REMOTE.fullmatch(remote) if isinstance(remote, str) else None
    yield "remote", server is not None and int(server["port"] or 0) < 2**16, url
    _check_texts("headers", headers, "names of gRPC headers")
    for name in headers or {}:
        if not _is_header(name):
            raise InvalidProfile(
                f"profile: headers\n  Got: {name!r}\n  Expected: names of lower-case letters, digits, `-`, `_` and `.`, "
                f"other than {', '.join(_RESERVED)}"
            )


def _thrift_checks(values: Mapping[str, Any]) -> Iterator[tuple[str, bool, str]]:
    """The same for the Thrift servers of dbt-spark, which sends `None` for a missing value, and
    sends a statement again if its answer is lost.
    """
    method = values.get("method", SESSION)
    if method == HTTP:
        yield "token", bool(values.get("token")), "a token; the server of method http asks for one"
        yield "cluster", bool(values.get("cluster")), "the cluster in the server's path"
    if method in (HTTP, THRIFT):
        once = "0: a statement whose answer is lost may have run, and is never sent again"
        yield "query_retries", values.get("query_retries", 0) == 0, once


def connect_secrets(remote: str | None, token: str | None, headers: Mapping[str, str] | None) -> list[str]:
    """The parts of a profile for Spark Connect that are never shown."""
    parameters = dict(part.partition("=")[::2] for part in (remote or "").partition("/;")[2].split(";"))
    shown = {name for name in _RESERVED if name != "token"} | {""}
    values = [value for name, value in parameters.items() if name not in shown]
    values += [unquote(value) for value in values]
    values += [token or "", *(headers or {}).values()]
    return sorted({value for value in values if len(value) >= SHORTEST_SECRET}, key=len, reverse=True)


def _is_header(name: str) -> bool:
    return bool(re.fullmatch(r"[a-z0-9_.-]+", name)) and name not in _RESERVED


def _are_formats(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(
        isinstance(each, str) and each in FORMATS for each in value
    )


def _check_texts(key: str, options: Any, names: str) -> None:
    """`InvalidProfile` that names a wrong option of a mapping and never shows a value."""
    expected = f"a mapping of {names} to strings, numbers, true or false"
    if options is not None and not isinstance(options, Mapping):
        raise InvalidProfile(f"profile: {key}\n  Got: {kind_of(options)}\n  Expected: {expected}")
    for name, value in (options or {}).items():
        if not isinstance(value, str):
            raise InvalidProfile(f"profile: {key}: {name}\n  Got: {kind_of(value)}\n  Expected: {expected}")


def as_text(value: Any) -> Any:
    """A YAML scalar as Spark spells it; any other value is left for dbt's own check to refuse."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (int, float)) else value


def kind_of(value: Any) -> str:
    """The kind of ``value``, without its contents."""
    names = {dict: "a mapping", list: "a list", str: "a text", type(None): "nothing", bool: "true or false"}
    return names.get(
        type(value), "a number" if isinstance(value, (int, float)) else f"a {type(value).__name__}"
    )
