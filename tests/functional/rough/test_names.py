"""Names of models, schemas and columns with a meaning elsewhere: to Spark's redaction,
to SQL, to a file system.
"""

from __future__ import annotations

import pytest

from tests.functional.rough.base import Case, Table

pytestmark = pytest.mark.usefixtures("small_data")

SECRETS = ("hourly", "my_url", "token", "secret", "password_reset", "accesskey")
WORDS = ("select", "order", "user", "timestamp")
DIGITS = ("1st_orders", "2024_orders")
OTHERS = ("Mixed_Case", "_private", "n" * 120)
ROWS = "select id, concat('v', id * :n) as v from range(4)"
COLUMNS = (
    "a b", " lead", "a.b", "a`b", "a'b", 'a"b', "a,b", "a;b", "a(b)", "a{b}", "a[b]", "a<b>", "a=b", "a:b", "a/b", "a\\\\b", "a%20b", "a$b",
    "a-b", "a@b", "a*b", "*", "?", "1st", "2024", "1e5", "select", "from", "null", "true", "timestamp", "id", "count", "value", "key",
    "größe", "名前", "имя", "🙂", "e\u0301", "\u00e9", "${env:HOME}", "password", "url", "token", "rows", "time", "diff", "hash", "error",
    "_mv", "mv_time", "copies", "l" * 200,
)  # fmt: skip


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


class TestModels(Table):
    CASES = {name: Case(ROWS) for name in (*SECRETS, *WORDS, *DIGITS, *OTHERS)} | {
        "aliased": Case(ROWS, configs={"alias": "url_of_the_token"}),
        "elsewhere": Case(ROWS, configs={"schema": "secret_passwords"}),
    }


class TestColumns(Table):
    CASES = {
        "all_at_once": Case("select " + ", ".join(f"id * {number} + :n as {quoted(name)}" for number, name in enumerate(COLUMNS)) + " from range(5)"),
        "line_break": Case("select id as `a\nb`, :n as `c\td` from range(3)"),
        "first_is_odd": Case("select concat('x', id) as `the key, of 'all'`, id * :n as `Ünit price (€)` from range(50)"),
        "only_a_reserved_word": Case("select id * :n as `select` from range(5)"),
        "fields": Case("select id, named_struct('a b', id, 'select', :n, '1st', 'x', 'größe', null, 'A', id) as s from range(5)".replace("null", "cast(null as int)")),
        "like_the_view_s_own": Case("select id as b, id * :n as r, id as t, id as h, 1 as d, 'm' as m, 3 as copies from range(5)"),
    }  # fmt: skip
