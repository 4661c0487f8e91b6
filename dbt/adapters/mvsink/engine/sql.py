"""Small pieces of Spark SQL text: identifiers, literals, paths.

All SQL of this project is built from these, from numbers formatted by Python, and from the user's
own query, which is inserted unchanged.

Spark replaces `${env:X}`, `${system:x}` and `${spark.x}` anywhere in a statement, and once more in
the text of a view that is read (`spark.sql.variable.substitute`). That is right for the user's
query and never for a piece of ours: a literal spells the `$` by its code, a path has its `{`
escaped for the glob, and an identifier, which knows no escape, refuses such a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache

from dbt.adapters.mvsink.engine.errors import SubstitutedName

_VARIABLE = re.compile(r"\$\{\S+?\}")


def identifier(name: str) -> str:
    """A quoted column or alias: ``a`b`` becomes ``` `a``b` ```. Raises `SubstitutedName`."""
    check_name(name)
    return "`" + name.replace("`", "``") + "`"


def qualified(parts: Iterable[str]) -> str:
    """A relation's quoted name, of all its parts."""
    return ".".join(map(identifier, parts))


def check_name(name: str) -> None:
    """Raises `SubstitutedName` for a name of which Spark would replace a part in any statement."""
    if "${" in name and _VARIABLE.search(name):
        raise SubstitutedName(name)


def columns(names: Iterable[str], qualifier: str = "") -> str:
    """A list of quoted columns, each prefixed with ``qualifier.`` if there is one."""
    prefix = f"{qualifier}." if qualifier else ""
    return ", ".join(prefix + identifier(name) for name in names)


def text(value: str) -> str:
    """A string literal. Spark reads backslash escapes there, so quote and backslash are escaped."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
    return "'" + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\x00", "\\0") + "'"


def bigint(value: int) -> str:
    """A BIGINT literal; the smallest has no positive counterpart, so it is spelled by a cast."""
    return f"{value}L" if value > -(2**63) else "cast('-9223372036854775808' as bigint)"


# what a session may set otherwise, and then rows would just be missing
STRICT = " with ('ignoreCorruptFiles' = 'false', 'ignoreMissingFiles' = 'false')"

# bytes of a row group, a quarter of what is usual: who looks for a few rows reads groups whole
ROW_GROUP = 32 * 2**20

_PARQUET = re.compile(r"parquet\.`(?:[^`]|``)*`" + re.escape(STRICT))
_SHARED = re.compile(r"\b_mv_f\d+\b")


def parquet(path: str) -> str:
    """A relation over the Parquet files below ``path`` (a directory, a file or a glob). A file that
    cannot be read is an error, whatever the session says.
    """
    return f"parquet.{identifier(path)}{STRICT}"


def parquet_in(directory: str) -> str:
    """A relation over the Parquet files of one directory, whatever characters its name has."""
    return parquet(escape_glob(directory))


class Shared:
    """Relations over Parquet files that a statement names once, however often it reads them: Spark
    lists the files and reads a footer, in a job, for each that it resolves. ``view_of``: gives a
    view of the files at a path, or None.
    """

    def __init__(self, view_of: Callable[[str], str | None] = lambda path: None) -> None:
        self.names: dict[str, str] = {}
        self._view_of = cache(view_of)

    def of(self, query: str) -> str:
        """``query``, in which names stand for the relations: `around` makes it whole. No literal of
        ours contains one, because `text` escapes quotes; what a user has written may.
        """
        return _PARQUET.sub(lambda match: self.names.setdefault(match[0], f"_mv_f{len(self.names)}"), query)

    def around(self, query: str) -> str:
        """``query``, which contains results of `of`, with what the names in it stand for."""
        used = set(_SHARED.findall(query))
        listed = ", ".join(
            f"{name} as (select * from {self._shown(files)})"
            for files, name in self.names.items()
            if name in used
        )
        return f"with {listed}\n{query}" if listed else query

    def _shown(self, files: str) -> str:
        path = files.removeprefix("parquet.`").removesuffix(f"`{STRICT}").replace("``", "`")
        return self._view_of(path) or files


def escape_glob(path: str) -> str:
    """A path that Hadoop's glob reads as itself."""
    return "".join("\\" + character if character in "{}[]*?\\" else character for character in path)


def overwrite_directory(path: str, query: str, *, quickly: bool = False) -> str:
    """The statement that writes ``query`` as Parquet files into ``path``. ``quickly``: without
    dictionaries, which takes a sixth less time and, for TPC-H, a quarter more space.
    """
    without = ", 'parquet.enable.dictionary' = 'false'" if quickly else ""
    options = f"'parquet.block.size' = '{ROW_GROUP}'{without}"
    return f"insert overwrite directory {text(path)} using parquet options({options})\n{query}"


def subquery(query: str, alias: str) -> str:
    """The user's query as a derived table, on lines of its own in case it ends with a comment."""
    return f"(\n{query}\n) {identifier(alias)}"


def union_all(queries: Iterable[str]) -> str:
    return "\nunion all\n".join(queries)
