"""dbt's views as parts of queries: their texts, and what keeps one a view."""

from __future__ import annotations

import json

import pytest

from dbt.adapters.mvsink.references.inlined import LONGEST, inlined
from dbt.adapters.mvsink.user_sql.words import parts
from tests.support.engines import NoEngine

SESSION = {"spark.sql.ansi.enabled": "true", "spark.sql.shuffle.partitions": "4", "spark.master": "local"}
QUERY = "select n.id, count(*) from shop.`Names` n join shop.orders on shop.orders.name = n.id group by 1"
TEXT = "with source as (select * from raw.people) select id, name from source -- all"


class Catalog(NoEngine):
    """Views by name: their texts, their own columns if they are not those of the text, and what
    else the catalog keeps.
    """

    def __init__(self, views, columns=(("id", "int"), ("name", "string")), texts=None):
        self.views, self.own, self.texts = views, list(columns), texts
        self.asked = []

    def query(self, query, what):
        self.asked.append(query)
        name = parts(query.split("extended ")[1].split(" as json")[0])[-1]
        described = {
            "view_text": self.views[name],
            "view_catalog_and_namespace": "spark_catalog.default",
            "view_creation_spark_configuration": {"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "UTC"},
            "columns": [{"name": column} for column, _ in self.own],
            "view_query_output_columns": [column for column, _ in self.own],
            **(self.texts or {}),
        }  # fmt: skip
        return [(json.dumps({key: value for key, value in described.items() if value is not None}),)]

    def facts(self, query, what):
        if query == "set":
            return list(SESSION.items())
        if query.startswith("set "):
            return [(query[4:], {"spark.sql.session.timeZone": "UTC"}.get(query[4:], "<undefined>"))]
        return [("4.1.0", "UTC", "spark_catalog", "default", "bigint", 1)]

    def columns(self, query):
        return [*self.own, *(self.of_text or self.own)]

    of_text: list[tuple[str, str]] | None = None


@pytest.fixture(autouse=True)
def invocation(request):
    """Texts are read once per invocation."""
    return request.node.nodeid


def read(catalog, invocation, query=QUERY, views=("shop.`Names`",), below=(), allowed=()):
    return inlined(catalog, query, views, below.__contains__, allowed, invocation)


def test_a_text_takes_the_place_of_the_view_under_its_alias(invocation):
    outcome = read(Catalog({"names": TEXT}), invocation)
    assert outcome.query == QUERY.replace("shop.`Names` n", f"(\n{TEXT}\n) n")
    assert outcome.names == ("raw.people",) and outcome.refused == {}


def test_ctes_are_no_relations(invocation):
    text = "with a as (select 1 id from raw.b), c (id, name) as (select id, 'x' from a) select * from c as d"
    assert read(Catalog({"names": text}), invocation).names == ("raw.b",)


def test_views_below_a_view_are_read_through_too(invocation):
    views = {"names": "select * from shop.inner_one", "inner_one": "select 1 as id, 'a' as name from raw.t"}
    outcome = read(Catalog(views), invocation, below={("shop", "inner_one")})
    assert "from (\nselect 1 as id, 'a' as name from raw.t\n) as `inner_one`" in outcome.query
    assert set(outcome.names) == {"shop.inner_one", "raw.t"}
    assert "shop.inner_one" in read(Catalog(views), invocation + "again").query


def test_a_view_is_read_once_per_invocation(invocation):
    catalog = Catalog({"names": TEXT})
    assert read(catalog, invocation) == read(catalog, invocation)
    assert len(catalog.asked) == 1
    read(catalog, invocation, query="select 1", views=("shop.other",))
    assert len(catalog.asked) == 1, "a query that does not name it"


def test_renamed_and_added_columns_keep_the_views_names_and_order(invocation):
    catalog = Catalog({"names": "select * from raw.people"})
    catalog.of_text = [("id", "int"), ("since", "date"), ("name", "string")]
    assert (
        "select `id` as `id`, `name` as `name` from (\nselect * from raw.people\n)"
        in read(catalog, invocation).query
    )
    catalog = Catalog({"names": "select * from raw.people"}, [("number", "int"), ("name", "string")])
    catalog.texts, catalog.of_text = (
        {"view_query_output_columns": ["id", "name"]},
        [("id", "int"), ("name", "string")],
    )
    assert "select `id` as `number`, `name` as `name` from" in read(catalog, invocation + "b").query


def kept(**described):
    return Catalog({"names": TEXT}, texts=described)


def settings(**values):
    named = {f"spark.sql.{key.replace('_', '.')}": value for key, value in values.items()}
    return kept(view_creation_spark_configuration={"spark.sql.ansi.enabled": "true", **named})


def other_columns(*columns):
    catalog = Catalog({"names": TEXT})
    catalog.of_text = list(columns)
    return catalog


OTHERS = "what it reads has other columns than when it was created"
REFUSED = {
    "no text": (kept(view_text=None), "Spark does not show its text"),
    "no settings": (kept(view_creation_spark_configuration=None), "Spark does not show its text"),
    "a shard's": (
        Catalog({"names": 'select /* mvsink {"files": "", "shard_id": "", "uri": "u", "version": 1} */ 1 as id'}),
        "it shows a shard",
    ),
    "the clock": (Catalog({"names": "select current_date() id from a.b"}), "current_date() differs from run to run"),
    "a function of the user's": (Catalog({"names": "select mine(1) id from a.b"}), "mine() is not known"),
    "no schema": (Catalog({"names": "select id, name from people"}), "it names people without a schema"),
    "no schema, but an alias": (
        Catalog({"names": "select p.id, p.name from people as p"}),
        "it names people without a schema",
    ),
    "a catalog": (Catalog({"names": "select id from c.raw.people"}), "it names c.raw.people with its catalog"),
    "a collation": (kept(collation="UTF8_LCASE"), "it has a collation of its own"),
    "another schema": (kept(view_catalog_and_namespace="spark_catalog.shop"), "it was created in spark_catalog.shop"),
    "another value": (
        kept(view_creation_spark_configuration={"spark.sql.ansi.enabled": "false"}),
        "it was created with another spark.sql.ansi.enabled",
    ),
    "a value that the session has not": (
        settings(caseSensitive="true"),
        "it was created with another spark.sql.caseSensitive",
    ),
    "a value that it has not": (
        kept(view_creation_spark_configuration={}),
        "it was created with another spark.sql.ansi.enabled",
    ),
    "another type": (other_columns(("id", "bigint"), ("name", "string")), OTHERS),
    "a column gone": (other_columns(("id", "int"), ("nom", "string")), OTHERS),
    "a column twice": (other_columns(("id", "int"), ("id", "int"), ("name", "string")), OTHERS),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_text_that_could_mean_something_else_stays_a_view(case, invocation):
    catalog, reason = REFUSED[case]
    outcome = read(catalog, invocation)
    assert outcome.query == QUERY and outcome.names == ()
    [(name, shown)] = outcome.refused.items()
    assert name == ("shop", "names") and reason in shown


def test_texts_do_not_grow_without_bound(invocation):
    levels = {
        f"v{n}": f"select * from shop.v{n + 1} union all select * from shop.v{n + 1}" for n in range(30)
    }
    views = {**levels, "v30": "select id, name from raw.people"}
    below = {("shop", name) for name in views}
    outcome = read(Catalog(views), invocation, "select * from shop.v0", ("shop.v0",), below)
    assert len(outcome.query) <= LONGEST
    assert any("characters" in reason for reason in outcome.refused.values())


def test_views_that_read_each_other_by_twos_are_each_put_together_once(invocation):
    """A step of a path is one of two; there are a billion paths."""
    views = {
        f"{side}{step}": f"select a.id, b.name from shop.a{step + 1} a join shop.b{step + 1} b on a.id = b.id"
        for step in range(30)
        for side in "ab"
    }
    views |= {"a30": TEXT, "b30": TEXT}
    below = {("shop", name) for name in views}
    outcome = read(Catalog(views), invocation, "select * from shop.a0", ("shop.a0",), below)
    assert len(outcome.query) <= LONGEST
    assert any("characters" in reason for reason in outcome.refused.values())


def test_a_function_that_the_model_allows_is_allowed_in_its_views(invocation):
    catalog = Catalog({"names": "select mine(id) id from a.b"})
    assert read(catalog, invocation, allowed=("mine",)).refused == {}


def test_how_files_are_written_is_no_setting_of_a_view(invocation):
    assert read(settings(parquet_writeLegacyFormat="false"), invocation).refused == {}
