"""Small pieces of Spark SQL text: identifiers, literals, paths.

All SQL of this project is built from these, from numbers formatted by Python, and from the user's
own query, which is inserted unchanged. `tests/functional/test_literals.py` checks that Spark reads
each as the intended value, under every setting that changes how literals are read.

Spark replaces `${env:X}`, `${system:x}` and `${spark.x}` anywhere in a statement, and once more in
the text of a view that is read (`spark.sql.variable.substitute`). That is right for the user's
query but never for a piece of ours. So a literal spells the `$` by its code, a path has its `{`
escaped for the glob, and an identifier, which has no escape, refuses such a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from dbt.adapters.mvsink.engine.errors import SubstitutedName

_GLOB = re.compile(r"[{}\[\]*?\\,^]")
_VARIABLE = re.compile(r"\$\{\S+?\}")
# what means something in a literal, or breaks the lines of a printed plan
_MEANT = re.compile(r"(['\\\x00-\x1f]|\$(?=\{))")


def identifier(name: str) -> str:
    """A quoted column or alias: ``a`b`` becomes ``` `a``b` ```. Raises `SubstitutedName`."""
    check_name(name)
    return "`" + name.replace("`", "``") + "`"


def qualified(parts: Iterable[str]) -> str:
    """A relation's name with every part quoted."""
    return ".".join(map(identifier, parts))


def check_name(name: str) -> None:
    """Raises `SubstitutedName` for a name in which Spark would replace a part, in any statement."""
    if "${" in name and _VARIABLE.search(name):
        raise SubstitutedName(name)


def columns(names: Iterable[str], qualifier: str = "") -> str:
    """A list of quoted columns, each prefixed with ``qualifier.`` if there is one."""
    prefix = f"{qualifier}." if qualifier else ""
    return ", ".join(prefix + identifier(name) for name in names)


def text(value: str) -> str:
    """A STRING expression for ``value``, whatever the session's settings for literals: special
    characters are spelled by their codes.

    >>> text("it's")
    "concat('it', chr(39), 's')"
    """
    pieces = [
        f"chr({ord(piece)})" if _MEANT.fullmatch(piece) else f"'{piece}'"
        for piece in _MEANT.split(value)
        if piece
    ]
    if len(pieces) > 1:
        return f"concat({', '.join(pieces)})"
    return pieces[0] if pieces else "''"


def constant(value: str) -> str:
    """The same where a statement needs a literal, as for a comment, a property or a path. There
    backslashes always escape, whatever the settings.
    """
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
    return "'" + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\x00", "\\0") + "'"


def bigint(value: int) -> str:
    """A BIGINT literal; the smallest has no positive counterpart, so it is spelled by a cast."""
    return f"{value}L" if value > -(2**63) else "cast('-9223372036854775808' as bigint)"


def day(number: int) -> str:
    """The DATE ``number`` days after 1970-01-01; Python has no dates of most years."""
    return f"date_from_unix_date({number})"


# what a session may set otherwise, and then rows would just be missing
STRICT = " with ('ignoreCorruptFiles' = 'false', 'ignoreMissingFiles' = 'false')"

# bytes of a row group, a quarter of what is usual: who looks for a few rows reads groups whole
ROW_GROUP = 32 * 2**20

# after SELECT: its rows are few. Spark then groups and joins what is made of such without a shuffle
IN_ONE_TASK = "/*+ coalesce(1) */"

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
    """Relations over Parquet files that a statement names once, however often it reads them: for
    each one that it resolves, Spark lists the files and reads a footer, in a job. ``views_of``
    gives views over the files at paths, by path, perhaps only for some.
    """

    def __init__(self, views_of: Callable[[Sequence[str]], Mapping[str, str]] = lambda paths: {}) -> None:
        self.names: dict[str, str] = {}
        self._few: set[str] = set()
        self._views: dict[str, str | None] = {}
        self._views_of = views_of

    def of(self, query: str, *, few: bool = False) -> str:
        """``query`` with names in place of its relations; `around` completes it. No literal of ours
        contains one of these relations, because `text` escapes quotes, but a user's text may. With
        ``few`` rows, they are read `IN_ONE_TASK`.
        """
        named = _PARQUET.sub(lambda match: self.names.setdefault(match[0], f"_mv_f{len(self.names)}"), query)
        self._few.update(_SHARED.findall(named) if few else ())
        return named

    def around(self, query: str) -> str:
        """``query``, which contains results of `of`, with definitions of the names in it."""
        named = set(_SHARED.findall(query))
        used = {name: files for files, name in self.names.items() if name in named}
        new = [path for path in map(_path, used.values()) if path not in self._views]
        views = self._views_of(new) if new else {}
        self._views.update((path, views.get(path)) for path in new)
        listed = ", ".join(f"{name} as ({self._rows(name, files)})" for name, files in used.items())
        return f"with {listed}\n{query}" if listed else query

    def _rows(self, name: str, files: str) -> str:
        hint = f"{IN_ONE_TASK} " if name in self._few else ""
        return f"select {hint}* from {self._views[_path(files)] or files}"


def _path(files: str) -> str:
    """The path in a relation that `parquet` gave."""
    return files.removeprefix("parquet.`").removesuffix(f"`{STRICT}").replace("``", "`")


def escape_glob(path: str) -> str:
    """A path that Hadoop's glob reads as itself, also as one of several in braces that contain no
    ``/``. ``^`` begins a line in the regular expression that Hadoop makes of a glob.
    """
    return _GLOB.sub(r"\\\g<0>", path)


def escape_glob_in_braces(path: str) -> str:
    """The same within braces that contain a ``/``: Hadoop first expands these to several globs and
    thereby removes each backslash.
    """
    return _GLOB.sub(lambda match: "\\\\\\" + match[0], path)


def overwrite_directory(path: str, query: str, *, quickly: bool = False) -> str:
    """The statement that writes ``query`` as Parquet files into ``path``. ``quickly`` means without
    dictionaries, which takes a sixth less time and, for TPC-H, a quarter more space.
    """
    without = ", 'parquet.enable.dictionary' = 'false'" if quickly else ""
    options = f"'parquet.block.size' = '{ROW_GROUP}'{without}"
    return f"insert overwrite directory {constant(path)} using parquet options({options})\n{query}"


def subquery(query: str, alias: str) -> str:
    """The user's query as a derived table, on lines of its own in case it ends with a comment."""
    return f"(\n{query}\n) {identifier(alias)}"


def union_all(queries: Iterable[str]) -> str:
    return "\nunion all\n".join(queries)
