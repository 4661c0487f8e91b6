"""Reads given Parquet files as SQL, with their physical columns converted to the wanted ones.

Files are grouped by physical schema, and by directory if there are few; each group is one relation
over one glob. Columns that a file lacks are NULL. Partition columns are not in the files, so their
values are literals.

A glob silently leaves out files that it does not match, or that are gone when Spark lists them. So
a relation of several files must have as many rows as their footers say, or it fails. For a single
missing file Spark itself fails.
"""

from __future__ import annotations

import os.path
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from dbt.adapters.mvsink.engine import Column, UnsupportedType, sql
from dbt.adapters.mvsink.engine.types import SparkType, spark_type
from dbt.adapters.mvsink.shard.commit_log import LOG, actions, commit_path, lines
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from dbt.adapters.mvsink.shard.stored import Unreadable, a_text, an_object, member, optional
from dbt.adapters.mvsink.shard.updates import canonical

MAX_DIRECTORIES_APART = 8  # up to so many are a relation each
# characters that are not escaped in the path of a Java URI, besides letters and digits
PLAIN = "_-!.~'()*,;:$&+=/@"
MAX_GLOB = 60_000  # characters; the files of a longer one are read as several relations
_FILES = "_mv_files"  # the relation whose rows are counted
_HIDDEN = re.compile(r"(^|/)(_[^=/]*|\.[^/]*)$")


@dataclass(frozen=True)
class Shape:
    """What a file's footer says: its physical columns, and how many rows it has."""

    columns: pa.Schema
    rows: int


ReadShape = Callable[[str], Shape]


@dataclass(frozen=True)
class Piece:
    """Rows of the data file at ``path`` (absolute).

    ``partition`` has the partition columns' values as SQL expressions; ``rows`` is a condition that
    selects rows.
    """

    path: str
    partition: tuple[tuple[str, str], ...] = ()
    rows: str = ""


def select_pieces(
    pieces: Sequence[Piece], columns: Sequence[Column], more: str, shape_of: ReadShape
) -> list[str]:
    """The query of ``columns`` and the items ``more`` of the pieces. ``shape_of`` reads a file's
    footer.
    """
    groups: dict[tuple[tuple[Column, ...], str], dict[_Directory, list[_File]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for piece in pieces:
        (path, name), shape = os.path.split(piece.path), shape_of(piece.path)
        files = groups[_physical(shape.columns), piece.rows][_Directory(path, piece.partition)]
        files.append(_File(name, shape.rows))
    queries = []
    for (physical, rows), directories in groups.items():
        if (
            len(directories) > MAX_DIRECTORIES_APART
            and not rows
            and all(directory.partition for directory in directories)
        ):
            queries += _read_together(directories, columns, physical, more)
        else:
            queries += _read_each(directories, columns, physical, more, rows)
    return queries


def unreadable(paths: Iterable[str]) -> str | None:
    """One of the paths that Spark cannot read by a glob, if there is one: its readers ignore files
    whose names begin with ``_`` or ``.``, and Hadoop's globs refuse a ``:``.
    """
    return next((path for path in paths if ":" in path or _HIDDEN.search(path)), None)


class _File(NamedTuple):
    """A file of a directory."""

    name: str
    rows: int


@dataclass(frozen=True)
class _Directory:
    """A directory of files with the same partition values."""

    path: str
    partition: tuple[tuple[str, str], ...]


def _read_each(
    directories: Mapping[_Directory, Sequence[_File]],
    columns: Sequence[Column],
    physical: Sequence[Column],
    more: str,
    rows: str,
) -> list[str]:
    """One relation per directory, with the partition values as literals."""
    queries = []
    for directory, files in directories.items():
        items = ", ".join(
            [*named_items(columns, physical, dict(directory.partition)), *([more] if more else [])]
        )
        for some in _portions(files):
            relation = sql.parquet(
                f"{sql.escape_glob(directory.path)}/{braces([file.name for file in some])}"
            )
            if len(some) == 1:
                queries.append(f"select {items} from {relation}" + (f" where {rows}" if rows else ""))
                continue
            source = f"select *, _metadata from {relation}" if rows else f"select * from {relation}"
            where = [f"({rows})"] if rows else []
            queries.append(_counted(source, directory.path, some, f"{items} from {_FILES}", where))
    return queries


def _read_together(
    directories: Mapping[_Directory, Sequence[_File]],
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
    items = ", ".join([*named_items(columns, physical, values), *([more] if more else [])])
    place = (
        "regexp_extract(regexp_replace(_metadata.file_path, '^file:/+', '/'), '^(.*)/[^/]*$', 1) _mv_place"
    )
    known = "(d._mv_place is not null or cast(raise_error(concat('no partition values for ', f._mv_place)) as boolean))"
    queries = []
    for chunk in _chunks([(d, some) for d, files in directories.items() for some in _portions(files)]):
        globs = ",".join(
            f"{sql.escape_glob_in_braces(d.path[len(root) + 1 :])}/{braces([f.name for f in some], sql.escape_glob_in_braces)}"
            for d, some in chunk
        )
        source = f"select *, {place} from {sql.parquet(f'{sql.escape_glob(root)}/{{{globs}}}')}"
        rows = [
            ", ".join([sql.text(spelled(d.path)), *(f"string({value})" for _, value in d.partition)])
            for d in dict.fromkeys(d for d, _ in chunk)
        ]
        listed = f"values {', '.join(f'({row})' for row in rows)} as d(_mv_place, {', '.join(names)})"
        joined = f"{_FILES} f left join (select * from {listed}) d on f._mv_place = d._mv_place"
        files = [file for _, some in chunk for file in some]
        queries.append(_counted(source, root, files, f"/*+ BROADCAST(d) */ {items} from {joined}", [known]))
    return queries


def _counted(source: str, root: str, files: Sequence[_File], select: str, where: Sequence[str]) -> str:
    """``select`` with the rows of ``source`` as its `_FILES`; it fails unless there are as many
    rows as the ``files`` have.
    """
    wanted = sum(file.rows for file in files)
    failure = (
        f"the data files below {root} have {wanted} rows, and Spark read another number of them; "
        "another process may be removing files (VACUUM)"
    )
    counted = f"if((select count(*) from {_FILES}) = {wanted}, true, cast(raise_error({sql.text(failure)}) as boolean))"
    return f"(with {_FILES} as ({source}) select {select} where {' and '.join([*where, counted])})"


def _chunks(
    directories: Sequence[tuple[_Directory, Sequence[_File]]],
) -> Iterator[list[tuple[_Directory, Sequence[_File]]]]:
    """The directories in chunks whose globs are not too long."""
    chunk: list[tuple[_Directory, Sequence[_File]]] = []
    size = 0
    for directory, files in directories:
        length = len(directory.path) + sum(len(file.name) for file in files)
        if chunk and size + length > MAX_GLOB:
            yield chunk
            chunk, size = [], 0
        chunk.append((directory, files))
        size += length
    if chunk:
        yield chunk


def _portions(files: Sequence[_File]) -> Iterator[Sequence[_File]]:
    """The files of a directory, in parts whose names have at most `MAX_GLOB` characters
    together.
    """
    part: list[_File] = []
    size = 0
    for file in files:
        if part and size + len(file.name) >= MAX_GLOB:
            yield part
            part, size = [], 0
        part.append(file)
        size += len(file.name) + 1
    if part:
        yield part


def braces(names: Sequence[str], escaped: Callable[[str], str] = sql.escape_glob) -> str:
    """``part-1.parquet, part-2.parquet`` as ``part-{1,2}.parquet``."""
    if len(names) == 1:
        return escaped(names[0])
    head = _common(names)
    tail = _common([name[len(head) :][::-1] for name in names])[::-1]
    middles = [name[len(head) : len(name) - len(tail)] for name in names]
    if not all(middles):
        head, middles, tail = "", list(names), ""
    return f"{escaped(head)}{{{','.join(map(escaped, middles))}}}{escaped(tail)}"


def _common(names: Sequence[str]) -> str:
    """The longest common prefix."""
    least, greatest = min(names), max(names)
    end = next((i for i, character in enumerate(least) if greatest[i] != character), len(least))
    return least[:end]


def named_items(
    columns: Sequence[Column], physical: Sequence[Column], partition: Mapping[str, str]
) -> list[str]:
    """The items of a select list that give the ``columns`` over a relation with the ``physical``
    ones. ``partition`` has expressions for partition columns, which the relation lacks.
    """
    stored = {column.name.lower(): column for column in physical}
    values = {name.lower(): value for name, value in partition.items()}
    return [
        f"{_item(column, stored.get(column.name.lower()), values)} {sql.identifier(column.name)}"
        for column in columns
    ]


def _item(column: Column, stored: Column | None, partition: Mapping[str, str]) -> str:
    if column.name.lower() in partition:
        return f"cast({partition[column.name.lower()]} as {column.type.spelled})"
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
    """A file's columns. A type that shards do not support is kept only as a text, and its column is
    cast.
    """
    return tuple(Column(field.name, _type(field.type)) for field in canonical(schema))


def _type(arrow: pa.DataType) -> SparkType:
    try:
        return spark_type(arrow)
    except UnsupportedType:
        return SparkType(f"arrow {arrow}", "other")


def literal(value: str | None) -> str:
    """A partition value as an SQL expression for its text (to be cast), or NULL."""
    return "null" if value is None else sql.text(value)


def spelled(path: str) -> str:
    """A path as Java's URIs spell it, which is how Spark names a file; a local path has no
    scheme.
    """
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


Values = Mapping[str, str | None]
PARALLEL_REQUESTS = 16  # to storage
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\b.*\.(parquet|json)")


def partition_values(storage: DeltaStorage, version: int, paths: Collection[str]) -> dict[str, Values]:
    """The partition values of a Delta table's files at ``paths`` (decoded), which are live at
    ``version``, as its log spells them. A file is left out if the remaining log does not have it in
    a known form.

    Only Spark can say what a text means: a timestamp without a zone is in the session's time zone,
    an empty text is not NULL, and a day may be after the year 9999. `deltalake` decides these
    things itself, so the values that it reads are not used.
    """
    checkpoints: dict[int, list[str]] = {}
    for file in storage.list_files(LOG):
        match = _CHECKPOINT.fullmatch(file.path.rsplit("/", 1)[-1])
        if match and int(match[1]) <= version:
            checkpoints.setdefault(int(match[1]), []).append(file.path)
    first = max(checkpoints, default=-1)
    values: dict[str, Values] = {}
    with ThreadPoolExecutor(PARALLEL_REQUESTS) as pool:
        for added in pool.map(partial(_of_checkpoint, storage), checkpoints.get(first, [])):
            values.update(added)
        commits = map(commit_path, range(first + 1, version + 1))
        for text in pool.map(storage.read_text, commits):
            values.update(_added(text or ""))
    return {path: values[path] for path in paths if path in values}


def _added(text: str) -> Iterator[tuple[str, Values]]:
    """The files that a commit, or a checkpoint of lines, adds."""
    for action in actions("\n".join(line for line in lines(text) if '"add"' in line)):
        add = action.get("add")
        with suppress(Unreadable):  # a file whose values are not known here
            if add:
                values = an_object(member(add, "partitionValues"))
                yield (
                    unquote(a_text(member(add, "path"))),
                    {n: optional(v, a_text) for n, v in values.items()},
                )


def _of_checkpoint(storage: DeltaStorage, path: str) -> dict[str, Values]:
    """The files added in one of a checkpoint's files, and in those that it refers to."""
    if path.endswith(".json"):
        text = storage.read_text(path) or ""
        added = dict(_added(text))
        sidecars = [action["sidecar"] for action in actions(text) if isinstance(action.get("sidecar"), dict)]
    else:
        rows = storage.fields(path, ["add.path", "add.partitionValues", "sidecar.path"])
        added = {
            unquote(add["path"]): dict(add["partitionValues"] or ())
            for add in (rows.column("add").to_pylist() if "add" in rows.column_names else [])
            if add is not None and add["path"] is not None
        }
        sidecars = rows.column("sidecar").to_pylist() if "sidecar" in rows.column_names else []
    for sidecar in sidecars:
        if sidecar is not None and isinstance(sidecar.get("path"), str):
            added.update(_of_checkpoint(storage, f"{LOG}/_sidecars/{sidecar['path'].rsplit('/', 1)[-1]}"))
    return added
