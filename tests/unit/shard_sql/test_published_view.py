"""What a published view gives back, whatever Spark redacts. The catalogs here answer as Spark 4.1
does.
"""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.shard_sql.errors import UnreadableView
from dbt.adapters.mvsink.shard_sql.published_view import (
    FILES,
    REDACTED,
    SHARD_ID,
    TABLE_MARKER,
    URI,
    VERSION,
    Catalog,
    Marker,
    listed_view,
    read_marker,
    read_published,
    shown_shard,
    stated_properties,
    table_marker,
)

MARKER = Marker("/shards/s/hourly", "id-1", 7, "f00")


def shown_as_create(properties):
    """TBLPROPERTIES as SHOW CREATE TABLE spells them: only quotes are escaped."""
    listed = ",\n".join(
        "  '{}' = '{}'".format(*(text.replace("'", "\\'") for text in item))
        for item in sorted(properties.items())
    )
    return f"CREATE VIEW s.v (\n  id)\nCOMMENT 'a \\'TBLPROPERTIES (\\''\nTBLPROPERTIES (\n{listed})\nWITH SCHEMA COMPENSATION\nAS select 1\n"


class AView(Catalog):
    """A view with these true ``properties`` and ``text``; ``redacted`` are the keys that SHOW
    TBLPROPERTIES does not give.
    """

    def __init__(self, properties, text="select 1", redacted=(), create=True):
        self.properties, self.text, self.redacted, self.create = properties, text, redacted, create

    def query(self, query, what):
        if query.startswith("show tblproperties"):
            return [
                (key, REDACTED if key in self.redacted else value) for key, value in self.properties.items()
            ]
        if query.startswith("describe extended"):
            return [
                ("id", "int", "the key"),
                ("# x", "int", None),
                ("Comment", "string", None),
                ("", "", ""),
                ("# Detailed Table Information", "", ""),
                ("Comment", "a view", ""),
                ("View Text", self.text, ""),
            ]
        if not self.create:
            raise EngineError("no such statement")
        return [(shown_as_create(self.properties),)]


class Known(Catalog):
    """A catalog that shows a view without a statement."""

    def __init__(self, text):
        self.text, self.asked = text, []

    def query(self, query, what):
        self.asked.append(query)
        raise EngineError("no statement")

    def view_here(self, view):
        columns = [{"name": "id", "comment": "the key"}, {"name": "v", "comment": None}]
        return {
            "columns": columns,
            "comment": "ours",
            "view_text": self.text,
            "table_properties": {**PROPERTIES, "view.query.out.col.0": "id", "transient_lastDdlTime": "1"},
        }


def test_a_view_that_the_session_shows_takes_no_statement():
    catalog = Known(MARKER.within("select 1"))
    shown = read_published(catalog, "s.v")
    assert (shown.uri, shown.files, shown.marked) == (MARKER.uri, "f00", True)
    assert (shown.columns, shown.column_comments, shown.comment) == (("id", "v"), {"id": "the key"}, "ours")
    assert shown.properties == {key: PROPERTIES[key] for key in PROPERTIES if not key.startswith("mvsink.")}
    assert catalog.asked == []


def test_of_a_view_of_others_the_description_is_asked_for():
    catalog = Known("select 1")
    with pytest.raises(EngineError):
        read_published(catalog, "s.v")
    assert catalog.asked


def listed(text, *, properties=None, columns="[`id`, `a``b`]", comment=""):
    """A row of SHOW TABLE EXTENDED."""
    shown = MARKER.properties() if properties is None else properties
    stated = ", ".join(f"{key}={value}" for key, value in sorted(shown.items()))
    return (
        f"Catalog: spark_catalog\nDatabase: s\nTable: v\nType: VIEW\n{comment}"
        f"View Text: {text}\nView Original Text: {text}\nView Schema Mode: COMPENSATION\n"
        f"View Query Output Columns: {columns}\nTable Properties: [{stated}]\nSchema: root\n |-- id: long\n"
    )


def test_a_listing_shows_the_shard_and_the_columns():
    shown = listed_view(listed(MARKER.within("select 1\nas `View Original Text: `")))
    assert (shown.uri, shown.shard_id, shown.version, shown.files) == (
        MARKER.uri,
        MARKER.shard_id,
        MARKER.version,
        MARKER.files,
    )
    assert (shown.columns, shown.listed, shown.table) == (("id", "a`b"), True, False)


OURS = MARKER.within("select 1")
MOVED = {**MARKER.properties(), "mvsink.shard_uri": "/elsewhere"}


@pytest.mark.parametrize(
    "information",
    [
        listed("select 1"),
        listed(OURS, properties={}),
        listed(OURS, properties=MOVED),
        listed(OURS, properties={**MARKER.properties(), "mvsink.shard_uri": "*********(redacted)"}),
        listed(OURS, properties={**MARKER.properties(), "mvsink.version": "3"}),
        listed(OURS, columns="[id, v]"),
        listed(OURS).replace(f"View Original Text: {OURS}", "View Original Text: select 2"),
        listed(OURS).replace("View Query Output Columns", "Columns"),
        "",
    ],
    ids=["another's", "no properties", "moved", "redacted", "an earlier release's", "unquoted", "two texts", "no columns", "empty"],
)  # fmt: skip
def test_what_a_listing_does_not_certainly_show_is_looked_up(information):
    assert listed_view(information) is None


def test_a_comment_that_looks_like_a_text_is_none():
    other = listed(MARKER.within("select 2")).partition("Type: VIEW\n")[2]
    assert listed_view(listed(OURS, comment=f"Comment: x\n{other}")) is None


class LostTable(Catalog):
    """The catalog's ``entry``, a table of which Spark finds no log."""

    def __init__(self, entry, says="[DELTA_PATH_DOES_NOT_EXIST] file:/shards/s/mv/table"):
        self.entry, self.says = entry, says

    def query(self, query, what):
        if not query.startswith("show table extended"):
            raise EngineError(self.says)
        assert query == "show table extended in `s` like 'mv'"
        return [("s", "mv", "false", self.entry), ("s", "mvs", "false", "Location: /shards/s/mvs/table")]


@pytest.mark.parametrize(
    ("location", "shard"),
    [
        ("file:/shards/s/a%20b/table", "/shards/s/a b"),
        ("file:///shards/s/mv/table", "/shards/s/mv"),
        ("s3a://bucket/s/mv/table", "s3a://bucket/s/mv"),
    ],
)
def test_a_table_without_its_log_shows_the_shard_that_it_lies_in(location, shard):
    catalog = LostTable(f"Type: EXTERNAL\nProvider: delta\nLocation: {location}\nOwner: root")
    shown = read_published(catalog, "`s`.`mv`")
    assert (shown.uri, shown.shard_id, shown.columns, shown.table) == (shard, "", (), True)


@pytest.mark.parametrize(
    "catalog",
    [LostTable("Type: EXTERNAL\nLocation: /elsewhere"), LostTable("Location: /s/mv/table", "no network")],
    ids=["another table", "another error"],
)
def test_what_else_cannot_be_looked_up_is_an_error(catalog):
    with pytest.raises(EngineError):
        read_published(catalog, "`s`.`mv`")


NASTY = [
    "/shards/a",
    "s3://bucket/*/${env:HOME}/*/",
    "/a b/ü%20'\"\\\n",
    "*/ drop view v /*",
]


@pytest.mark.parametrize("uri", NASTY)
def test_a_marker_survives_any_place(uri):
    marker = Marker(uri, "id", 3, "abc")
    for query in ("select a from t", "with b as (select 1) select * from b"):
        text = marker.within(query)
        assert read_marker(text) == marker
        assert text.isascii() and text.count("*/") == 1 and "${" not in text


@pytest.mark.parametrize("text", ["select 1", "select 1 /* mvsink {} */", "/* mvsink {} */ select 1", ""])
def test_other_texts_have_no_marker(text):
    assert read_marker(text) is None


WRONG_MARKERS = ["{}", "[]", '{"uri": 1}', "{1e400}", '{"uri":"u","shard_id":"i","version":"x","files":""}']


@pytest.mark.parametrize("kept", WRONG_MARKERS)
def test_row_e_a_marker_that_cannot_be_read_is_none(kept):
    assert read_marker(f"select /* mvsink {kept} */ a from t") is None


@pytest.mark.parametrize(
    "properties",
    [
        {"a": "1"},
        {"k": "it's \\", "l": "x", "z": "\\'"},
        {"a": "',\n  'b' = 'no", "b": "')\nAS select 1"},
        {"q'k": "", "u": "ü\n"},
    ],
)
def test_the_text_of_show_create_table_gives_every_value(properties):
    assert stated_properties(shown_as_create(properties), list(properties)) == properties


def test_a_text_with_other_properties_gives_none():
    assert stated_properties(shown_as_create({"a": "1"}), ["a", "b"]) == {}
    assert stated_properties("", ["a"]) == {}


EARLIER = {**MARKER.properties(), VERSION: "7", FILES: "f00"}
EVERYTHING = (*EARLIER, "team")
PROPERTIES = {**MARKER.properties(), "team": "it's \\ ours"}
EARLIER_PROPERTIES = {**EARLIER, "team": "it's \\ ours"}


@pytest.mark.parametrize(
    ("catalog", "marked"),
    [
        (AView(PROPERTIES, MARKER.within("select 1")), True),
        (AView(PROPERTIES, MARKER.within("select 1"), EVERYTHING), True),
        (AView({**PROPERTIES, URI: REDACTED}, MARKER.within("select 1")), True),
        (AView(EARLIER_PROPERTIES, "select 1"), False),  # of an earlier release
        (AView(EARLIER_PROPERTIES, "select 1", EVERYTHING), False),
    ],
    ids=["plain", "all redacted", "overwritten", "earlier", "earlier, all redacted"],
)
def test_a_view_is_read_whatever_is_redacted(catalog, marked):
    view = read_published(catalog, "s.v")
    assert (view.uri, view.shard_id, view.version, view.files) == ("/shards/s/hourly", "id-1", 7, "f00")
    assert view.properties == {"team": "it's \\ ours"}
    assert (view.marked, view.versioned) == (marked, not marked)
    assert (view.columns, view.comment, view.column_comments) == (
        ("id", "# x", "Comment"),
        "a view",
        {"id": "the key"},
    )


@pytest.mark.parametrize("redacted", [(), [URI]])
def test_a_shard_is_moved_by_its_property(redacted):
    view = read_published(AView({**PROPERTIES, URI: "/new"}, MARKER.within("select 1"), redacted), "s.v")
    assert view.uri == "/new" and not view.marked


def test_a_view_without_our_properties_is_not_ours():
    assert read_published(AView({"owner": "x"}, redacted=["owner"], create=False), "s.v") is None


@pytest.mark.parametrize(
    ("catalog", "words"),
    [
        (AView(PROPERTIES, "select 1", [URI], create=False), "`mvsink.shard_uri`.*spark.redaction.regex"),
        (
            AView(PROPERTIES, MARKER.within("select 1"), ["team"], create=False),
            "`team`.*spark.sql.redaction.options.regex",
        ),
        # what the defect left
        (AView({**PROPERTIES, URI: REDACTED}, "select 1", [URI]), "drop view s.v"),
        (AView({**PROPERTIES, URI: f"/project/{REDACTED}"}, "select 1"), "drop view s.v"),
        (
            AView({**PROPERTIES, SHARD_ID: REDACTED}, "select 1", create=False),
            "`mvsink.shard_id`|drop view",
        ),
    ],
)
def test_what_cannot_be_read_is_an_error(catalog, words):
    with pytest.raises(UnreadableView, match=f"(?s)cannot read the view s.v.*({words})"):
        read_published(catalog, "s.v")


@pytest.mark.parametrize(
    ("uri", "location", "same"),
    [
        ("/shards/s/hourly", "file:/shards/s/hourly/table", True),
        ("/shards/s/hourly", "file:///shards/s/hourly/table/", True),
        ("/shards/s/hourly", "/shards/s/hourly/table", True),
        ("/a b/100%/m", "file:/a%20b/100%25/m/table", True),
        ("s3://bucket/s/m", "s3://bucket/s/m/table", True),
        ("s3://bucket/s/m", "s3://other/s/m/table", False),
        ("s3://key:se/cret@bucket/s/m", "s3://key:se/cret@bucket/s/m/table", True),
        ("/shards/s/hourly", "file:/warehouse/clone_of_it", False),
        ("/shards/s/hourly", "file:/shards/s/hourly/table/copy", False),
    ],
)
def test_a_table_is_the_model_only_where_the_shard_is(uri, location, same):
    """Spark copies properties to clones and to tables that are made like it."""
    marker = Marker(uri, "id-1", -1, "")
    digits = marker.table_properties()[TABLE_MARKER]
    expected = marker if same else None
    assert table_marker(digits, location) == expected
    properties = {TABLE_MARKER: digits}
    assert shown_shard({"location": location, "table_properties": properties}) == expected
    listed = f"[delta.minReaderVersion=3,{TABLE_MARKER}={digits},mvsink.shard_id=id-1]"
    assert shown_shard({"location": location, "table properties": listed}) == expected


def test_no_property_of_a_table_has_credentials():
    """Readers of the log see the properties, and can decode the marker."""
    kept = Marker("s3://key:se/cret@bucket/s/m", "id-1", -1, "").table_properties()
    shown = f"{kept} {bytes.fromhex(kept[TABLE_MARKER]).decode()}"
    assert "s3://bucket/s/m" in shown
    assert "key:" not in shown and "cret" not in shown


def test_a_table_without_our_marker_shows_no_shard():
    assert shown_shard({"location": "/shards/s/m/table", "table properties": "[a=b]"}) is None
    assert table_marker("zz", "/shards/s/m/table") is None
    assert table_marker("", "/shards/s/m/table") is None


def test_the_marker_of_a_table_is_not_redacted():
    """`hourly` has `url` in it, which Spark takes for a secret."""
    digits = MARKER.table_properties()[TABLE_MARKER]
    assert not any(word in digits for word in ("url", "secret", "password", "token", "key"))

    class Tables(AView):
        def query(self, query, what):
            rows = super().query(query, what)
            where = [("Provider", "delta", ""), ("Location", "file:/shards/s/hourly/table", "")]
            return [*rows, *where] if query.startswith("describe extended") else rows

    shown = read_published(Tables(MARKER.table_properties(), "", redacted=(URI, SHARD_ID)), "s.hourly")
    assert (shown.uri, shown.shard_id, shown.table, shown.columns) == (
        MARKER.uri,
        "id-1",
        True,
        ("id", "# x", "Comment"),
    )
