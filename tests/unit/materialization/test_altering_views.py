"""Publishing by `ALTER VIEW`, which readers do not notice, where only the view's text changes."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from uuid import UUID

import pyarrow as pa
import pytest

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.materialization.publish import Docs, ViewNotReadable, WantedView, publish
from dbt.adapters.mvsink.shard import Antichain, DataFile, ShardState
from dbt.adapters.mvsink.shard_sql.published_view import PublishedView, read_marker

SCHEMA = pa.schema([("id", pa.int64()), ("it's", pa.string())])
STATE = ShardState(7, UUID(int=1), SCHEMA, 1, since=Antichain.of(5), upper=Antichain.of(10))
HANDLE = SimpleNamespace(
    uri="/shards/s/m", files_in={}.get, column_names=None, shard_id=STATE.shard_id, state=lambda: STATE
)
VIEW = PublishedView("/shards/s/m", str(STATE.shard_id), 3, "f00", "ours", ("it's", "id"), {}, {"team": "a"})
ORDER = ("it's", "id")
OTHERS = {
    "no view": (None, Docs()),
    "its place was changed by hand": (replace(VIEW, marked=False), Docs()),
    "of an earlier release": (replace(VIEW, versioned=True), Docs()),
    "another place": (replace(VIEW, uri="/shards/s/n"), Docs()),
    "another shard": (replace(VIEW, shard_id="x"), Docs()),
    "a column less": (replace(VIEW, columns=("id",)), Docs()),
    "another order of columns": (replace(VIEW, columns=("id", "it's")), Docs()),
    "comments of columns that people wrote": (replace(VIEW, column_comments={"id": "the key"}), Docs()),
    "comments of columns from dbt": (VIEW, Docs(column_comments={"id": "the key"})),
    "another comment": (VIEW, Docs(comment="theirs")),
    "another property": (VIEW, Docs(properties={"owner": "b"})),
}


class Engine:
    """Spark that refuses the statements that begin with ``refused``, and whose catalog replaces the
    text ``present``, if there is one.
    """

    def __init__(self, refused="nothing", unreadable="", present=""):
        self.present, self.replaced = present, ""
        self.refused, self.ran, self.read, self.unreadable = refused, [], [], unreadable

    def replace_view_text(self, view, text, replaceable):
        self.replaced = self.present and replaceable(self.present) and text
        return bool(self.replaced)

    def files_views(self, paths):
        return nullcontext({})

    def query(self, query, what):
        if what != "read once":
            raise EngineError("no grants here", "42601")
        self.read.append(query)
        if self.unreadable:
            raise EngineError(self.unreadable)
        return []

    def execute(self, statement, what):
        self.ran.append(statement)
        if statement.startswith(self.refused):
            raise EngineError("refused")


@pytest.mark.parametrize("docs", [Docs(), Docs("ours", {"id": ""}, {"team": "a"})], ids=["none", "the same"])
def test_a_view_of_which_only_the_text_changes_is_altered(docs):
    wanted = WantedView("`s`.`m`", HANDLE, STATE, VIEW, docs, ORDER)
    text, engine = wanted.altered(), Engine()
    publish(engine, "`s`.`m`", HANDLE, VIEW, docs, ORDER)
    assert engine.ran == [f"alter view `s`.`m` as\n{text}"]
    assert text.index("`it's`") < text.index("`id`")
    assert read_marker(text).version == 7


@pytest.mark.parametrize(("view", "docs"), OTHERS.values(), ids=OTHERS)
def test_what_altering_would_lose_or_leave_as_it_was_is_written_by_creating(view, docs):
    assert WantedView("`s`.`m`", HANDLE, STATE, view, docs, ORDER).altered() == ""
    engine = Engine()
    publish(engine, "`s`.`m`", HANDLE, view, docs, ORDER)
    [statement] = engine.ran
    assert statement.startswith("create or replace view `s`.`m`")


def test_a_text_that_needs_short_names_needs_the_list_of_columns(monkeypatch):
    names = [f"{'long' * 15}_{i}" for i in range(600)]
    state = replace(STATE, schema=pa.schema([(name, pa.int64()) for name in names]))
    view = replace(VIEW, columns=tuple(names))
    assert WantedView("`s`.`m`", HANDLE, state, view, Docs(), names).altered() == ""
    few = replace(STATE, schema=pa.schema([(name, pa.int64()) for name in names[:6]]))
    view = replace(view, columns=tuple(names[:6]))
    wanted = WantedView("`s`.`m`", HANDLE, few, view, Docs(), ())
    assert wanted.altered()
    assert wanted.replaces(wanted.altered())
    monkeypatch.setattr(limits, "LONG_VIEW", 100)
    short = WantedView("`s`.`m`", HANDLE, few, view, Docs(), ())
    assert not short.altered() and not short.replaces(wanted.altered())


def present(**marker):
    """The text of the view that shows the earlier version 3, with other values of its marker."""
    wanted = WantedView("`s`.`m`", HANDLE, STATE, VIEW, Docs(), ORDER)
    return replace(wanted.marker, **{"version": 3, "files": "f00", **marker}).within("select 1")


@pytest.mark.parametrize("form", ["the same", "another form"])
def test_where_the_columns_stay_the_text_is_replaced_in_the_catalog(form):
    engine = Engine(present=present(**({} if form == "the same" else {"form": form})))
    publish(engine, "`s`.`m`", HANDLE, VIEW, Docs(), ORDER)
    assert engine.ran == [] and read_marker(engine.replaced).version == 7


@pytest.mark.parametrize(
    "text",
    [present(shape="other"), present(shape=""), present(shard_id="x"), "select 1 as id"],
    ids=["other types", "an earlier release's", "another shard", "another writer's"],
)
def test_another_text_is_altered(text):
    """It was replaced after this run had read it, or what columns it has is not known."""
    engine = Engine(present=text)
    publish(engine, "`s`.`m`", HANDLE, VIEW, Docs(), ORDER)
    assert [each.split(" ", 2)[:2] for each in engine.ran] == [["alter", "view"]]


def test_a_view_that_cannot_be_altered_is_replaced_with_all_that_was_on_it():
    engine = Engine(refused="alter")
    publish(engine, "`s`.`m`", HANDLE, VIEW, Docs(), ORDER)
    altered, created = engine.ran
    assert altered.startswith("alter view")
    assert created.startswith("create or replace view") and "comment 'ours'" in created
    assert "'team' = 'a'" in created


def test_a_view_that_cannot_be_created_either_is_an_error():
    with pytest.raises(EngineError):
        publish(Engine(refused=("alter", "create")), "`s`.`m`", HANDLE, VIEW, Docs(), ORDER)


def file(place: str, **numbers):
    return DataFile(f"batches/{place}/part-0.parquet", **{**FILE, **numbers})


FILE = {
    "size": 9,
    "rows": 5,
    "min_time": 5,
    "max_time": 5,
    "min_diff": 1,
    "max_diff": 1,
    "errors": 0,
    "hashes": 0,
}
MANY = {"rows": 10**7, "hashes": 10**7}
BASE = file("a" * 32, **MANY)  # so many that the text has a scan for them alone
RECENT = file("b" * 32, hashes=5, min_time=6, max_time=6, min_diff=-1)


def published(engine, view, files, names=ORDER):
    """The view after a publication of these files."""
    state = replace(STATE, files=tuple(files))
    handle = SimpleNamespace(
        uri="/shards/s/m",
        files_in={each.directory: {each.path: 9} for each in files}.get,
        column_names=None,
        shard_id=STATE.shard_id,
        state=lambda: state,
    )
    publish(engine, "`s`.`m`", handle, view, Docs(), names)
    return replace(VIEW, form=read_marker(engine.ran[-1].split(" as\n", 1)[-1].split("as\n", 1)[-1]).form)


def test_a_text_of_a_new_form_is_read_once_before_the_view_shows_it():
    engine = Engine()
    view = published(engine, None, [BASE])
    assert len(engine.read) == 1
    view = published(engine, view, [file("c" * 32, **MANY)])  # other files, the same form
    assert len(engine.read) == 1
    view = published(engine, view, [BASE, RECENT])
    assert len(engine.read) == 3 and BASE.path[8:40] not in engine.read[-1]  # the text, and the other scan
    another = replace(RECENT, path=f"batches/{'d' * 32}/part-0.parquet", min_time=7, max_time=7)
    for recent in ([another], [RECENT, another]):  # one recent batch or several are one form
        view = published(engine, view, [BASE, *recent])
        assert len(engine.read) == 3
    published(engine, replace(view, form=""), [BASE, RECENT])  # of an earlier release
    assert len(engine.read) == 5


def test_a_text_of_few_rows_is_read_in_one_scan():
    engine = Engine()
    published(engine, None, [replace(BASE, rows=7, hashes=7), RECENT])
    assert len(engine.read) == 1


def test_a_text_that_readers_cannot_read_is_not_shown():
    engine = Engine(unreadable="FAILED_READ_FILE")
    with pytest.raises(ViewNotReadable, match="still shows the version before: FAILED_READ_FILE"):
        published(engine, None, [BASE])
    assert engine.ran == []


@pytest.mark.parametrize("words", ["TABLE_OR_VIEW_ALREADY_EXISTS", "TABLE_OR_VIEW_NOT_FOUND"])
@pytest.mark.parametrize(("times", "shown"), [(3, True), (limits.MEETINGS + 1, False)])
def test_two_runs_that_replace_a_view_at_once_both_succeed(words, times, shown):
    """Spark drops the view and creates it, so each may meet the other's half."""

    class Meeting(Engine):
        def execute(self, statement, what):
            super().execute(statement, what)
            if len(self.ran) <= times:
                raise EngineError(f"Database Error\n  [{words}] Cannot create table or view `s`.`m`")

    engine = Meeting()
    if shown:
        assert publish(engine, "`s`.`m`", HANDLE, None, Docs()) is STATE
        assert len(engine.ran) == times + 1
    else:
        with pytest.raises(EngineError, match=words):
            publish(engine, "`s`.`m`", HANDLE, None, Docs())
