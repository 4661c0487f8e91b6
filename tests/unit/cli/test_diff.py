"""`mvsink diff`, with DuckDB for dbt's connection: points, keys, targets, and what is shown."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.support.dbt_on_duckdb import install, node, unique_test
from tests.unit.cli.runs import FIRST, MODEL, SECOND, THIRD, run, three_runs, writer
from tests.unit.cli.shop import NOW, write


@pytest.fixture
def engine(monkeypatch):
    model = node(columns={"id": node()})
    return install(
        monkeypatch,
        model__shop__orders=model,
        test_1=unique_test("unique_orders_id", MODEL, column_name="id"),
        test_2=unique_test("unique_orders_v", MODEL, where="v > 'a'", column_name="v"),
    )


@pytest.fixture
def orders(shop, engine):
    return three_runs(shop)


def side(point, time, rows, invocation):
    return {"point": point, "time": time, "rows": rows, "invocation_id": invocation}


def test_the_json(shop, orders):
    answer = shop.as_json("diff", "orders")
    uri = str(shop.at("s.orders"))
    place = {"target": "dev", "relation": "s.orders", "uri": uri}
    assert answer == {
        "model": "orders",
        "a": {**place, **side("-1", SECOND, 5, "bbbb2222-0"), "computed_through": SECOND},
        "b": {**place, **side("latest", THIRD, 4, "cccc3333-0"), "computed_through": THIRD},
        "key": ["id"],
        "key_source": "test unique_orders_id",
        "differs": True,
        "only_in_a": 1,
        "only_in_b": 0,
        "changed": 1,
        "repeated_keys": 0,
        "errors": 0,
        "changed_values": {"v": 1},
        "columns": {
            "compared": ["id", "v", "odd `name"],
            "only_in_a": [],
            "only_in_b": [],
            "retyped": {},
        },
        "sample": [
            {"a": {"id": None, "v": "c", "odd `name": 5}, "b": {"id": None, "v": "z", "odd `name": 5}, "copies": 1},
            {"a": {"id": 1, "v": "a", "odd `name": 5}, "b": None, "copies": 1},
        ],
    }  # fmt: skip


COUNTS = {  # only in A, only in B, changed, repeated keys
    "the newest run": ((), (1, 0, 1, 0)),
    "two runs back": (("-2",), (1, 2, 2, 1)),
    "a run and a time": (("aaaa", "2025-11-20 13:00"), (0, 2, 1, 1)),
    "backwards": (("latest", "-1"), (0, 1, 1, 0)),
    "the same": (("cccc", "latest"), (0, 0, 0, 0)),
    "no key": (("--no-key",), (2, 1, 0, 0)),
    "two columns": (("--key", "id", "--key", "V"), (2, 1, 0, 0)),
    "two columns at once": (("--key", "id,v"), (2, 1, 0, 0)),
    "a key that is not unique": (("-2", "--key", "odd `name"), (3, 4, 0, 1)),
}


@pytest.mark.parametrize(("arguments", "counts"), COUNTS.values(), ids=COUNTS)
def test_counts(shop, orders, arguments, counts):
    answer = shop.as_json("diff", "orders", *arguments)
    assert tuple(answer[key] for key in ("only_in_a", "only_in_b", "changed", "repeated_keys")) == counts
    code = shop.run("diff", "orders", *arguments, "--detailed-exitcode").exit_code
    assert code == (2 if any(counts) else 0) and answer["differs"] == any(counts)


def test_the_table(shop, orders):
    assert shop.run("diff", "orders", "-2").stdout.splitlines() == [
        "orders, paired by id (test unique_orders_id)",
        "  A  -2: 3 rows as of 2025-11-20T12:00:00Z, left by run aaaa1111-0 of 2025-11-20T12:00:00Z",
        "  B  latest: 4 rows as of 2025-11-20T14:00:00Z, left by run cccc3333-0 of 2025-11-20T14:00:00Z",
        "",
        "  1 row only in A",
        "  2 rows only in B",
        "  2 rows changed: v in 2, odd `name in 1",
        "  1 key occurs more than once on a side: the rows are not paired",
        "",
        "     id    v            odd `name",
        "  !  NULL  'c' -> 'z'   5",
        "  !  2     'b' -> NULL  5 -> 6",
        "  -  1     'a'          5",
        "  +  3     'd'          5  (2 copies)",
    ]
    assert "  no differences" in shop.run("diff", "orders", "cccc", "latest").stdout.splitlines()
    shown = shop.run("diff", "orders", "-2", "--sample", "1").stdout
    assert shown.splitlines()[-1] == "  ... --sample shows more"
    assert "  ! " not in shop.run("diff", "orders", "--sample", "0").stdout


def test_only_the_key_and_what_changed_is_shown_unless_all_is_asked_for(shop, orders):
    """The last run changed `v` alone."""
    shown = {
        options: shop.run("diff", "orders", *options).stdout for options in ((), ("-x",), ("--all-columns",))
    }
    assert shown[("-x",)] == shown[("--all-columns",)]
    assert "id  v" in shown[()] or "id    v" in shown[()]
    assert "odd `name" not in shown[()].split("changed: ")[1] and "odd `name" in shown[("-x",)]


def test_markdown(shop, orders):
    lines = shop.run("diff", "orders", "-2", "--output", "markdown").stdout.splitlines()
    assert lines[0] == "### orders" and "| only in B | 2 |" in lines and "| odd \\`name | 1 |" in lines
    assert "- rows are paired by id (test unique\\_orders\\_id)" in lines
    start = lines.index("```diff")
    assert lines[start + 5 :] == ["+  3     'd'          5  (2 copies)", "```"]


def test_two_targets(shop, orders):
    schema = pa.schema(
        [("ID", pa.int64()), ("v", pa.string()), ("odd `name", pa.string()), ("new", pa.int8())]
    )
    prod = writer(shop, "t.orders", "prod", schema)
    run(prod, FIRST, "dddd4444-0", (2, "b", "5", 1, 1), (3, "d", "5", 1, 1))
    answer = shop.as_json("diff", "orders", "--against", "prod")
    assert (answer["a"]["target"], answer["a"]["relation"], answer["a"]["time"]) == (
        "prod",
        "t.orders",
        FIRST,
    )
    assert (answer["b"]["target"], answer["b"]["relation"], answer["b"]["time"]) == ("dev", "s.orders", THIRD)
    assert answer["columns"] == {
        "compared": ["id", "v"],
        "only_in_a": ["new"],
        "only_in_b": [],
        "retyped": {"odd `name": ["string", "bigint"]},
    }
    assert [answer[key] for key in ("only_in_a", "only_in_b", "changed", "repeated_keys")] == [0, 2, 1, 1]
    shown = shop.run("diff", "orders", "dddd", "aaaa", "--against", "prod").stdout
    assert "  A  prod dddd: 2 rows as of" in shown and "  B  dev aaaa: 3 rows as of" in shown
    assert "columns only in A, not compared: new" in shown
    assert "not compared: odd `name, which is string in A and bigint in B" in shown
    assert shop.run("diff", "orders", "--against", "nowhere").exit_code == 2


WRONG = {
    "an unknown model": (("nope",), 2, "Known: orders"),
    "no such point": (("orders", "yesterday"), 2, "Expected: `latest`"),
    "too far back": (("orders", "-9"), 2, "it has 3 runs"),
    "before since": (("orders", "2025-11-20 11:00"), 2, "`retain_history` (1 day by default)"),
    "no such column": (("orders", "--key", "no"), 2, "Expected: any of id, v"),
    "a key and none": (("orders", "--key", "id", "--no-key"), 2, "exclude each other"),
    "a misspelled option": (("orders", "--kee", "id"), 2, "--kee"),
}


@pytest.mark.parametrize(("arguments", "code", "words"), WRONG.values(), ids=WRONG)
def test_wrong_usage(shop, orders, arguments, code, words):
    result = shop.run("diff", *arguments)
    assert (result.exit_code, result.stdout) == (code, "") and words in result.stderr


def test_failures(shop, orders, engine, monkeypatch):
    write(shop.shard("s.empty", "empty"), NOW, ("a", 1))
    [file] = (shop.at("s.empty") / "table").rglob("*.parquet")
    file.unlink()
    result = shop.run("diff", "empty", "latest")
    assert result.exit_code == 1 and "is gone" in result.stderr
    monkeypatch.setattr(engine, "query", lambda *_: (_ for _ in ()).throw(AssertionError))
    assert shop.run("diff", "orders").exit_code == 1
    shop.shard("s.new", "new")
    result = shop.run("diff", "new")
    assert result.exit_code == 1 and "new: not refreshed yet" in result.stderr
