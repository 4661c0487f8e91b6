"""What a correction replaces and what it is computed from are decided together."""

from __future__ import annotations

import pytest

from tests.support.incremental_database import Database, Table
from tests.support.incremental_narrowed import restricted

ROWS = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)]
T = Table({"a": "int", "b": "int"}, ROWS, [((1, 1), -1), ((4, 2), 1)])
STILL = Table({"a": "int", "b": "int"}, ROWS)


class TestRowO:
    """The rows that are replaced share the keys that are shown; so those must be read by these."""

    @pytest.mark.parametrize(
        "query",
        [
            "select b, count(*) n from t group by a, b",
            "select b, count(*) n from t group by b, a",
            "select b, max(a) m, count(*) n from t group by a + 0, a, b",
            "select b, n from (select a, b, count(*) n from t group by a, b) g where n > 0",
            "with g as (select a, b, count(*) n from t group by a, b) select n, b from g",
            "select b, count(*) over (partition by a, b) n from t",
            "select b, sum(count(*)) over (partition by a, b) n from t group by a, b",
            "select b from (select distinct a, b from t) d",
            "select b from (select distinct a, b, count(*) n from t group by a, b) d",
            "select b from (select a, b from t union select a, b from s where a > 2) u",
            "select b from (select a, b from t except all select a, b from s where a > 2) u",
            "select b from (select a, b from t intersect select a, b from s) u",
            "select x.b, count(*) n from t x join s y on x.a = y.a group by y.a, x.b",
        ],
    )
    def test_row_o_a_group_key_that_is_not_shown(self, query):
        database = Database({"t": T, "s": STILL})
        changes, _ = restricted(database, query)
        assert len(changes) > 1
        assert changes == [database.difference(query)] * len(changes)
