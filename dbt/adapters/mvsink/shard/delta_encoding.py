"""How a Delta table records a shard's state: pure functions, used only by `delta`.

docs/design/shard.md lists which part of the state is an application transaction, table
configuration or commit metadata, and what survives checkpoints and clean-up.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from dbt.adapters.mvsink.physical import DIFF, EMPTY_FRONTIER, ERROR, HASH, META, TIME
from dbt.adapters.mvsink.shard import claims
from dbt.adapters.mvsink.shard.errors import InvalidUsage, LogDamaged, NotAShard
from dbt.adapters.mvsink.shard.frontier import Antichain
from dbt.adapters.mvsink.shard.state import FORMAT_VERSION, Change, DataFile, KeptGeneration, ShardState
from dbt.adapters.mvsink.shard.stored import Unreadable, number_in, wrong_setting

T = TypeVar("T")
NAMESPACE = "mvsink."
FIXED = ("shard_id", "format_version", "salt", "created", "holders", "claims")
# Without this setting a log has statistics of a table's first 32 columns only; ours are the last.
NO_ID = uuid.UUID(int=0)
STATISTICS = "delta.dataSkippingStatsColumns"
# The statistics that are read of each live file. Those of the model's own columns are not.
FILE_FIELDS = (
    "path",
    "size_bytes",
    "num_records",
    *(f"{kind}.{column}" for kind in ("min", "max") for column in (TIME, DIFF)),
    *(f"null_count.{column}" for column in (ERROR, HASH)),
)

# Fields of the state that are application transactions, and the name of each.
RECORDED: Mapping[str, str] = {
    **{name: name for name in ("since", "upper", "generation", "dropped", "creation")},
    **{name: name for name in ("plan", "verified", "unverified", "drifted", "suspended")},
    **{name: name for name in ("verifying", "spent")},
    "known_files": "files",
}

Lookup = Callable[[str], "int | None"]


def new_configuration(
    schema: pa.Schema, shard_id: uuid.UUID, salt: int, created: int
) -> dict[str, str | None]:
    """The configuration of a new shard's table. ``created`` is ms."""
    return {
        NAMESPACE + "shard_id": str(shard_id),
        NAMESPACE + "format_version": str(FORMAT_VERSION),
        NAMESPACE + "salt": str(salt),
        NAMESPACE + "created": str(created),
        "delta.enableDeletionVectors": "false",
        STATISTICS: statistics_columns(schema),
    }


def changed_configuration(
    configuration: Mapping[str, str], change: Change, schema: pa.Schema
) -> dict[str, str]:
    """The settings that ``change`` makes in ``configuration``; empty for a change with files."""
    settings = {NAMESPACE + key: value for key, value in change.properties.items()}
    # Transactions cannot be listed, so the configuration names every holder there has been.
    key = NAMESPACE + "holders"
    known = _names(configuration.get(key, ""))
    new = [holder for holder in change.holds if holder not in known]
    if new:
        settings[key] = ",".join([*known, *new])
    if "format_version" in change.sets:
        settings[NAMESPACE + "format_version"] = str(change.sets["format_version"])
    if "claims" in change.sets:
        settings[NAMESPACE + "claims"] = claims.encode(change.sets["claims"])
    if "statistics" in change.sets:
        settings[STATISTICS] = statistics_columns(schema)
    return settings


def transactions(change: Change) -> dict[str, int]:
    """The application transactions of a commit, by name."""
    versions = {
        **{RECORDED[name]: _number(value) for name, value in change.sets.items() if name in RECORDED},
        **{f"input:{key}": progress for key, progress in change.inputs.items()},
        **{f"hold:{key}": time for key, time in change.holds.items()},
    }
    for each in change.sets.get("kept") or ():
        versions[f"kept:{each.generation}"] = each.until
        versions[f"kept_version:{each.generation}"] = each.version
        versions[f"kept_end:{each.generation}"] = each.end
    return {NAMESPACE + key: version for key, version in versions.items()}


def _kept(recorded: Lookup, generation: int) -> tuple[KeptGeneration, ...]:
    """The generations before this one that are recorded, back to the first that is not."""
    kept: list[KeptGeneration] = []
    while (until := recorded(f"kept:{generation - 1}")) is not None:
        generation -= 1
        version, end = (recorded(f"{name}:{generation}") or 0 for name in ("kept_version", "kept_end"))
        kept.insert(0, KeptGeneration(generation, version, until, end))
    return tuple(kept)


def _number(value: object) -> int:
    """The form in which the log keeps a field. A shard that is not dropped has 0 there."""
    if isinstance(value, Antichain):
        return value.stored()
    return value if isinstance(value, int) else 0


def decode_state(
    uri: str,
    version: int,
    configuration: Mapping[str, str],
    schema: pa.Schema,
    lookup: Lookup,
    files: Callable[[], Iterable[DataFile]],
) -> ShardState:
    """The state of a table at ``version``. ``lookup`` gives an application transaction by name.
    Raises `NotAShard`, `InvalidUsage` for a newer format, and `LogDamaged` for a transaction or a
    setting that no release of ours writes.
    """
    own = _own(uri, configuration)
    setting = _settings(uri, version, own)
    recorded = _checked(uri, version, lookup)
    return ShardState(
        version=version,
        shard_id=setting("shard_id", _uuid, NO_ID),
        schema=schema,
        salt=setting("salt", number_in, 0),
        since=Antichain.of(recorded("since") or 0),
        upper=Antichain.of(recorded("upper") or 0),
        generation=recorded("generation") or 0,
        format_version=_supported(uri, setting("format_version", number_in, 0)),
        created=setting("created", number_in, 0),
        dropped=recorded("dropped") or None,
        creation=recorded("creation"),
        files=tuple(files()),
        holds=_holds(recorded, own),
        properties={key: value for key, value in own.items() if key not in FIXED},
        statistics=configuration.get(STATISTICS) == statistics_columns(schema),
        plan=recorded("plan") or 0,
        verified=recorded("verified"),
        unverified=recorded("unverified") or 0,
        verifying=recorded("verifying"),
        spent=recorded("spent") or 0,
        drifted=recorded("drifted"),
        suspended=recorded("suspended") or 0,
        known_files=recorded("files"),
        claims=setting("claims", claims.decode, {}),
        kept=_kept(recorded, recorded("generation") or 0),
        uri=uri,
    )


def _own(uri: str, configuration: Mapping[str, str]) -> dict[str, str]:
    own = {key[len(NAMESPACE) :]: value for key, value in configuration.items() if key.startswith(NAMESPACE)}
    if "shard_id" not in own:
        raise NotAShard(f"the Delta table at {uri} is not a shard: it has no mvsink.shard_id")
    return own


class _Setting(Protocol):
    def __call__(self, name: str, read: Callable[[str], T], otherwise: T) -> T: ...


def _settings(uri: str, version: int, own: Mapping[str, str]) -> _Setting:
    """A function that reads a setting in our namespace; it raises `LogDamaged` for a value that we
    never write.
    """

    def setting(name: str, read: Callable[[str], T], otherwise: T) -> T:
        if name not in own:
            return otherwise
        try:
            return read(own[name])
        except Unreadable as error:
            raise LogDamaged(uri, wrong_setting(version, name, own[name], error)) from error

    return setting


def _uuid(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError as error:
        raise Unreadable("expected a UUID") from error


def _supported(uri: str, version: int) -> int:
    if version > FORMAT_VERSION:
        raise InvalidUsage(
            f"shard {uri} has format version {version}; this release reads up to {FORMAT_VERSION}: upgrade it"
        )
    return version


def _checked(uri: str, version: int, lookup: Lookup) -> Lookup:
    """``lookup`` within our namespace; it refuses a negative number, which we never write."""

    def checked(key: str) -> int | None:
        value = lookup(NAMESPACE + key)
        if value is not None and value < 0:
            raise LogDamaged(
                uri,
                f"at version {version} the transaction {NAMESPACE}{key} is {value}, and must be 0 or more: another tool wrote it. "
                "Restore the table to a version before that with that tool, or move the shard's directory away and run with "
                "--full-refresh",
            )
        return value

    return checked


def _holds(recorded: Lookup, own: Mapping[str, str]) -> dict[str, int]:
    """Holds by holder. A released hold is at the empty frontier."""
    times = {holder: recorded(f"hold:{holder}") for holder in _names(own.get("holders", ""))}
    return {holder: time for holder, time in times.items() if time is not None and time < EMPTY_FRONTIER}


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def statistics_columns(schema: pa.Schema) -> str:
    """The columns of which the log keeps statistics: the physical ones, and every struct.
    `deltalake` finds no statistics at all if a struct's fields are left out, though none are
    written for them.
    """
    structs = [f"`{field.name.replace('`', '``')}`" for field in schema if pa.types.is_struct(field.type)]
    return ",".join([*META, *structs])


def encode_statistics(file: DataFile) -> str:
    """The statistics of an added file, as JSON."""
    rows = file.rows or 0
    return json.dumps(
        {
            "numRecords": rows,
            "minValues": {TIME: file.min_time, DIFF: file.min_diff},
            "maxValues": {TIME: file.max_time, DIFF: file.max_diff},
            "nullCount": {
                TIME: 0,
                DIFF: 0,
                ERROR: rows - (file.errors or 0),
                HASH: rows - (file.hashes or 0),
            },
        }
    )


def decode_files(actions: pa.Table, deletion_vectors: Iterable[str]) -> list[DataFile]:
    """The live files of flattened add actions, by path; the paths are encoded as in the log.

    ``deletion_vectors`` are the paths of the files that have one.
    """
    vectors = {_file_name(path) for path in deletion_vectors}
    rows = actions.select([name for name in FILE_FIELDS if name in actions.column_names]).to_pylist()
    return sorted((_decode_file(row, vectors) for row in rows), key=lambda file: file.path)


def _decode_file(row: Mapping[str, Any], vectors: set[str]) -> DataFile:
    rows = row.get("num_records")

    def not_null(column: str) -> int | None:
        nulls = row.get(f"null_count.{column}")
        return None if nulls is None or rows is None else rows - nulls

    return DataFile(
        path=row["path"],
        size=row["size_bytes"],
        rows=rows,
        min_time=row.get(f"min.{TIME}"),
        max_time=row.get(f"max.{TIME}"),
        min_diff=row.get(f"min.{DIFF}"),
        max_diff=row.get(f"max.{DIFF}"),
        errors=not_null(ERROR),
        hashes=not_null(HASH),
        deletion_vector=_file_name(row["path"]) in vectors,
    )


def _file_name(encoded: str) -> str:
    return unquote(encoded).rsplit("/", 1)[-1]
