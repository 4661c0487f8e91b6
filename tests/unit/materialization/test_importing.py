"""Which table a model imports, and whether its columns fit. The runs are in
tests/functional/cli/test_import.py.
"""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.engine import Column
from dbt.adapters.mvsink.engine.exact_casts import cast_is_exact
from dbt.adapters.mvsink.engine.types import parse_type
from dbt.adapters.mvsink.exceptions import CannotImport, InvalidOption
from dbt.adapters.mvsink.materialization.context import ImportSource
from dbt.adapters.mvsink.materialization.importing import Existing, contents_query, source_of

NODE = {"unique_id": "model.shop.orders", "name": "orders"}
TABLE = Existing("`s`.`orders`", "table")
RENAMED = Existing("`s`.`orders_before_import`", "table")
SOURCE = ImportSource("`s`.`orders`", "orders_before_import")
IMPORTED = {  # the variable, what there is, what is imported
    "no variable": ((), {}, None),
    "another model": (["customers"], {"orders": TABLE}, None),
    "by name": ("orders", {"orders": TABLE}, SOURCE),
    "by id": (["x", "model.shop.orders"], {"orders": TABLE}, SOURCE),
    "by relation": (["s.orders"], {"orders": TABLE}, SOURCE),
    "a given relation": ({"model.shop.orders": "`p`.`orders`"}, {}, ImportSource("`p`.`orders`", "")),
    "renamed by an import that did not end": (
        ["orders"],
        {"orders_before_import": RENAMED},
        ImportSource("`s`.`orders_before_import`", "orders_before_import"),
    ),
}
REFUSED = {
    "nothing": ({}, "there is no table of this name"),
    "a view": ({"orders": Existing("`s`.`orders`", "view")}, "`s`.`orders` is a view"),
    "a model of ours": ({"orders": Existing("`s`.`orders`", "view", True)}, "it is maintained already"),
    "a published table": ({"orders": Existing("`s`.`orders`", "table", True)}, "it is maintained already"),
    "a name that is taken": ({"orders": TABLE, "orders_before_import": TABLE}, "which is taken"),
    "a view in the place of the renamed": (
        {"orders_before_import": Existing("v", "view")},
        "there is no table of this name",
    ),
}


@pytest.mark.parametrize(("wanted", "existing", "source"), IMPORTED.values(), ids=IMPORTED)
def test_what_is_imported(wanted, existing, source):
    assert source_of(wanted, NODE, "s.orders", "orders", existing.get) == source


@pytest.mark.parametrize(("existing", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(existing, words):
    with pytest.raises(CannotImport, match="s.orders: cannot be imported") as raised:
        source_of("orders", NODE, "s.orders", "orders", existing.get)
    assert words in raised.value.msg


def test_a_wrong_value_of_the_variable():
    with pytest.raises(InvalidOption, match="mvsink_import.*\n.*7\n.*a model's name, or a list of them"):
        source_of(7, NODE, "s.orders", "orders", {}.get)


class Engine:
    def __init__(self, **columns):
        self.of = columns

    def columns(self, query):
        assert query == "select * from `s`.`orders`"
        return list(self.of.items())


def columns(**types):
    return [Column(name, parse_type(text, name)) for name, text in types.items()]


def test_the_rows_have_the_views_columns_by_name_whatever_its_case():
    engine = Engine(Amount="decimal(5,2)", extra="string", ID="int")
    query = contents_query(
        "s.orders", SOURCE, engine, columns(id="bigint", amount="decimal(7,2)", note="string")
    )
    assert query == (
        "select cast(`ID` as bigint) `id`, cast(`Amount` as decimal(7,2)) `amount`, cast(null as string) `note` "
        "from `s`.`orders`"
    )


MISFITS = {
    "none in common": ({"a": "int"}, {"b": "int"}, "`s`.`orders` has none of its columns: a"),
    "a narrower type": (
        {"a": "bigint", "b": "int"},
        {"a": "int", "b": "int"},
        "a is bigint there and int here",
    ),
    "another type": ({"a": "string"}, {"a": "date"}, "a is string there and date here"),
    "nested": ({"a": "array<int>"}, {"a": "array<bigint>"}, "a is array<int> there"),
}


@pytest.mark.parametrize(("stored", "wanted", "words"), MISFITS.values(), ids=MISFITS)
def test_columns_that_do_not_fit(stored, wanted, words):
    with pytest.raises(CannotImport) as raised:
        contents_query("s.orders", SOURCE, Engine(**stored), columns(**wanted))
    assert words in raised.value.msg


NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal(3,0)", "decimal(12,2)", "decimal(38,18)")


@pytest.mark.parametrize("new", NUMBERS)
@pytest.mark.parametrize("old", NUMBERS)
def test_a_wider_type_holds_the_extreme_values_of_the_narrower_one(old, new):
    def largest(text):
        if "(" not in text:
            bits = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}[text]
            return 2**bits - 1, 0
        precision, scale = map(int, text[8:-1].split(","))
        return 10 ** (precision - scale) - 1, scale

    (value, scale), (most, digits) = largest(old), largest(new)
    holds = value <= most and scale <= digits
    wider = cast_is_exact(parse_type(old, ""), parse_type(new, ""))
    assert holds or not wider  # nothing is lost
    assert wider or not holds or ("decimal" in old and "decimal" not in new)
