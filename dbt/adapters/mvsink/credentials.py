"""The profile: everything dbt-spark's methods accept, and where shards live.

Nothing here touches Spark or the disk. Relative places are taken from the project's directory,
which dbt's configuration knows and the connection manager passes on: with ``--project-dir`` it is
not the working directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from dbt.adapters.spark.connections import SparkConnectionMethod, SparkCredentials
from dbt_common.dataclass_schema import ValidationError
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.connection.formats import FORMATS, valid
from dbt.adapters.mvsink.connection.java import check_pyspark
from dbt.adapters.mvsink.masking import keep_secret, masked, secrets_of

HOME = ".mvsink"
ANSI = "spark.sql.ansi.enabled"
SHARED_METASTORE = (
    "spark.hadoop.javax.jdo.option.ConnectionURL",
    "spark.hadoop.hive.metastore.uris",
    "spark.hive.metastore.uris",
)
DERBY_TEXT = 32_700  # characters that the embedded metastore keeps of a view's text
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_FILE_URI = re.compile(r"file:(?://(?:localhost)?)?(?=/(?!/))", re.IGNORECASE)
_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/+[^/]*")
# what Spark and the `deltalake` package read differently, or not at all
_UNSAFE = re.compile(r"%[0-9A-Fa-f]{2}|[\\:\x00-\x1f]")


@dataclass
class MvsinkCredentials(SparkCredentials):
    """``shard_root`` is a path or URI, ``storage_options`` the `deltalake` package's,
    ``metastore_timeout`` seconds.

    Values of ``storage_options`` and credentials in ``shard_root`` are never shown: see `masking`.
    """

    method: SparkConnectionMethod = SparkConnectionMethod.SESSION
    shard_root: str | None = None
    storage_options: dict[str, str] | None = None
    read_only: bool = False
    metastore_timeout: float = 300
    progress: bool = True
    formats: list[str] | None = None

    @classmethod
    def translate_aliases(cls, kwargs: dict[str, Any], recurse: bool = False) -> dict[str, Any]:
        """The first to see the profile: YAML's true, false and numbers are text to Spark and to
        stores; dbt takes nothing else.
        """
        data: dict[str, Any] = super().translate_aliases(kwargs, recurse)
        for option in ("server_side_parameters", "storage_options"):
            if isinstance(data.get(option), dict):
                data = {**data, option: {str(key): _text(value) for key, value in data[option].items()}}
        return data

    @classmethod
    def validate(cls, data: Any) -> None:
        """dbt's check of the profile as it was written, after ours. dbt's messages and tracebacks
        quote values: ours do not.
        """
        _check(data)
        try:
            super().validate(data)
        except ValidationError as error:
            raise ValidationError(_without_values(error)) from None

    @classmethod
    def __pre_deserialize__(cls, data: Any) -> Any:
        data = super().__pre_deserialize__(data)
        data.setdefault("method", SparkConnectionMethod.SESSION.value)
        return data

    def __post_init__(self) -> None:
        self._project: str | None = None
        _check(vars(self))
        keep_secret(secrets_of(self.shard_root, self.storage_options))
        if self.method == SparkConnectionMethod.SESSION:
            check_pyspark()  # before dbt-spark does, which names its own package
        ansi = self.server_side_parameters.get(ANSI)
        with self._stand_in_host():
            super().__post_init__()
        # dbt-spark forces ANSI mode off; Spark's own default holds unless the profile says
        # otherwise.
        self.server_side_parameters.pop(ANSI, None)
        if ansi is not None:
            self.server_side_parameters[ANSI] = str(ansi).lower()
        if self.formats and self.method != SparkConnectionMethod.SESSION:
            raise DbtRuntimeError(
                f"profile: formats is for method session; with {self.method} the server says which it has"
            )
        if self.shard_root is None and self.method != SparkConnectionMethod.SESSION:
            raise DbtRuntimeError(
                f"profile: method {self.method} needs `shard_root`: a place that this machine and Spark's can both reach"
            )

    @contextmanager
    def _stand_in_host(self) -> Iterator[None]:
        """A session has no host, but dbt-spark insists on one."""
        missing = self.host is None and self.method == SparkConnectionMethod.SESSION
        if missing:
            self.host = "session"
        try:
            yield
        finally:
            if missing:
                self.host = None

    def __repr__(self) -> str:
        """What `dbt debug` shows too, and the names of all that may be secret."""
        shown = ", ".join(f"{key}={value!r}" for key, value in self.connection_info())
        return f"MvsinkCredentials({shown}, storage_options={sorted(self.storage_options or {})})"

    def connection_info(self, *, with_aliases: bool = False) -> Iterator[tuple[str, Any]]:
        """dbt's, without the credentials that a URI may hold, and without keys that the profile
        does not set.
        """
        for key, value in super().connection_info(with_aliases=with_aliases):
            if value is not None:
                yield key, masked(value) if isinstance(value, str) else value

    @property
    def type(self) -> str:
        return "mvsink"

    @property
    def unique_field(self) -> str:
        return self.host or self.home

    def belong_to(self, project: str) -> None:
        """Relative places are below this project's directory."""
        self._project = os.path.abspath(project)
        # the project's own directory may have a name that is no good
        _check({"shard_root": self.shards})

    @property
    def project(self) -> str:
        """The project's directory, absolute; the working directory if nobody said."""
        return self._project or os.getcwd()

    @property
    def home(self) -> str:
        """Where the embedded session keeps warehouse, metastore and log: beside the project."""
        return home_of(self.project)

    @property
    def shards(self) -> str:
        """``shard_root``, absolute; beside the project by default."""
        return shards_of(self.project, self.shard_root)

    @property
    def longest_view(self) -> int | None:
        """How many characters of a view's text the metastore keeps; None if that is not known to be
        few.
        """
        embedded = self.method == SparkConnectionMethod.SESSION
        return (
            DERBY_TEXT
            if embedded and not any(key in self.server_side_parameters for key in SHARED_METASTORE)
            else None
        )

    def _connection_keys(self) -> tuple[str, ...]:
        """What `dbt debug` and `target` show: never what may be secret."""
        return ("method", *(("host",) if self.host else ()), "schema", "shard_root", "formats", "read_only")


def home_of(project: str) -> str:
    """See `MvsinkCredentials.home`."""
    return os.path.join(project, HOME)


def shards_of(project: str, shard_root: str | None) -> str:
    """See `MvsinkCredentials.shards`; for commands that have a profile but need no PySpark, which
    making credentials checks.
    """
    if shard_root is None:
        return os.path.join(home_of(project), "shards")
    file_uri = _FILE_URI.match(shard_root)
    if file_uri:  # as a path, which Spark and Python read alike
        return os.path.normpath(unquote(shard_root[file_uri.end() :]))
    if _URI.match(shard_root):
        return shard_root
    return os.path.normpath(os.path.join(project, os.path.expanduser(shard_root)))


def _place_problem(shard_root: str) -> str:
    """What is wrong with a place; empty if nothing is."""
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


def _text(value: Any) -> Any:
    """A YAML scalar as Spark spells it; what is none is left for dbt's own check to refuse."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (int, float)) else value


def _check(given: Mapping[str, Any]) -> None:
    """What this adapter's own keys may hold. `DbtRuntimeError` with what was given and what is
    expected.
    """
    methods = [method.value for method in SparkConnectionMethod]
    timeout = given.get("metastore_timeout", 0)
    root = given.get("shard_root")
    problem = _place_problem(root) if isinstance(root, str) else ""
    number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    for key, right, expected in (
        ("method", given.get("method", methods[0]) in methods, f"one of {', '.join(methods)}"),
        (
            "read_only",
            isinstance(given.get("read_only", False), bool),
            "true or false (an env_var needs `| as_bool`)",
        ),
        (
            "progress",
            isinstance(given.get("progress", True), bool),
            "true or false (an env_var needs `| as_bool`)",
        ),
        ("metastore_timeout", number and timeout >= 0, "seconds, 0 or more (an env_var needs `| as_number`)"),
        ("formats", valid(given.get("formats")), f"a list of any of {', '.join(FORMATS)}"),
        ("shard_root", isinstance(root, (str, type(None))), "a path or a URI"),
        ("shard_root", not problem, problem),
    ):
        if not right:
            raise DbtRuntimeError(
                f"profile: {key}\n  Got: {masked(repr(given[key]))}\n  Expected: {expected}"
            )
    _check_storage_options(given.get("storage_options"))


def _check_storage_options(given: Any) -> None:
    """Names, never values."""
    expected = "a mapping of the `deltalake` package's option names to texts, numbers, true or false"
    if given is not None and not isinstance(given, Mapping):
        raise DbtRuntimeError(f"profile: storage_options\n  Got: {_kind(given)}\n  Expected: {expected}")
    for key, value in (given or {}).items():
        if not isinstance(value, str):
            raise DbtRuntimeError(
                f"profile: storage_options: {key}\n  Got: {_kind(value)}\n  Expected: {expected}"
            )


def _without_values(error: ValidationError) -> str:
    """dbt's message of a wrong profile. Those about keys quote only keys; the others begin with the
    value.
    """
    if error.validator in ("required", "additionalProperties"):
        return str(error.message)
    at = ".".join(str(part) for part in error.absolute_path) or "the target"
    if error.validator == "enum":
        return f"{at}: {_kind(error.instance)} that is not one of {error.validator_value}"
    schemas = error.validator_value if error.validator == "anyOf" else [{"type": error.validator_value}]
    types = " or ".join(repr(schema.get("type")) for schema in schemas)
    return f"{at}: {_kind(error.instance)} is not of type {types}"


def _kind(value: Any) -> str:
    """What ``value`` is, without what it says."""
    names = {dict: "a mapping", list: "a list", str: "a text", type(None): "nothing", bool: "true or false"}
    return names.get(
        type(value), "a number" if isinstance(value, (int, float)) else f"a {type(value).__name__}"
    )
