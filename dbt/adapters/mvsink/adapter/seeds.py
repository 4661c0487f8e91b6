"""Seeds are read by Arrow and staged as a Parquet file below `shard_root`, which Spark's executors
reach wherever they run. Spark's casts give the types; SQL literals are never used.

Every text round-trips. An unquoted field that is empty or ``null`` is NULL, as in every dbt seed; a
quoted empty field is the empty string. Column types are inferred by dbt's rules in dbt's order
(integer, number, date, timestamp, boolean, text), but on whole columns: this takes a second where
inferring value by value takes a minute. An integer is an INT as in dbt-spark, or a BIGINT if the
values need it.
"""

from __future__ import annotations

import csv
import os
import uuid
import weakref
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from dbt.adapters.base.meta import AdapterMeta, available
from dbt.adapters.spark.impl import SparkAdapter

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.engine import DataflowError, sql
from dbt.adapters.mvsink.exceptions import InvalidSeed
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.shard import StorageError
from dbt.adapters.mvsink.shard.delta import DeltaStorage

if TYPE_CHECKING:
    import agate

BLOCK = 16 * 2**20  # bytes that Arrow reads at once: no record may be longer
NULLS = ["", "null", "NULL", "Null"]
INTEGER = r"^\s*[+-]?\d+\s*$"
NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
DATE = r"^\s*\d{4}-\d{2}-\d{2}\s*$"
TIME = r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?"
ZONE = r"(Z|[+-]((0\d|1[0-7]):?[0-5]\d|18:?00))?"
TIMESTAMP = rf"^\s*\d{{4}}-\d{{2}}-\d{{2}}[T ]{TIME}\s*{ZONE}\s*$"
BOOLEAN = r"^\s*(?i:true|false)\s*$"
STAGING = "_staging"  # below `shard_root`
LEFT_AFTER = 24 * 3_600_000  # ms: no `dbt seed` takes longer, so it was killed
SHOWN_ROWS = 100  # of a seed, for `dbt seed --show`


@dataclass(frozen=True)
class StagedSeed:
    """A seed on storage. ``columns`` are names with Spark types; ``query`` reads it, typed."""

    columns: tuple[tuple[str, str], ...]
    rows: int
    query: str
    checked: str
    checks: tuple[str, ...]
    storage: DeltaStorage
    sample: agate.Table


def read_csv(path: str, delimiter: str = ",") -> pa.Table:
    """A CSV file as text columns. `DbtRuntimeError` names the file and what is wrong with it."""
    parse = pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    try:
        names, has_rows = _header(path, delimiter)
        if not has_rows:
            return pa.table({name: pa.array([], pa.string()) for name in names})
        return pacsv.read_csv(
            path,
            parse_options=parse,
            read_options=pacsv.ReadOptions(block_size=BLOCK),
            convert_options=pacsv.ConvertOptions(
                column_types={name: pa.string() for name in names},
                null_values=NULLS,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidSeed(
            f"seed {path} cannot be read as CSV with delimiter {delimiter!r}: {error}"
        ) from error


def _header(path: str, delimiter: str) -> tuple[list[str], bool]:
    """The first record, which may span lines, and whether there is another one."""
    with open(path, encoding="utf-8-sig", newline="") as source:
        records = csv.reader(source, delimiter=delimiter)
        names = next(records, [])
        has_rows = any(records)
    times = Counter(name.lower() for name in names)
    twice = [f"`{name}`" for name in names if times[name.lower()] > 1]
    if twice:
        raise InvalidSeed(
            f"seed {path}: the first line names a column twice, upper and lower case being the same: "
            f"{', '.join(twice)}"
        )
    for name in names:
        try:
            sql.check_name(name)
        except DataflowError as error:
            raise InvalidSeed(f"seed {path}: {error}") from error
    if not any(name.strip() for name in names):
        raise InvalidSeed(f"seed {path} is empty: the first line must name the columns")
    return names, has_rows


def infer(column: pa.ChunkedArray) -> str:
    """The Spark type of a text column: the first kind that fits every value."""
    values = column.drop_null()
    if len(values) == 0:
        return "int"
    for pattern, kind in (
        (INTEGER, "int"),
        (INTEGER, "bigint"),
        (NUMBER, "double"),
        (DATE, "date"),
        (TIMESTAMP, "timestamp"),
        (BOOLEAN, "boolean"),
    ):
        if pc.all(pc.match_substring_regex(values, pattern)).as_py() and _fits(values, kind):
            return kind
    return "string"


def _fits(values: pa.ChunkedArray, kind: str) -> bool:
    """Whether every value of the right shape is valid (no 13th month, at most 64 bits)."""
    targets = {"int": pa.int32(), "bigint": pa.int64(), "date": pa.date32(), "timestamp": pa.date32()}
    if kind not in targets:
        return True
    plain = pc.utf8_ltrim(pc.utf8_trim_whitespace(values), "+")
    try:
        pc.cast(
            pc.utf8_slice_codeunits(plain, 0, len("2024-02-29")) if kind == "timestamp" else plain,
            targets[kind],
        )
    except pa.ArrowInvalid:
        return False
    return True


def _delimiter(model: Mapping[str, Any]) -> str:
    delimiter = model["config"].get("delimiter", ",")
    if delimiter is None:
        return ","
    if not isinstance(delimiter, str) or len(delimiter) != 1:
        raise InvalidSeed(
            f"seed {model['name']}: invalid config `delimiter`\n  Got: {delimiter!r}\n  Expected: one character"
        )
    return delimiter


class SeedAdapter(SparkAdapter, metaclass=AdapterMeta):
    """The methods that the seed materialization calls."""

    @available.parse_none
    def mv_stage_seed(self, model: Mapping[str, Any], empty: bool) -> StagedSeed:
        """Read the seed's file and stage it where Spark can read it."""
        config = model["config"]
        table = read_csv(self._seed_path(model), _delimiter(model))
        declared = {name.lower(): kind for name, kind in (config.get("column_types") or {}).items()}
        columns = tuple(
            (name, declared.get(name.lower()) or infer(table.column(name))) for name in table.column_names
        )
        if empty:
            table = table.slice(0, 0)
        # Positions as names in the file: Parquet refuses characters that a seed's header may have.
        positions = [f"c{i}" for i in range(len(columns))]
        storage = self._stage(model["name"], table.rename_columns(positions))
        quote = config.get("quote_columns")
        items = ", ".join(
            f"cast({position} as {kind}) as {self.quote_seed_column(name, quote)}"
            for position, (name, kind) in zip(positions, columns, strict=True)
        )
        # Text needs no check, and most of a large seed is text.
        checks = tuple(p for p, (_, kind) in zip(positions, columns, strict=True) if kind.lower() != "string")
        casts = ", ".join(
            f"cast({position} as {kind}) as {position}"
            for position, (_, kind) in zip(positions, columns, strict=True)
            if position in checks
        )
        staged = StagedSeed(
            columns=columns,
            rows=table.num_rows,
            query=f"select {items} from {sql.parquet_in(storage.uri)}",
            checked=f"select {casts} from {sql.parquet_in(storage.uri)}",
            checks=checks,
            storage=storage,
            sample=_sample(table),
        )
        # if the seed fails later
        weakref.finalize(staged, _remove, storage)
        return staged

    @available.parse_none
    def mv_check_seed(self, staged: StagedSeed) -> None:
        """Evaluate every cast once. A failure removes the staged file and is raised."""
        checks = ", ".join(f"count({position})" for position in staged.checks)
        try:
            if checks:
                self.execute(f"select {checks} from (\n{staged.checked}\n)", fetch=True)
        except BaseException:
            _remove(staged.storage)
            raise

    @available.parse_none
    def mv_discard_seed(self, staged: StagedSeed) -> None:
        """Remove the staged file."""
        _remove(staged.storage)

    def _seed_path(self, model: Mapping[str, Any]) -> str:
        project = self.config.project_root
        for root in (model.get("root_path"), project):
            path = os.path.join(root or "", model["original_file_path"])
            if root and os.path.exists(path):
                return path
        raise InvalidSeed(f"seed file {model['original_file_path']} is not below {project}")

    def _stage(self, name: str, table: pa.Table) -> DeltaStorage:
        """A directory of its own, with the table in one file."""
        credentials = self.config.credentials
        staging = DeltaStorage(f"{credentials.shards.rstrip('/')}/{STAGING}", credentials.storage_options)
        remove_left(staging, wall_clock.now_ms())
        storage = DeltaStorage(f"{staging.uri}/seed-{uuid.uuid4().hex}", credentials.storage_options)
        try:
            part = storage.write_part("part-0.parquet", table.schema)
            part.write(table)
            part.close()
        except (StorageError, OSError) as error:
            _remove(storage)
            raise InvalidSeed(
                f"seed {name}: cannot stage it below shard_root {masked(credentials.shards)}: {masked(str(error))}"
            ) from error
        return storage


def remove_left(staging: DeltaStorage, now: int) -> None:
    """Remove files staged by seeds that were killed more than `LEFT_AFTER` before ``now`` (ms)."""
    with suppress(StorageError, OSError):  # as below; and that seed can still be staged
        left = [each.path for each in staging.list_files("") if each.modified < now - LEFT_AFTER]
        for directory in sorted({path.partition("/")[0] for path in left if path.startswith("seed-")}):
            staging.delete_directory(directory)


def _remove(storage: DeltaStorage) -> None:
    with suppress(StorageError, OSError):  # what cannot be removed harms nothing
        storage.delete_directory("")


def _sample(table: pa.Table) -> agate.Table:
    import agate

    head = table.slice(0, SHOWN_ROWS)
    text = agate.Text()
    return agate.Table(zip(*head.to_pydict().values()), head.column_names, [text] * head.num_columns)
