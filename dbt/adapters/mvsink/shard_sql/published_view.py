"""Reading published models back from the catalog: all readers go through `read_published`. A model
is published as a view or, where a session knows Delta, as a Delta table.

Spark redacts properties whose key or value matches `spark.redaction.regex` or
`spark.sql.redaction.options.regex`: the default patterns match a model called `hourly`, because of
`url`. So what the adapter needs is in the view's text, as a comment that Spark gives back
unchanged (`Marker`). The shard's place and id are properties as well, for people and earlier
releases, and to tell a published view from any other.

What others put on a view is carried over when it is published again. Where Spark redacts it, `SHOW
CREATE TABLE` still has the value.

A table has no text, so its marker is in a property, as hexadecimal digits, which no pattern
matches. Other tables may have a copy of that property (`CREATE TABLE LIKE`, a clone): only the one
that lies in the shard itself is the model. Readers of the table read its properties, too, so
they name the shard's place without credentials. The catalog's location of the table has them.

Without its log a table has no properties: a user moved the shard, or a drop was killed before it
dropped the table. Then only the location says which shard it shows (`_lost_table`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.masking import without_credentials
from dbt.adapters.mvsink.shard.state import TABLE, ShardState
from dbt.adapters.mvsink.shard.stored import Unreadable, a_text, an_integer, member, parsed
from dbt.adapters.mvsink.shard_sql.errors import UnreadableView
from dbt.adapters.mvsink.shard_sql.layout import MAX_BROADCAST
from dbt.adapters.mvsink.shard_sql.properties import first_refresh

URI, SHARD_ID, VERSION, FILES = "mvsink.shard_uri", "mvsink.shard_id", "mvsink.version", "mvsink.files"
OWN = (URI, SHARD_ID, VERSION, FILES)
TABLE_MARKER = "mvsink.marker"
PATTERNS = "Expected: patterns that match none of them, in the Spark session that runs dbt"
# kept by the metastore itself, or written elsewhere in the statement
BY_THE_METASTORE = ("transient_lastDdlTime", "comment")
REDACTED = "*********(redacted)"  # what Spark gives in place of a value
DETAILS = ("# Detailed Table Information", "", "")
_CLOSING_AFTER_BACKSLASH = re.compile(r"'\)\n(?:AS|WITH SCHEMA) ")
_CLOSING = re.compile(r"(?<!\\)" + _CLOSING_AFTER_BACKSLASH.pattern)
_MARKER = re.compile(r"\w+ /\* mvsink (\{.*?\}) \*/")
# how Spark says that a table of the catalog has no log
NO_LOG = re.compile(r"\bDELTA_(PATH_DOES_NOT_EXIST|TABLE_NOT_FOUND)\b")
_LISTED = re.compile(  # in SHOW TABLE EXTENDED
    r"(?ms)^View Text: (?P<text>\w+ /\* mvsink .*?)\nView Original Text: (?P=text)\n(?P<rest>.*)"
)
_LISTED_COLUMNS = re.compile(r"^View Query Output Columns: \[((?:`(?:[^`]|``)*`(?:, |\]))+)$", re.MULTILINE)
_LISTED_PROPERTIES = re.compile(r"^Table Properties: \[(.*)\]$", re.MULTILINE)
_QUOTED = re.compile(r"`((?:[^`]|``)*)`")
_NAME = re.compile(r"((?P<schema>.+)\.)?`?(?P<name>\w+)`?")
_LOCATION = re.compile(rf"^Location: (?P<place>.+)/{TABLE}$", re.MULTILINE)
_TABLE_MARKER = re.compile(rf"\b{re.escape(TABLE_MARKER)}=([0-9a-f]+)\b")


class Catalog(Protocol):
    """The part of `Engine` that is needed here."""

    def query(self, query: str, what: str) -> list[tuple[object, ...]]:
        """The rows of a query."""
        ...

    def view_here(self, view: str) -> Mapping[str, Any] | None:
        """See `Engine.view_here`."""
        return None


@dataclass(frozen=True)
class Marker:
    """What a published view shows: the shard, the log version, and a fingerprint of the files.
    ``form`` is a digest of the text's form, which was read once, and ``shape`` one of the columns,
    their types, and whether the text has short names for them; both are empty in an earlier
    release's view.
    """

    uri: str
    shard_id: str
    version: int
    files: str
    form: str = ""
    shape: str = ""

    @property
    def shown(self) -> tuple[str, str, int, str]:
        return self.uri, self.shard_id, self.version, self.files  # as `PublishedView` begins

    def properties(self) -> dict[str, str]:
        """Its properties, which stay the same when only the view's text is replaced."""
        return {URI: self.uri, SHARD_ID: self.shard_id}

    def table_properties(self) -> dict[str, str]:
        """The same for a table, which has no text. They have no credentials."""
        shown = replace(self, uri=without_credentials(self.uri))
        place = json.dumps({"uri": shown.uri, "shard_id": self.shard_id}, sort_keys=True)
        return {**shown.properties(), TABLE_MARKER: place.encode().hex()}

    def within(self, query: str) -> str:
        """``query`` with the marker behind its first word, where Spark keeps it in the view's text.

        The text is ASCII, cannot end the comment, and holds no `${...}` that Spark would
        substitute.
        """
        first, rest = query.split(" ", 1)
        text = json.dumps(asdict(self), sort_keys=True).replace("*", "\\u002a").replace("$", "\\u0024")
        return f"{first} /* mvsink {text} */ {rest}"


@dataclass(frozen=True)
class PublishedView:
    """Our marker, and what others put on the view. ``marked`` means that the marker is in the
    view's text; ``versioned`` that its version and files are in the properties too, written by an
    earlier release. With ``table`` it is a table, whose version and files are in its own log; if
    that is lost, ``shard_id`` and ``columns`` are empty. ``listed`` means that it was read from a
    listing, where neither comments nor others' properties are known.
    """

    uri: str
    shard_id: str
    version: int
    files: str
    comment: str = ""
    columns: tuple[str, ...] = ()
    column_comments: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    marked: bool = True
    versioned: bool = False
    form: str = ""
    table: bool = False
    listed: bool = False


@dataclass(frozen=True)
class _Described:
    """What DESCRIBE EXTENDED shows of a view or a table; a view has no ``location``."""

    columns: tuple[str, ...]
    column_comments: Mapping[str, str]
    comment: str
    text: str
    location: str = ""


@dataclass(frozen=True)
class Shown:
    """What the catalog shows of a relation. ``properties`` are as in `view_properties`.
    ``description`` is that of DESCRIBE AS JSON, None where Spark does not have that, or not for
    this relation. Of a published view it may have only what `Engine.view_here` gives.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    description: Mapping[str, Any] | None = None


def view_properties(catalog: Catalog, relation: str) -> dict[str, str]:
    """The properties of ``relation`` (quoted) as Spark shows them; a value may be redacted."""
    return {str(row[0]): str(row[1]) for row in catalog.query(f"show tblproperties {relation}", "catalog")}


def look_up(catalog: Catalog, relation: str) -> Shown:
    """What the catalog shows of ``relation`` (quoted), by one statement at most if that is
    possible.
    """
    here = catalog.view_here(relation)
    if here is not None and read_marker(here["view_text"]) is not None:
        return Shown(here["table_properties"], here)
    try:
        [[text]] = catalog.query(f"describe table extended {relation} as json", "catalog")
        description: Mapping[str, Any] = json.loads(str(text))
    except (EngineError, ValueError):
        return Shown(view_properties(catalog, relation))
    properties = {str(key): str(value) for key, value in description.get("table_properties", {}).items()}
    return Shown(properties, description)


def read_published(catalog: Catalog, relation: str, known: Shown | None = None) -> PublishedView | None:
    """The published view or table of that name, or None if what is there is not one of ours.
    ``known``: what the catalog shows of it.

    Raises `UnreadableView` if Spark gives back neither the shard nor what is to be carried over.
    """
    try:
        looked_up = look_up(catalog, relation) if known is None else known
    except EngineError as error:
        lost = _lost_table(catalog, relation) if NO_LOG.search(error.message) else None
        if lost is None:
            raise
        return lost
    shown, description = looked_up.properties, looked_up.description
    if URI not in shown or SHARD_ID not in shown:
        return None
    described = _described(catalog, relation) if description is None else _read(description)
    if described.location:
        return _published_table(described, shown.get(TABLE_MARKER, ""))
    in_text = read_marker(described.text)
    others = [
        key for key in shown if key not in OWN and key not in BY_THE_METASTORE and not key.startswith("view.")
    ]
    values = _values(catalog, relation, shown)
    marker = _marker(relation, in_text, values)
    missing = [key for key in others if key not in values]
    if missing:
        raise UnreadableView(relation, missing, PATTERNS)
    return PublishedView(
        *marker.shown,
        comment=described.comment,
        columns=described.columns,
        column_comments=described.column_comments,
        properties={key: values[key] for key in others},
        marked=in_text == marker,
        versioned=VERSION in shown or FILES in shown,
        form=marker.form,
    )


def read_if_there(catalog: Catalog, relation: str) -> PublishedView | None:
    """`read_published`; None also if there is no such relation."""
    try:
        return read_published(catalog, relation)
    except EngineError as error:
        if error.missing_relation:
            return None
        raise


def listed_view(information: str) -> PublishedView | None:
    """The published view in a row of SHOW TABLE EXTENDED; None if the row does not certainly show
    one, or not all that `PublishedView.listed` has.
    """
    shown = _LISTED.search(information)
    if shown is None or information.count("\nView Text: ") > 1:  # a comment may have such lines
        return None
    marker = read_marker(shown["text"])
    columns, properties = (pattern.search(shown["rest"]) for pattern in (_LISTED_COLUMNS, _LISTED_PROPERTIES))
    if marker is None or columns is None or properties is None:
        return None
    stated = f"{properties[1]}, "
    earlier_release = any(f"{key}=" in stated for key in (VERSION, FILES))
    wanted = [f"{key}={value}, " for key, value in marker.properties().items()]
    if earlier_release or not all(each in stated for each in wanted):
        return None
    return PublishedView(
        *marker.shown,
        columns=tuple(name.replace("``", "`") for name in _QUOTED.findall(columns[1])),
        form=marker.form,
        listed=True,
    )


def fingerprint(state: ShardState) -> str:
    """A hash of what the view shows: files, columns, whether the shard has contents, and if not,
    when it will.
    """
    what = [str(state.generation), str(state.schema), str(state.readable) + first_refresh(state)]
    # so that views of an older release are published again
    what.append("guarded in every scan, which fails on any damaged file; read once")
    if sum(file.rows or 0 for file in state.files) > MAX_BROADCAST:
        what.append("broadcasts bounded")
    what += sorted(file.path for file in state.files)
    return hashlib.sha256("\n".join(what).encode()).hexdigest()[:16]


def read_marker(text: str) -> Marker | None:
    """The marker in a view's text; None if it has none, as in a view of an earlier release."""
    match = _MARKER.match(text)
    if match is None:
        return None
    try:
        marker = parsed(match[1])
        uri, shard_id, files = (a_text(member(marker, name)) for name in ("uri", "shard_id", "files"))
        form, shape = (a_text(marker.get(name, "")) for name in ("form", "shape"))
        return Marker(uri, shard_id, an_integer(member(marker, "version")), files, form, shape)
    except Unreadable:  # another text; the properties say the same
        return None


def shown_shard(description: Mapping[str, Any]) -> Marker | None:
    """The shard that a relation shows, by the JSON of DESCRIBE or by the rows of DESCRIBE EXTENDED
    (names in lower case); None if it shows none.
    """
    location = str(description.get("location") or "")
    if not location:
        return read_marker(str(description.get("view_text") or ""))
    properties = description.get("table_properties")
    if isinstance(properties, Mapping):
        return table_marker(str(properties.get(TABLE_MARKER, "")), location)
    digits = _TABLE_MARKER.search(str(description.get("table properties") or ""))
    return None if digits is None else table_marker(digits[1], location)


def table_marker(digits: str, location: str) -> Marker | None:
    """The marker in a table's property; None if there is none, or if it came from another table.
    Credentials are those of ``location``.
    """
    try:
        marker = parsed(bytes.fromhex(digits).decode())
        uri, shard_id = (a_text(member(marker, name)) for name in ("uri", "shard_id"))
    except (ValueError, Unreadable):
        return None
    plain = without_credentials(location)
    if _place(unquote(plain)) != _place(f"{without_credentials(uri)}/{TABLE}"):
        return None
    secret = "" if plain == location else location.rstrip("/").removesuffix(f"/{TABLE}")
    return Marker(secret or uri, shard_id, -1, "")


def _place(uri: str) -> tuple[str, str]:
    """The host and the path of a URI; for a path on a disk the host is empty.

    >>> _place("file:/data/t") == _place("/data/t") == _place("file:///data/t/")
    True
    """
    place = urlsplit(uri) if re.match(r"\w+:", uri) else None
    host, path = ("", uri) if place is None else (place.netloc, uri.split(":", 1)[1])
    return host, "/" + path.removeprefix(f"//{host}").strip("/")


def _published_table(described: _Described, digits: str) -> PublishedView | None:
    marker = table_marker(digits, described.location)
    if marker is None:
        return None
    return PublishedView(
        *marker.shown,
        comment=described.comment,
        columns=described.columns,
        column_comments=described.column_comments,
        marked=False,
        table=True,
    )


def _lost_table(catalog: Catalog, relation: str) -> PublishedView | None:
    """A table without a log, by its location in the catalog's listing: no other statement shows it.
    Its shard's id and its columns are unknown. None if it does not lie in a shard.
    """
    if (name := _NAME.fullmatch(relation)) is None:
        return None
    schema = f" in {name['schema']}" if name["schema"] else ""
    listed = catalog.query(f"show table extended{schema} like '{name['name']}'", "catalog")
    shown = [str(information) for _, table, _, information in listed if table == name["name"].lower()]
    location = _LOCATION.search("\n".join(shown))
    if location is None:
        return None
    place = location["place"]
    if without_credentials(place) == place and place.startswith("file:"):
        place = _place(unquote(place))[1]
    return PublishedView(place, "", -1, "", marked=False, table=True)


def _marker(relation: str, in_text: Marker | None, values: Mapping[str, str]) -> Marker:
    """The marker in the text, but with the property's URI, which people change when they move a
    shard.

    A view of an earlier release has only properties. That release could write a redacted URI into
    the metastore for good.
    """
    if in_text is not None:
        uri = values.get(URI, REDACTED)
        return in_text if REDACTED in uri else replace(in_text, uri=uri)
    unreadable = [key for key in (URI, SHARD_ID) if key not in values]
    if unreadable:
        raise UnreadableView(relation, unreadable, PATTERNS)
    if REDACTED in values[URI] or REDACTED in values[SHARD_ID]:
        raise UnreadableView(
            relation,
            [URI],
            f"An earlier release stored the redacted text itself, and wrote to a shard of that name ({values[URI]}). "
            f"What to do: `drop view {relation}`, then run the model again; it continues with the shard below `shard_root`",
        )
    return Marker(values[URI], values[SHARD_ID], int(values.get(VERSION, "-1")), values.get(FILES, ""))


def _read(description: Mapping[str, Any]) -> _Described:
    columns = {str(column["name"]): str(column.get("comment") or "") for column in description["columns"]}
    return _Described(
        columns=tuple(columns),
        column_comments={name: note for name, note in columns.items() if note},
        comment=description.get("comment") or "",
        text=description.get("view_text") or "",
        location=description.get("location") or "",
    )


def _described(catalog: Catalog, relation: str) -> _Described:
    described = catalog.query(f"describe extended {relation}", "catalog")
    rows = [tuple("" if item is None else str(item) for item in row) for row in described]
    start = rows.index(DETAILS) if DETAILS in rows else len(rows)
    columns = [row for row in rows[:start] if row != ("", "", "")]
    details = {name: value for name, value, *_ in rows[start:]}
    return _Described(
        columns=tuple(name for name, *_ in columns),
        column_comments={name: note for name, _, note in columns if note},
        comment=details.get("Comment", ""),
        text=details.get("View Text", ""),
        location=details.get("Location", ""),
    )


def _values(catalog: Catalog, relation: str, shown: Mapping[str, str]) -> dict[str, str]:
    """The true values of the properties that Spark gives back, one way or the other."""
    readable = {key: value for key, value in shown.items() if value != REDACTED}
    if len(readable) == len(shown):
        return readable
    try:
        [[statement]] = catalog.query(f"show create table {relation}", "catalog")
    except (EngineError, ValueError):
        statement = ""
    return {**stated_properties(str(statement), list(shown)), **readable}


def stated_properties(statement: str, keys: Sequence[str]) -> dict[str, str]:
    """The properties ``keys`` in a text of SHOW CREATE TABLE; none if it has others, or fewer.

    Spark escapes quotes there and nothing else, so a quote without a backslash is always one of the
    statement's own.
    """
    opening, position, starts = "\nTBLPROPERTIES (\n  ", 0, []
    for key in sorted(keys):
        anchor = opening + "'" + key.replace("'", "\\'") + "' = '"
        start_of = statement.find(anchor, position)
        if start_of < 0:
            return {}
        starts.append((key, start_of, start_of + len(anchor)))
        position, opening = start_of + len(anchor), "',\n  "
    closing = _CLOSING.search(statement, position) or _CLOSING_AFTER_BACKSLASH.search(statement, position)
    if closing is None:
        return {}
    ends = [*(start_of for _, start_of, _ in starts[1:]), closing.start()]
    return {
        key: statement[start:stop].replace("\\'", "'")
        for (key, _, start), stop in zip(starts, ends, strict=True)
    }
