"""The profile: everything dbt-spark's methods accept, and where shards live.

Nothing here touches Spark or the disk. Relative paths start at the project's directory, which dbt's
configuration knows and the connection manager passes on: with ``--project-dir`` it is not the
working directory.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from dbt.adapters.spark.connections import SparkConnectionMethod, SparkCredentials
from dbt_common.dataclass_schema import ValidationError

from dbt.adapters.mvsink import profile_keys
from dbt.adapters.mvsink.exceptions import PackageMissing, WrongProfile
from dbt.adapters.mvsink.masking import (
    SHORTEST_SECRET,
    catalog_secrets,
    keep_secret,
    masked,
    secrets_in,
    secrets_of,
)
from dbt.adapters.mvsink.profile_keys import (
    CONNECT,
    REFUSE,
    SESSION,
    InvalidProfile,
    as_text,
    connect_secrets,
    home_of,
    kind_of,
    shards_of,
)

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
OF_DBT_SPARK = tuple(method.value for method in SparkConnectionMethod)


def when_read(listener: Callable[[MvsinkCredentials], None]) -> None:
    """Call ``listener`` with each profile that dbt reads, which it does before it parses."""
    _listeners.append(listener)


CLOSE = 0.8  # how much alike a misspelt key and a key are, as `difflib` measures it
_listeners: list[Callable[[MvsinkCredentials], None]] = []


@dataclass
class MvsinkCredentials(SparkCredentials):
    """A profile. ``shard_root`` is a path or a URI, ``storage_options`` are those of the
    `deltalake` package, ``iceberg_catalog`` are pyiceberg's properties of the catalog in which
    published tables are, ``metastore_timeout`` is in seconds, ``session`` says whether a warm
    session is used, and ``unsupported_grants`` what becomes of `grants` where Spark has none.
    ``remote`` (``sc://host:port``) and ``headers`` are for the method connect.

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
    session: str | None = None
    unsupported_grants: str = REFUSE
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
                data = {**data, option: {str(key): as_text(value) for key, value in data[option].items()}}
        return data

    @classmethod
    def validate(cls, data: Any) -> None:
        """Check the profile as it was written: our checks, then dbt's. dbt's messages quote values,
        which may be secret; ours do not.
        """
        _check(data)
        _check_names(data, [field.name for field in fields(cls)])
        try:
            super().validate(data)
        except ValidationError as error:
            raise WrongProfile(_without_values(error)) from None

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
            raise WrongProfile(
                f"profile: formats is for method session; with {self.method} the server determines its formats"
            )
        if self.shard_root is None and self.method != SESSION:
            raise WrongProfile(
                f"profile: method {self.method} needs `shard_root`: a place that both this machine "
                "and the Spark server can reach, like s3://bucket/shards"
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
            *(("session",) if self.session else ()),
            "schema",
            "shard_root",
            "formats",
            "read_only",
        )


def check_pyspark() -> str:
    """PySpark's version; one clear sentence as `DbtRuntimeError` if it is missing or too old."""
    try:
        import pyspark
    except ImportError as error:
        raise PackageMissing(
            f"method `session` needs PySpark, and it cannot be imported ({error}): {INSTALL_PYSPARK}"
        ) from error
    if not hasattr(pyspark, "SparkContext"):
        raise PackageMissing(
            "method `session` needs PySpark, and only its Connect client (pyspark-client) is installed: name a server "
            f"in the profile (`method: connect`), or, in an environment without pyspark-client, {INSTALL_PYSPARK}"
        )
    return _new_enough(pyspark.__version__, INSTALL_PYSPARK)


def _new_enough(version: str, install: str) -> str:
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < MIN_PYSPARK:
        needed = ".".join(map(str, MIN_PYSPARK))
        raise PackageMissing(f"dbt-mvsink needs PySpark {needed} or newer, found {version}: {install}")
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
        raise PackageMissing(
            f"method `connect` needs PySpark's Connect client, and it cannot be imported ({first}): {INSTALL_CONNECT}"
        ) from error
    return _new_enough(pyspark.__version__, INSTALL_CONNECT)


def _without_values(error: ValidationError) -> str:
    """dbt's message about a wrong profile, without values, which may be secret.

    Messages about keys quote only keys; the others begin with the value, and are rewritten.
    """
    if error.validator in ("required", "additionalProperties"):
        return str(error.message)
    at = ".".join(str(part) for part in error.absolute_path) or "the target"
    if error.validator == "enum":
        return f"{at}: {kind_of(error.instance)} that is not one of {error.validator_value}"
    schemas = error.validator_value if error.validator == "anyOf" else [{"type": error.validator_value}]
    types = " or ".join(repr(schema.get("type")) for schema in schemas)
    return f"{at}: {kind_of(error.instance)} is not of type {types}"


def _check_names(values: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse a profile without a schema, and one with a key that is nearly one of the ``known``:
    dbt ignores it.
    """
    for key in values:
        close = [] if key in known else get_close_matches(key, known, 1, CLOSE)
        if close:
            raise WrongProfile(f"profile: {key}: no such key\n  Expected: did you mean `{close[0]}`?")
    if values.get("schema") is None:
        raise WrongProfile(
            "profile: no `schema`\n  Expected: the schema in which models are built, like `schema: shop`"
        )


def _check(values: Mapping[str, Any]) -> None:
    """Check this adapter's own keys. `DbtRuntimeError` with the value and what was expected."""
    try:
        profile_keys.check(values)
    except InvalidProfile as problem:
        raise WrongProfile(str(problem)) from None
