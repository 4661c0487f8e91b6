"""The profile: everything dbt-spark's methods accept, and where shards live.

Nothing here touches Spark or the disk. Relative paths start at the project's directory, which dbt's
configuration knows and the connection manager passes on: with ``--project-dir`` it is not the
working directory.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from dbt.adapters.spark.connections import SparkConnectionMethod, SparkCredentials
from dbt_common.dataclass_schema import ValidationError
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.masking import (
    SHORTEST_SECRET,
    catalog_secrets,
    keep_secret,
    masked,
    secrets_in,
    secrets_of,
)

HOME = ".mvsink"
SESSION = SparkConnectionMethod.SESSION.value  # the embedded Spark; its server is this process
CONNECT = "connect"  # a Spark Connect server
FORMATS = ("delta", "iceberg")  # what `formats` may list; `connection.settings` has what each needs
MIN_PYSPARK = (4, 0)
INSTALL_PYSPARK = "pip install 'dbt-mvsink[session]'"
INSTALL_CONNECT = "pip install 'dbt-mvsink[connect]'"
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
_REMOTE = re.compile(r"sc://(?:\[[^\]\s]+\]|[^/;:\s]+)(?::(?P<port>\d+))?(?:/(?:;[^;=\s]+=[^;=\s]*)*)?")
_RESERVED = ("token", "use_ssl", "user_id", "user_agent", "session_id")  # not headers to PySpark
OF_DBT_SPARK = tuple(method.value for method in SparkConnectionMethod)
_methods = list(OF_DBT_SPARK)  # and those of `register_methods`


def register_methods(names: Iterable[str]) -> None:
    """Let profiles name these methods too: the connection factory's, which imports credentials."""
    _methods.extend(name for name in names if name not in _methods)


def when_read(listener: Callable[[MvsinkCredentials], None]) -> None:
    """Call ``listener`` with each profile that dbt reads, which it does before it parses."""
    _listeners.append(listener)


_listeners: list[Callable[[MvsinkCredentials], None]] = []


@dataclass
class MvsinkCredentials(SparkCredentials):
    """A profile. ``shard_root`` is a path or a URI, ``storage_options`` are those of the
    `deltalake` package, ``iceberg_catalog`` are pyiceberg's properties of the catalog in which
    published tables are, ``metastore_timeout`` is in seconds. ``remote`` (``sc://host:port``) and
    ``headers`` are for the method connect.

    Values of ``storage_options``, secrets of ``iceberg_catalog``, credentials in ``shard_root`` and
    secrets among Spark's settings are never shown (see `masking`).
    """

    method: str = SESSION  # type: ignore[assignment]  # dbt-spark's enum cannot have more members
    shard_root: str | None = None
    storage_options: dict[str, str] | None = None
    iceberg_catalog: dict[str, str] | None = None
    read_only: bool = False
    metastore_timeout: float = 300
    progress: bool = True
    class_archive: bool = True
    record_author: bool = True
    formats: list[str] | None = None
    remote: str | None = None
    headers: dict[str, str] | None = None
    # dbt-spark's own keys of a Thrift server: its polls wait for an answer, so pauses between them
    # only cost time; and a statement whose answer is lost may have run
    poll_interval: int = 0
    query_retries: int = 0

    @classmethod
    def translate_aliases(cls, kwargs: dict[str, Any], recurse: bool = False) -> dict[str, Any]:
        """dbt's first step with a profile: YAML's true, false and numbers become texts, which dbt's
        check requires for Spark and for stores.
        """
        data: dict[str, Any] = super().translate_aliases(kwargs, recurse)
        for option in ("server_side_parameters", "storage_options", "iceberg_catalog", "headers"):
            if isinstance(data.get(option), dict):
                data = {**data, option: {str(key): _text(value) for key, value in data[option].items()}}
        return data

    @classmethod
    def validate(cls, data: Any) -> None:
        """Check the profile as it was written: our checks, then dbt's. dbt's messages quote values,
        which may be secret; ours do not.
        """
        _check(data)
        try:
            super().validate(data)
        except ValidationError as error:
            raise ValidationError(_without_values(error)) from None

    @classmethod
    def __pre_deserialize__(cls, data: Any) -> Any:
        data = super().__pre_deserialize__(data)
        data.setdefault("method", SESSION)
        return data

    @classmethod
    def __post_deserialize__(cls, obj: Any) -> Any:
        for listener in _listeners:
            listener(obj)
        return obj

    def __post_init__(self) -> None:
        self._project: str | None = None
        _check(vars(self))
        keep_secret(secrets_of(self.shard_root, self.storage_options))
        keep_secret(secrets_in(self.server_side_parameters))
        keep_secret(catalog_secrets(self.iceberg_catalog))
        keep_secret(connect_secrets(self.remote, self.token, self.headers))
        keep_secret(each for each in (self.password,) if each and len(each) >= SHORTEST_SECRET)
        if self.method == SESSION:
            check_pyspark()  # before dbt-spark's check, whose message names dbt-spark's package
        if self.method == CONNECT:
            check_connect()
        ansi = self.server_side_parameters.get(ANSI)
        with self._stand_in_host():
            super().__post_init__()
        # dbt-spark turns ANSI mode off; here Spark's default applies unless the profile sets it
        self.server_side_parameters.pop(ANSI, None)
        if ansi is not None:
            self.server_side_parameters[ANSI] = str(ansi).lower()
        if self.formats and self.method != SESSION:
            raise DbtRuntimeError(
                f"profile: formats is for method session; with {self.method} the server determines its formats"
            )
        if self.shard_root is None and self.method != SESSION:
            raise DbtRuntimeError(
                f"profile: method {self.method} needs `shard_root`: a place that both this machine and Spark's can reach"
            )

    @contextmanager
    def _stand_in_host(self) -> Iterator[None]:
        """Fill in a host: a session has none, and our own methods have other keys, but dbt-spark
        insists on one.
        """
        missing = self.host is None and (self.method == SESSION or self.method not in OF_DBT_SPARK)
        if missing:
            self.host = str(self.method)
        try:
            yield
        finally:
            if missing:
                self.host = None

    def __repr__(self) -> str:
        """What `dbt debug` shows, with only the names of storage options: values may be secret."""
        shown = ", ".join(f"{key}={value!r}" for key, value in self.connection_info())
        return f"MvsinkCredentials({shown}, storage_options={sorted(self.storage_options or {})})"

    def connection_info(self, *, with_aliases: bool = False) -> Iterator[tuple[str, Any]]:
        """dbt's, without the credentials in a URI and without keys that the profile lacks."""
        for key, value in super().connection_info(with_aliases=with_aliases):
            if value is not None:
                yield key, masked(value) if isinstance(value, str) else value

    @property
    def type(self) -> str:
        return "mvsink"

    @property
    def unique_field(self) -> str:
        return self.host or self.remote or self.home

    def belong_to(self, project: str) -> None:
        """Resolve relative paths from this project's directory. `DbtRuntimeError` if the default
        ``shard_root`` would be unusable there.
        """
        self._project = os.path.abspath(project)
        _check({"shard_root": self.shards})

    @property
    def project(self) -> str:
        """The project's directory, absolute; by default the working directory."""
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
        """The longest text of a view (characters) that the metastore keeps; None if unknown."""
        shared = any(key in self.server_side_parameters for key in SHARED_METASTORE)
        return DERBY_TEXT if self.method == SESSION and not shared else None

    def _connection_keys(self) -> tuple[str, ...]:
        """What `dbt debug` and `target` show: never what may be secret."""
        return (
            "method",
            *(("host",) if self.host else ()),
            "remote",
            "schema",
            "shard_root",
            "formats",
            "read_only",
        )


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


def check_pyspark() -> str:
    """PySpark's version; one clear sentence as `DbtRuntimeError` if it is missing or too old."""
    try:
        import pyspark
    except ImportError as error:
        raise DbtRuntimeError(
            f"method `session` needs PySpark, and it cannot be imported ({error}): {INSTALL_PYSPARK}"
        ) from error
    if not hasattr(pyspark, "SparkContext"):
        raise DbtRuntimeError(
            "method `session` needs PySpark, and only its Connect client (pyspark-client) is installed: name a server "
            f"in the profile (`method: connect`), or, in an environment without pyspark-client, {INSTALL_PYSPARK}"
        )
    return _new_enough(pyspark.__version__, INSTALL_PYSPARK)


def _new_enough(version: str, install: str) -> str:
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < MIN_PYSPARK:
        needed = ".".join(map(str, MIN_PYSPARK))
        raise DbtRuntimeError(f"dbt-mvsink needs PySpark {needed} or newer, found {version}: {install}")
    return version


def check_connect() -> str:
    """PySpark's version; one clear sentence as `DbtRuntimeError` if its Connect client is missing
    or too old. Java is not needed.
    """
    # printed at each import; rows come as PySpark's own and as Arrow, never through pandas
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # it prints each failure that it also raises
    try:
        import pyspark
        import pyspark.sql.connect.session
    except Exception as error:  # PySpark raises its own for a missing dependency
        first = str(error).strip().splitlines()[0]
        raise DbtRuntimeError(
            f"method `connect` needs PySpark's Connect client, and it cannot be imported ({first}): {INSTALL_CONNECT}"
        ) from error
    return _new_enough(pyspark.__version__, INSTALL_CONNECT)


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


def _text(value: Any) -> Any:
    """A YAML scalar as Spark spells it; any other value is left for dbt's own check to refuse."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (int, float)) else value


def _check(values: Mapping[str, Any]) -> None:
    """Check this adapter's own keys. `DbtRuntimeError` with the value and what was expected."""
    timeout = values.get("metastore_timeout", 0)
    root = values.get("shard_root")
    formats = values.get("formats")
    problem = _place_problem(root) if isinstance(root, str) else ""
    number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    boolean = "true or false (an env_var needs `| as_bool`)"
    for key, valid, expected in (
        ("method", values.get("method", SESSION) in _methods, f"one of {', '.join(_methods)}"),
        ("read_only", isinstance(values.get("read_only", False), bool), boolean),
        ("progress", isinstance(values.get("progress", True), bool), boolean),
        ("class_archive", isinstance(values.get("class_archive", True), bool), boolean),
        ("record_author", isinstance(values.get("record_author", True), bool), boolean),
        ("metastore_timeout", number and timeout >= 0, "seconds, 0 or more (an env_var needs `| as_number`)"),
        ("formats", formats is None or _are_formats(formats), f"a list of any of {', '.join(FORMATS)}"),
        ("shard_root", isinstance(root, (str, type(None))), "a path or a URI"),
        ("shard_root", not problem, problem),
        *_connect_checks(values),
        *_thrift_checks(values),
    ):
        if not valid:
            raise DbtRuntimeError(
                f"profile: {key}\n  Got: {masked(repr(values.get(key)))}\n  Expected: {expected}"
            )
    _check_texts("storage_options", values.get("storage_options"), "the `deltalake` package's option names")
    _check_texts(
        "iceberg_catalog", values.get("iceberg_catalog"), "pyiceberg's names of a catalog's properties"
    )


def _connect_checks(values: Mapping[str, Any]) -> Iterator[tuple[str, bool, str]]:
    """The checks of the keys of the method connect: the key, whether its value is valid, and what
    would be.
    """
    remote, headers = values.get("remote"), values.get("headers")
    if values.get("method", SESSION) != CONNECT:
        for key, value in (("remote", remote), ("headers", headers)):
            if value is not None:  # which may be secret
                raise DbtRuntimeError(f"profile: {key} is for method {CONNECT}")
        return
    url = "sc://host:port of a Spark Connect server, like sc://spark.example.com:15002"
    server = _REMOTE.fullmatch(remote) if isinstance(remote, str) else None
    yield "remote", server is not None and int(server["port"] or 0) < 2**16, url
    _check_texts("headers", headers, "names of gRPC headers")
    for name in headers or {}:
        if not _is_header(name):
            raise DbtRuntimeError(
                f"profile: headers\n  Got: {name!r}\n  Expected: names of lower-case letters, digits, `-`, `_` and `.`, "
                f"other than {', '.join(_RESERVED)}"
            )


def _thrift_checks(values: Mapping[str, Any]) -> Iterator[tuple[str, bool, str]]:
    """The same for the Thrift servers of dbt-spark, which sends `None` for a missing value, and
    sends a statement again if its answer is lost.
    """
    method = values.get("method", SESSION)
    if method == SparkConnectionMethod.HTTP:
        yield "token", bool(values.get("token")), "a token; the server of method http asks for one"
        yield "cluster", bool(values.get("cluster")), "the cluster in the server's path"
    if method in (SparkConnectionMethod.HTTP, SparkConnectionMethod.THRIFT):
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
    """`DbtRuntimeError` that names a wrong option of a mapping and never shows a value."""
    expected = f"a mapping of {names} to strings, numbers, true or false"
    if options is not None and not isinstance(options, Mapping):
        raise DbtRuntimeError(f"profile: {key}\n  Got: {_kind(options)}\n  Expected: {expected}")
    for name, value in (options or {}).items():
        if not isinstance(value, str):
            raise DbtRuntimeError(f"profile: {key}: {name}\n  Got: {_kind(value)}\n  Expected: {expected}")


def _without_values(error: ValidationError) -> str:
    """dbt's message about a wrong profile, without values, which may be secret.

    Messages about keys quote only keys; the others begin with the value, and are rewritten.
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
    """The kind of ``value``, without its contents."""
    names = {dict: "a mapping", list: "a list", str: "a text", type(None): "nothing", bool: "true or false"}
    return names.get(
        type(value), "a number" if isinstance(value, (int, float)) else f"a {type(value).__name__}"
    )
