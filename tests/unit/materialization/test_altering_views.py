"""Publishing by `ALTER VIEW`, which readers do not notice, where only the view's text changes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from uuid import UUID

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.materialization import grants
from dbt.adapters.mvsink.materialization.publish import Docs, alter_statement, publish
from dbt.adapters.mvsink.shard import Antichain, ShardState
from dbt.adapters.mvsink.shard_sql.published_view import PublishedView, read_marker

SCHEMA = pa.schema([("id", pa.int64()), ("it's", pa.string())])
STATE = ShardState(7, UUID(int=1), SCHEMA, 1, since=Antichain.of(5), upper=Antichain.of(10))
HANDLE = SimpleNamespace(uri="/shards/s/m", files_in={}.get, column_names=None, state=lambda: STATE)
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
    """Spark that refuses the statements that begin with ``refused``."""

    def __init__(self, refused="nothing"):
        self.refused, self.ran = refused, []

    def query(self, query, what):
        raise EngineError("no grants here", "42601")

    def execute(self, statement, what):
        self.ran.append(statement)
        if statement.startswith(self.refused):
            raise EngineError("refused")


@pytest.fixture(autouse=True)
def no_grants(monkeypatch):
    monkeypatch.setattr(grants, "_offered", False)


@pytest.mark.parametrize("docs", [Docs(), Docs("ours", {"id": ""}, {"team": "a"})], ids=["none", "the same"])
def test_a_view_of_which_only_the_text_changes_is_altered(docs):
    statement = alter_statement("`s`.`m`", HANDLE, STATE, VIEW, docs, ORDER)
    opening, text = statement.split(" as\n", 1)
    assert opening == "alter view `s`.`m`"
    assert text.index("`it's`") < text.index("`id`")
    assert read_marker(text).version == 7


@pytest.mark.parametrize(("view", "docs"), OTHERS.values(), ids=OTHERS)
def test_what_altering_would_lose_or_leave_as_it_was_is_written_by_creating(view, docs):
    assert alter_statement("`s`.`m`", HANDLE, STATE, view, docs, ORDER) == ""
    engine = Engine()
    publish(engine, "`s`.`m`", HANDLE, view, docs, ORDER)
    [statement] = engine.ran
    assert statement.startswith("create or replace view `s`.`m`")


def test_a_text_that_needs_short_names_needs_the_list_of_columns():
    names = [f"{'long' * 15}_{i}" for i in range(600)]
    state = replace(STATE, schema=pa.schema([(name, pa.int64()) for name in names]))
    view = replace(VIEW, columns=tuple(names))
    assert alter_statement("`s`.`m`", HANDLE, state, view, Docs(), names) == ""
    few = replace(STATE, schema=pa.schema([(name, pa.int64()) for name in names[:6]]))
    assert alter_statement("`s`.`m`", HANDLE, few, replace(view, columns=tuple(names[:6])), Docs(), ())


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
