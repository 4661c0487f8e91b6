"""Reading named Parquet files as SQL: their physical columns converted to the wanted ones.

Files are grouped by physical schema, and by directory if there are few; each group is one relation
over one glob. Columns that a file lacks are NULL; partition columns are not in the files, so their
values are literals.
"""

from __future__ import annotations

import os.path
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa

from dbt.adapters.mvsink.engine import Column, UnsupportedType, sql
from dbt.adapters.mvsink.engine.types import SparkType, spark_type
from dbt.adapters.mvsink.shard.updates import canonical

MAX_DIRECTORIES_APART = 8  # up to so many are a relation each
# characters that are not escaped in the path of a Java URI, besides letters and digits
PLAIN = "_-!.~'()*,;:$&+=/@"
MAX_GLOB = 60_000  # characters; the files of a longer one are read as several relations

Footer = Callable[[str], pa.Schema]


@dataclass(frozen=True)
class Piece:
    """Rows of the data file at ``path`` (absolute).

    ``partition``: the partition columns' values as SQL expressions. ``rows``: a condition that
    selects rows.
    """

    path: str
    partition: tuple[tuple[str, str], ...] = ()
    rows: str = ""


def select_pieces(pieces: Sequence[Piece], columns: Sequence[Column], more: str, footer: Footer) -> list[str]:
    """``columns`` and the items ``more`` of the pieces. ``footer`` reads a file's stored schema."""
    groups: dict[tuple[tuple[Column, ...], str], dict[_Directory, list[str]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for piece in pieces:
        path, name = os.path.split(piece.path)
        groups[_physical(footer(piece.path)), piece.rows][_Directory(path, piece.partition)].append(name)
    queries = []
    for (physical, rows), directories in groups.items():
        if (
            len(directories) > MAX_DIRECTORIES_APART
            and not rows
            and all(directory.partition for directory in directories)
        ):
            queries += _read_together(directories, columns, physical, more)
        else:
            queries += _read_each(directories, columns, physical, more, f" where {rows}" if rows else "")
    return queries


@dataclass(frozen=True)
class _Directory:
    """A directory of files with the same partition values."""

    path: str
    partition: tuple[tuple[str, str], ...]


def _read_each(
    directories: Mapping[_Directory, Sequence[str]],
    columns: Sequence[Column],
    physical: Sequence[Column],
    more: str,
    where: str,
) -> list[str]:
    """One relation per directory, with the partition values as literals."""
    queries = []
    for directory, names in directories.items():
        items = ", ".join([*_items(columns, physical, dict(directory.partition)), *([more] if more else [])])
        queries += [
            f"select {items} from {sql.parquet(glob)}{where}" for glob in globs(directory.path, names)
        ]
    return queries


def _read_together(
    directories: Mapping[_Directory, Sequence[str]],
    columns: Sequence[Column],
    physical: Sequence[Column],
    more: str,
) -> list[str]:
    """One relation for all of them, joined with their partition values by each row's directory; a
    row without such values is an error.
    """
    shared = _common([directory.path for directory in directories])
    root = shared[: shared.rfind("/")]
    names = [f"_mv_{number}" for number, _ in enumerate(next(iter(directories)).partition)]
    values = {column: f"d.{name}" for (column, _), name in zip(next(iter(directories)).partition, names)}
    items = ", ".join([*_items(columns, physical, values), *([more] if more else [])])
    place = (
        "regexp_extract(regexp_replace(_metadata.file_path, '^file:/+', '/'), '^(.*)/[^/]*$', 1) _mv_place"
    )
    known = "d._mv_place is not null or cast(raise_error(concat('no partition values for ', f._mv_place)) as boolean)"
    queries = []
    for chunk in _chunks([(d, globs(d.path[len(root) + 1 :], files)) for d, files in directories.items()]):
        files = sql.parquet(
            f"{sql.escape_glob(root)}/{{{','.join(glob for _, named in chunk for glob in named)}}}"
        )
        rows = [
            ", ".join([sql.text(spelled(d.path)), *(f"string({value})" for _, value in d.partition)])
            for d, _ in chunk
        ]
        listed = f"values {', '.join(f'({row})' for row in rows)} as d(_mv_place, {', '.join(names)})"
        queries.append(
            f"select /*+ BROADCAST(d) */ {items} from (select *, {place} from {files}) f "
            f"left join (select * from {listed}) d on f._mv_place = d._mv_place where {known}"
        )
    return queries


def _chunks(
    directories: Sequence[tuple[_Directory, Sequence[str]]],
) -> Iterator[list[tuple[_Directory, Sequence[str]]]]:
    """The same in chunks whose globs are not too long."""
    chunk: list[tuple[_Directory, Sequence[str]]] = []
    size = 0
    for directory, names in directories:
        length = sum(map(len, names))
        if chunk and size + length > MAX_GLOB:
            yield chunk
            chunk, size = [], 0
        chunk.append((directory, names))
        size += length
    if chunk:
        yield chunk


def globs(directory: str, names: Sequence[str]) -> list[str]:
    """Globs that name exactly these files of ``directory``, each of up to `MAX_GLOB` characters."""
    patterns, left = [], list(names)
    while left:
        size, count = 0, 0
        while count < len(left) and (count == 0 or size + len(left[count]) < MAX_GLOB):
            size += len(left[count]) + 1
            count += 1
        patterns.append(f"{sql.escape_glob(directory)}/{_braces(left[:count])}")
        left = left[count:]
    return patterns


def _braces(names: Sequence[str]) -> str:
    """``part-1.parquet, part-2.parquet`` as ``part-{1,2}.parquet``."""
    if len(names) == 1:
        return sql.escape_glob(names[0])
    head = _common(names)
    tail = _common([name[len(head) :][::-1] for name in names])[::-1]
    middles = [name[len(head) : len(name) - len(tail)] for name in names]
    if not all(middles):
        head, middles, tail = "", list(names), ""
    return (
        sql.escape_glob(head)
        + "{"
        + ",".join(_escaped(middle) for middle in middles)
        + "}"
        + sql.escape_glob(tail)
    )


def _common(names: Sequence[str]) -> str:
    """The longest common prefix."""
    least, greatest = min(names), max(names)
    end = next((i for i, character in enumerate(least) if greatest[i] != character), len(least))
    return least[:end]


def _escaped(text: str) -> str:
    return sql.escape_glob(text).replace(",", "\\,")


def _items(columns: Sequence[Column], physical: Sequence[Column], partition: Mapping[str, str]) -> list[str]:
    stored = {column.name.lower(): column for column in physical}
    return [
        f"{_item(column, stored.get(column.name.lower()), partition)} {sql.identifier(column.name)}"
        for column in columns
    ]


def _item(column: Column, stored: Column | None, partition: Mapping[str, str]) -> str:
    if column.name in partition:
        return f"cast({partition[column.name]} as {column.type.spelled})"
    if stored is None:
        return f"cast(null as {column.type.spelled})"
    return converted(sql.identifier(stored.name), stored.type, column.type)


def converted(expression: str, stored: SparkType, wanted: SparkType, depth: int = 0) -> str:
    """``expression`` as ``wanted``: fields by name, missing ones NULL. (A cast is by position.)"""
    if stored == wanted:
        return expression
    if stored.name == wanted.name == "struct":
        fields = {field.name.lower(): field for field in stored.fields}
        values = []
        for field in wanted.fields:
            own = fields.get(field.name.lower())
            inner = (
                converted(f"{expression}.{sql.identifier(own.name)}", own.type, field.type, depth)
                if own
                else f"cast(null as {field.type.spelled})"
            )
            values.append(f"{sql.text(field.name)}, {inner}")
        return f"if({expression} is null, null, named_struct({', '.join(values)}))"
    variable = f"v{depth}"
    if stored.name == wanted.name == "array":
        return f"transform({expression}, {variable} -> {converted(variable, stored.inner[0], wanted.inner[0], depth + 1)})"
    if stored.name == wanted.name == "map" and stored.inner[0] == wanted.inner[0]:
        value = converted(variable, stored.inner[1], wanted.inner[1], depth + 1)
        return f"transform_values({expression}, (k{depth}, {variable}) -> {value})"
    return f"cast({expression} as {wanted.spelled})"


def _physical(schema: pa.Schema) -> tuple[Column, ...]:
    """A file's columns; a type that shards do not support has only its text, and is cast."""
    return tuple(Column(field.name, _type(field.type)) for field in canonical(schema))


def _type(arrow: pa.DataType) -> SparkType:
    try:
        return spark_type(arrow)
    except UnsupportedType:
        return SparkType(f"arrow {arrow}", "other")


def literal(value: object) -> str:
    """A partition value as an SQL expression for its text (to be cast), or NULL."""
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return sql.text(str(value).lower() if isinstance(value, bool) else str(value))


def spelled(path: str) -> str:
    """A path as Java's URIs spell it, as Spark names a file; a local path has no scheme."""
    if path.startswith("file:"):
        path = "/" + unquote(path[len("file:") :]).lstrip("/")
    scheme, mark, rest = path.partition("://")
    return f"{scheme}{mark}{_quoted(rest)}" if mark else _quoted(path)


def _quoted(path: str) -> str:
    return "".join(
        character
        if character in PLAIN or character.isalnum() or (ord(character) > 0x9F and not character.isspace())
        else "".join(f"%{byte:02X}" for byte in character.encode())
        for character in path
    )
